/* child.h - what every process of the workload goes through between fork and exec: out of PID 1's
 * rights, into a user and a directory. Nothing here allocates, locks or logs. */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

struct child_box;
struct child_user;

/* What tells that the kernel killed processes of the workload for want of memory: memory.events
 * (v2) or memory.oom_control (v1) of its group. */
struct child_memory {
    int events_fd;        /* 0 = there is none */
    uint64_t limit_bytes; /* 0 = unknown */
};

/* Where a process belongs; the same for all of a sandbox, but for those of isolated sessions. Who
 * starts one hands the groups to proc_spec, and the rest to child_settle(). */
struct child_place {
    struct proc_groups groups;
    bool limit; /* to caps_sandbox, without nesting.h: the workload has less than PID 1 */
    /* Of an isolated session: enters its namespaces and settles there, instead of what
     * child_settle() does; returns in another process. `box` is for it. NULL in all other places.
     */
    int (*enter)(const struct child_place *place, const struct child_user *user, const char *cwd,
                 const char *name, struct proc_step *ret_step);
    const struct child_box *box;
    struct child_memory memory;
};

/* A process that place.enter() started has a process group that another process signals for it:
 * this signal to that other process is SIGKILL to the whole group. */
#define CHILD_KILL_GROUP SIGRTMIN

struct child_user {
    bool change; /* false: as ours, and the rest is not looked at */
    uint32_t uid, gid;
    const gid_t *groups; /* supplementary */
    size_t group_count;
};

/* The step alone, for who mixes it with others. */
int child_become(const struct child_user *user);
/* The same without giving away standard output and error. */
int child_set_ids(const struct child_user *user);

/* chdir(2), through no link of /proc to an open file: all of ours still are, and some are the
 * host's. */
int child_enter(const char *cwd);

/* Limits capabilities and system calls, becomes the user (who then owns its standard output and
 * error, if they are ours to give), changes to `cwd` (NULL stays). `name` is for the step's
 * sentence only. Becoming who one is already needs no privilege. With place->enter
 * all of it is left to that function. */
int child_settle(const struct child_place *place, const struct child_user *user, const char *cwd,
                 const char *name, struct proc_step *ret_step);
