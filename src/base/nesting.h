/* nesting.h - the system calls that PID 1 of a sandbox has, to make smaller sandboxes inside it,
 * and that the workload has not. One list, read by both sides: src/sandbox adds it to the filter of
 * PID 1, and execd takes it away again from each child. */
#pragma once

#include <sched.h>

#include "base/defs.h"

/* Given to PID 1 whole; their numbers on this machine. */
extern const int nesting_calls[];
extern const size_t nesting_call_count;

/* Namespaces that PID 1 may ask clone for. Not among them: user, where one would be root again. */
#define NESTING_CLONE_FLAGS                                                                        \
    (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)

/* All of that is EPERM from now on, and clone3 ENOSYS, for the calling thread and whatever it
 * becomes. Needs no_new_privs or CAP_SYS_ADMIN. No allocation: safe between fork and exec. 0 or
 * -errno. */
int nesting_forbid(void) MUST_USE;
