/* seccomp.h - the system calls a sandbox may use: an allow-list, compiled ahead to BPF. It is for
 * PID 1; the workload may use fewer, see base/nesting.h. */
#pragma once

#include "base/err.h"
#include <linux/filter.h>

struct seccomp_program {
    struct sock_filter *code; /* heap */
    unsigned short count;
};

/* Compiles the default profile for this machine's architecture; calls of any other one, 32-bit and
 * x32 included, get ENOSYS. A refused call gets EPERM, or ENOSYS where libraries have a fallback
 * (io_uring) and for calls newer than the table. Done once, at start. -ENOTSUP on a machine that
 * the table does not cover. */
int seccomp_compile(struct seccomp_program *ret, struct err *e);
void seccomp_program_done(struct seccomp_program *p); /* NULL and a zeroed struct are fine */

/* Installs it for the calling thread and its descendants; needs no_new_privs. No allocation: safe
 * between clone and exec. (Not named load, which is libseccomp's.) 0 or -errno. */
int seccomp_install(const struct seccomp_program *p);
