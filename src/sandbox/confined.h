/* confined.h - starts a program of the host in namespaces and a root of its own, as a list of steps
 * that a child does before it executes the program. Unpacking of layers and programs for object
 * storage use it; sandboxes have spawn.h. */
#pragma once

#include "base/err.h"
#include "base/proc.h"
#include "sandbox/host.h"

/* Runs in the child, which has one thread and the caller's memory: system calls only. */
struct confined_step {
    const char *name; /* begins its error */
    int (*run)(void *user, struct err *e);
};

struct confined {
    uint64_t namespaces; /* CLONE_NEW*, beside those for PIDs, mounts, IPC, host name and cgroups */
    const struct confined_step *steps; /* the last one executes the program */
    size_t step_count;
    void *user;
    int steps_ms_max; /* all of them */
};

/* Starts the child, in a session of its own with all signals at their defaults, and returns when
 * the program runs. On error nothing is left of it. The caller must reap its children itself. */
int confined_start(const struct confined *c, struct proc *ret, struct err *e);

/* Parts of steps. */

/* Makes all mounts private and opens <state>/mnt, where a root can be mounted. */
int confined_open_place(const struct host *host, struct err *e);
/* The mounted directory becomes the root; the old one is detached. */
int confined_pivot(int root, struct err *e);

struct confined_limit {
    int which; /* RLIMIT_* */
    uint64_t value;
};

int confined_limit(const struct confined_limit *limits, size_t count, struct err *e);
/* Becomes root of the user namespace with the capabilities `keep` (bits) and no new privileges. */
int confined_enter_user(int userns, uint64_t keep, struct err *e);
