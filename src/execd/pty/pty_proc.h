/* pty_proc.h - a shell process on its own terminal or on three pipes.
 *
 *   idle ──► starting ──it runs──► running ──its exit, reaped──► draining ──► idle
 *                └──it cannot run──────────────────────────────────────────────┘
 *
 * The shell always leads a new session (setsid). It is over when the leader has ended and
 * everything written until then was delivered; other processes then lose the terminal or the pipes.
 * Embedded in its owner. Loop thread only, does not block. */
#pragma once

#include "base/err.h"
#include "execd/core/child.h"
#include "execd/core/child_proc.h"
#include "execd/pty/pty_frames.h"
#include "net/loop.h"

enum {
    PTY_READ_BYTES = 32 << 10, /* maximum per call of on_output */
    PTY_COLS = 80,
    PTY_ROWS = 24,
};

struct pty_proc;

struct pty_proc_ops {
    /* The shell runs (NULL), or failed to start and is idle again. Never called from within
     * pty_proc_start(). */
    void (*on_start)(struct pty_proc *p, const struct err *why_not);
    /* Borrowed. False: no more until pty_proc_resume(). */
    bool (*on_output)(struct pty_proc *p, enum pty_channel from, struct str data);
    void (*on_room)(struct pty_proc *p); /* pty_proc_write() accepts data again */
    /* The shell ended, -1 by a signal, and is idle again; all of its output was delivered. */
    void (*on_end)(struct pty_proc *p, int exit_code);
};

struct pty_spec { /* borrowed during the call */
    bool is_pty;
    const char *const *argv; /* argv[0] is the file to execute */
    const char *const *env;
    const char *cwd; /* NULL = execd's own */
    const struct child_place *place;
};

enum { PTY_END_IN, PTY_END_OUT, PTY_END_ERR, PTY_ENDS };

/* A descriptor of execd. A terminal uses only PTY_END_OUT, for both directions. */
struct pty_end {
    struct loop_io io;
    struct pty_proc *proc;
    int fd;
    uint32_t watched; /* epoll events; 0 = none: while paused, not even EPOLLHUP */
    enum pty_channel channel;
    size_t due; /* bytes still to deliver after the leader was reaped */
};

struct pty_proc { /* read-only for other files */
    const struct pty_proc_ops *ops;
    struct loop *loop;
    struct reaper *reaper;
    struct child_proc child;
    struct loop_task task; /* delivers output in PTY_DRAINING */
    struct pty_end ends[PTY_ENDS];
    int slave; /* kept open: without it, reads of the master fail with EIO */
    int exit_code;
    bool is_pty, paused;
    enum pty_proc_state { PTY_IDLE, PTY_STARTING, PTY_RUNNING, PTY_DRAINING } state;
};

void pty_proc_init(struct pty_proc *p, struct loop *loop, struct reaper *reaper,
                   const struct pty_proc_ops *ops);
/* Kills a running shell with SIGKILL and frees all resources. No callback follows. */
void pty_proc_done(struct pty_proc *p);

/* Only from idle. 0: on_start follows, and input is accepted already. */
int pty_proc_start(struct pty_proc *p, const struct pty_spec *spec, struct err *e) MUST_USE;

/* Returns the bytes accepted; 0 = full, on_room follows. -EPIPE: the shell's input is closed. */
ssize_t pty_proc_write(struct pty_proc *p, struct str data);
void pty_proc_pause(struct pty_proc *p);  /* stops output */
void pty_proc_resume(struct pty_proc *p); /* takes effect at the end of this turn of the loop */

void pty_proc_resize(struct pty_proc *p, uint16_t cols, uint16_t rows); /* only for a terminal */
/* Signals the foreground job of its terminal, or else the shell's process group. */
void pty_proc_signal(const struct pty_proc *p, int signo);

/* The shell's pid, which is also its session id; 0 once it was reaped. */
static inline pid_t pty_proc_pid(const struct pty_proc *p)
{
    return p->child.pid;
}
