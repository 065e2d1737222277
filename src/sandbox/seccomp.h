/* seccomp.h - the system calls a sandbox may use: an allow-list, compiled ahead to BPF. It is PID
 * 1's; the workload has that less nesting.h of base. */
#pragma once

#include "base/err.h"
#include <linux/filter.h>

struct seccomp_program {
    struct sock_filter *code; /* heap */
    unsigned short count;
};

/* Compiles the default profile for this machine's architecture; every other one, 32-bit and x32
 * included, is ENOSYS. Not allowed is EPERM, or ENOSYS where libraries have a fallback
 * (io_uring) and for calls younger than this table. Done once, at start.
 * -ENOTSUP on a machine the table was not written for. */
int seccomp_compile(struct seccomp_program *ret, struct err *e);
void seccomp_program_done(struct seccomp_program *p); /* NULL and a zeroed struct are fine */

/* Installs it for the calling thread and all it will become; needs no_new_privs. No allocation:
 * safe between clone and exec. (Not called load: that name is libseccomp's.) 0 or -errno. */
int seccomp_install(const struct seccomp_program *p);
