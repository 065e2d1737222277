/* child_proc.h - a child process of the loop: its start, the report whether it runs, its exit.
 *
 *     child_proc_start() ── on_start(NULL) ── on_exit()
 *                       └── on_start(why) ─── on_exit(), unless stopped
 *
 * on_start comes before on_exit also for a process that ends at once. All zero is a child_proc
 * without a process. Loop thread only. */
#pragma once

#include "execd/core/reaper.h"
#include "net/loop.h"

struct child_proc;

struct child_proc_ops {
    const char *name; /* for messages: "a command" */
    /* `why` is NULL when the program runs, else it says which step failed. */
    void (*on_start)(struct child_proc *p, const struct err *why);
    void (*on_exit)(struct child_proc *p, const struct proc_exit *how); /* it was reaped */
};

struct child_proc {
    pid_t pid; /* 0: no process, or reaped: the kernel may have reused the pid */

    /* The remaining fields are private. */
    const struct child_proc_ops *ops;
    struct loop *loop;
    struct reaper_child reaped;
    struct loop_io report; /* of proc_spawn_start, while `reporting` */
    bool reporting;
    bool *stopped; /* in a callback of proc_on_exit */
};

/* Returns before the exec; the spec may then be freed. On failure there is no child. */
int child_proc_start(struct child_proc *p, struct loop *loop, struct reaper *reaper,
                     const struct proc_spec *spec, const struct child_proc_ops *ops,
                     struct err *e) MUST_USE;
/* Calls on_start now if the report is there but the loop has not seen it yet. */
void child_proc_check(struct child_proc *p);
/* No callback comes afterwards, and `p` may be freed or started again. Does not kill the process,
 * which is still reaped. No-op without a process. */
void child_proc_stop(struct child_proc *p);
