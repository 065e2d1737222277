/* pty_kill.h - SIGKILL to everyone of a session (setsid), in whatever process group.
 *
 * Looks through /proc, about a millisecond per turn of the loop, until nobody is left. Where there
 * is no /proc, the leader's own group has to do. Loop thread only. */
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include "base/str.h"
#include "execd/tree/slice.h"

struct pty_kill {
    struct slice slice;
    DIR *dir; /* of /proc; NULL: no kill is under way */
    pid_t session;
    int looks_left;
    bool found; /* somebody, during this look */
    void (*on_done)(struct pty_kill *k);
};

/* `session` is led by a child of ours that was not reaped yet. on_done comes once, also from within
 * this call. */
void pty_kill_start(struct pty_kill *k, struct loop *loop, pid_t session,
                    void (*on_done)(struct pty_kill *k));
void pty_kill_stop(struct pty_kill *k); /* goes no further; never started is fine */

/* The group of a process of that session which still runs, from the text of /proc/PID/stat; 0 for
 * any other. */
pid_t pty_kill_group(struct str stat, pid_t session);
