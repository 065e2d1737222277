/* pty_proc.h - a shell on a terminal of its own, or on three pipes: started, fed, heard, ended.
 *
 *   idle ──► starting ──it runs──► running ──its exit, reaped──► draining ──► idle
 *                └──it cannot run──────────────────────────────────────────────┘
 *
 * Always the leader of a new session. It is over when the leader is and all it had written by then
 * was given; who else holds the terminal or the pipes loses them. Embedded in its owner. Loop
 * thread only, nothing waits. */
#pragma once

#include "base/err.h"
#include "execd/core/child.h"
#include "execd/core/reaper.h"
#include "execd/pty/pty_frames.h"
#include "net/loop.h"

enum {
    PTY_READ_BYTES = 32 << 10, /* what one call of on_output brings at most */
    PTY_COLS = 80,
    PTY_ROWS = 24,
};

struct pty_proc;

struct pty_proc_ops {
    /* It runs (NULL), or cannot and is idle again. Never from within pty_proc_start. */
    void (*on_start)(struct pty_proc *p, const struct err *why_not);
    /* Borrowed. False: no more until pty_proc_resume. */
    bool (*on_output)(struct pty_proc *p, enum pty_channel from, struct str data);
    void (*on_room)(struct pty_proc *p); /* input is taken again */
    /* It ended, -1 by a signal, and is idle again; all of its output was given. */
    void (*on_end)(struct pty_proc *p, int exit_code);
};

struct pty_spec { /* borrowed for the call */
    bool is_pty;
    const char *const *argv; /* argv[0] is the file to run */
    const char *const *env;
    const char *cwd; /* NULL = ours */
    const struct child_place *place;
};

enum { PTY_END_IN, PTY_END_OUT, PTY_END_ERR, PTY_ENDS };

/* A descriptor of ours. A terminal has one for both directions, PTY_END_OUT. */
struct pty_end {
    struct loop_io io;
    struct pty_proc *proc;
    int fd;
    uint32_t
        watched; /* events; 0 = not at all, so that a full client's does not even tell its end */
    enum pty_channel channel;
    size_t due; /* bytes still to deliver, once the leader was reaped */
};

struct pty_proc { /* read-only for others */
    const struct pty_proc_ops *ops;
    struct loop *loop;
    struct reaper *reaper;
    struct reaper_child child;
    struct loop_io report; /* of the spawn; fd is -EBADF once it was read */
    struct loop_task task; /* delivers what was due */
    struct pty_end ends[PTY_ENDS];
    int slave; /* kept open, so that a terminal nobody has open is no error */
    char *program;
    int exit_code;
    bool is_pty, paused;
    enum pty_proc_state { PTY_IDLE, PTY_STARTING, PTY_RUNNING, PTY_DRAINING } state;
};

void pty_proc_init(struct pty_proc *p, struct loop *loop, struct reaper *reaper,
                   const struct pty_proc_ops *ops);
/* Forgets it; whoever runs gets SIGKILL. No callback comes any more. */
void pty_proc_done(struct pty_proc *p);

/* From idle. 0: on_start follows, and input is taken already. */
int pty_proc_start(struct pty_proc *p, const struct pty_spec *spec, struct err *e) MUST_USE;

/* Bytes taken; 0 = full, on_room will come. -EPIPE when nobody reads its input any more. */
ssize_t pty_proc_write(struct pty_proc *p, struct str data);
void pty_proc_pause(struct pty_proc *p);  /* no more output */
void pty_proc_resume(struct pty_proc *p); /* from the end of this turn on */

void pty_proc_resize(struct pty_proc *p, uint16_t cols, uint16_t rows); /* of a terminal */
/* To the job in the foreground of its terminal, or to the shell's group. */
void pty_proc_signal(const struct pty_proc *p, int signo);

/* The shell's process and session; 0 once it was reaped. */
static inline pid_t pty_proc_pid(const struct pty_proc *p)
{
    return p->child.pid;
}
