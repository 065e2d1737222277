/* nesting.h - system calls that PID 1 of a sandbox may use, to make nested sandboxes, and its
 * workload may not. src/sandbox adds this list to the seccomp filter of PID 1; execd removes it
 * from each child. */
#pragma once

#include <sched.h>

#include "base/defs.h"

/* Allowed to PID 1 with any arguments; the numbers are this machine's. */
extern const int nesting_calls[];
extern const size_t nesting_call_count;

/* Namespaces that PID 1 may pass to clone. CLONE_NEWUSER is not among them: it would give all
 * capabilities again. */
#define NESTING_CLONE_FLAGS                                                                        \
    (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)

/* From now on these calls fail with EPERM, and clone3 with ENOSYS, for the calling thread and its
 * children, also after exec. Needs no_new_privs or CAP_SYS_ADMIN. No allocation: safe between fork
 * and exec. 0 or -errno. */
int nesting_forbid(void) MUST_USE;
