/* reaper.h - the one place that waits for children, ours and every orphan's, and tells whoever
 * watches a number. Loop thread only.
 *
 * Nobody else may wait for a child of this process, or an exit is told to the wrong one. */
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
    /* Comes once, when the process was reaped: its number is free for others from then on. */
    void (*on_exit)(struct reaper_child *c, const struct proc_exit *how);
};

void reaper_init(struct reaper *r);
/* In the turn in which the child was made, before anything is reaped. */
void reaper_watch(struct reaper *r, struct reaper_child *c, pid_t pid,
                  void (*on_exit)(struct reaper_child *, const struct proc_exit *));
void reaper_unwatch(struct reaper_child *c); /* it is reaped all the same; not watched is fine */

/* Reaps one that has ended, watched or not: 1, 0 when none has, -ECHILD when there is no child. */
int reaper_reap(struct reaper *r);
