/* reaper.h - the only place that waits for children of this process, including orphans it inherits,
 * and reports each exit to the watcher of that pid. Loop thread only.
 *
 * No other code may wait for a child of this process: it could take an exit that belongs to a
 * watcher. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "base/proc.h"

enum { REAPER_BUCKETS = 64 };

struct reaper {
    struct list watched[REAPER_BUCKETS]; /* of struct reaper_child, by pid */
};

struct reaper_child {
    struct list link;
    pid_t pid; /* 0: not watched */
    /* Called once, after the process was reaped: the kernel may reuse its pid from then on. */
    void (*on_exit)(struct reaper_child *c, const struct proc_exit *how);
};

void reaper_init(struct reaper *r);
/* Call it in the loop turn that created the child, before anything is reaped. */
void reaper_watch(struct reaper *r, struct reaper_child *c, pid_t pid,
                  void (*on_exit)(struct reaper_child *, const struct proc_exit *));
void reaper_unwatch(struct reaper_child *c); /* the child is still reaped; no-op if not watched */

/* Reaps one exited child, watched or not. 1 if it did, 0 when none has exited, -ECHILD when there
 * is no child. */
int reaper_reap(struct reaper *r);
