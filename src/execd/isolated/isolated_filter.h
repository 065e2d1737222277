/* isolated_filter.h - seccomp filter of isolated sessions, in addition to any outer filter. It
 * denies system calls that ordinary programs do not need but attackers use. */
#pragma once

#include "base/defs.h"

enum { ISOLATED_FILTER_DIGEST_MAX = 64 + 1 };

/* Installs the filter for the calling thread and its children; needs no_new_privs. Does not
 * allocate: safe between fork and exec. -ENOTSUP on an architecture without a list; else 0 or
 * -errno. */
int isolated_filter_install(void) MUST_USE;
/* The SHA-256 of the BPF program, in hexadecimal. */
void isolated_filter_digest(char out[ISOLATED_FILTER_DIGEST_MAX]);
