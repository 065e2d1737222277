/* pty_kill.h - sends SIGKILL to every process of a session (setsid), in any process group.
 *
 * Scans /proc, about a millisecond per turn of the loop, until no process is left. Without /proc,
 * only the leader's process group is killed. Loop thread only. */
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include "base/str.h"
#include "execd/tree/slice.h"

struct pty_kill {
    struct slice slice;
    DIR *dir; /* /proc; NULL: no kill is under way */
    pid_t session;
    int looks_left;
    bool found; /* this scan found a process */
    void (*on_done)(struct pty_kill *k);
};

/* `session` must be led by a child of ours that is not reaped yet. on_done is called once, possibly
 * from within this call. */
void pty_kill_start(struct pty_kill *k, struct loop *loop, pid_t session,
                    void (*on_done)(struct pty_kill *k));
void pty_kill_stop(struct pty_kill *k); /* cancels; never started is fine */

/* Parses /proc/PID/stat. Returns the process group if the process is in `session` and alive, else
 * 0. */
pid_t pty_kill_group(struct str stat, pid_t session);
