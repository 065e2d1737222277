/* isolated_filter.h - system calls that are closed in an isolated session, whatever filter is
 * around it already: a list of what a program has no use for and an attacker has. */
#pragma once

#include "base/defs.h"

enum { ISOLATED_FILTER_DIGEST_MAX = 64 + 1 };

/* For the calling thread and whatever it becomes; needs no_new_privs. No allocation: safe between
 * fork and exec. -ENOTSUP on a machine the list was not written for; else 0 or -errno. */
int isolated_filter_install(void) MUST_USE;
/* The SHA-256 of the program, as hexadecimal digits. */
void isolated_filter_digest(char out[ISOLATED_FILTER_DIGEST_MAX]);
