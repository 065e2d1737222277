/* pty.h - terminal sessions: a shell that outlives its clients, and the last part of its output.
 * Loop thread only.
 *
 * A session has at most one viewer. The shell starts when a viewer calls pty_begin(), and again if
 * the shell had ended; byte offsets of the output continue. Output is also read without a viewer,
 * for the replay. Of ended sessions, only the newest PTYS_ENDED_REPLAY_BYTES_MAX of replay are
 * kept. At PTYS_MAX a new session replaces the oldest one that has neither a viewer nor a running
 * shell. */
#pragma once

#include "base/id.h"
#include "execd/pty/pty_kill.h"
#include "execd/pty/pty_proc.h"
#include "execd/pty/pty_replay.h"

enum {
    PTYS_MAX = 128,
    PTYS_ENDED_REPLAY_BYTES_MAX = 4 << 20,
};

struct ptys; /* the table of all sessions */

struct pty_viewer_ops {
    /* The shell runs. The replay can be read now; later output comes through on_output. False: no
     * output until pty_resume(). */
    bool (*on_ready)(void *user);
    void (*on_fail)(void *user, const struct err *why); /* it cannot run; the viewer is released */
    /* Borrowed, PTY_READ_BYTES at most. False: no more until pty_resume(). */
    bool (*on_output)(void *user, enum pty_channel from, struct str data);
    void (*on_room)(void *user); /* pty_write() accepts data again */
    /* The shell ended, -1 by a signal; all of its output was delivered. The viewer is released. */
    void (*on_end)(void *user, int exit_code);
    void (*on_lost)(void *user, bool taken_over); /* released: another viewer, or session gone */
};

struct pty { /* read-only for other files */
    char id[ID_UUID_MAX];
    struct pty_replay replay;
    struct pty_proc proc;

    /* The remaining fields are private to pty.c. */
    struct ptys *all;
    char *cwd, *command;              /* NULL = execd's own; an interactive shell */
    struct list link;                 /* in ptys.all; the last created or ended is at the back */
    const struct pty_viewer_ops *ops; /* NULL: no viewer */
    void *user;
    bool hung_up; /* the viewer has disconnected and will not come back */
    bool live;    /* on_ready was called */
    bool removed; /* not found any more; freed when nothing runs */
    struct pty_kill kill;
    void (*on_removed)(void *user); /* NULL: no callback wanted */
    void *removed_user;
};

void ptys_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
              struct ptys **ret);
/* Kills the process groups of running shells. The only callback is on_lost. NULL is fine. */
void ptys_free(struct ptys *all);
void ptys_signal(struct ptys *all, int signo); /* to each foreground job and each shell */
/* Sends SIGHUP, as a closing terminal does: a shell at its prompt ignores SIGTERM. */
void ptys_hang_up(struct ptys *all);
struct pty *ptys_find(const struct ptys *all, struct str id); /* NULL = unknown */

/* Creates a session; nothing runs yet. `command` is what the shell runs, STR_NONE for none. Both
 * strings are copied and contain no NUL. -EAGAIN: all sessions are in use; -ENOMEM. */
int pty_new(struct ptys *all, struct str cwd, struct str command, struct pty **ret,
            struct err *e) MUST_USE;

static inline bool pty_is_held(const struct pty *p)
{
    return p->ops && !p->hung_up;
}

bool pty_is_running(const struct pty *p);

/* Makes `user` the viewer; a previous viewer gets on_lost. */
void pty_hold(struct pty *p, const struct pty_viewer_ops *ops, void *user);
void pty_release(struct pty *p);     /* removes the viewer; the shell continues */
void pty_note_hangup(struct pty *p); /* the viewer disconnected: another may take its place */
/* Called by the viewer. on_ready or on_fail follows, possibly from within. is_pty applies to a new
 * shell; a running one is not changed. */
void pty_begin(struct pty *p, bool is_pty);

ssize_t pty_write(struct pty *p, struct str data); /* like pty_proc_write() */
void pty_resume(struct pty *p);

/* Sends SIGKILL to every process of its session (setsid). It can no longer be found; its viewer
 * still gets on_end. on_done (may be NULL) is called once all were killed, possibly from within. */
void pty_remove(struct pty *p, void (*on_done)(void *user), void *user);
void pty_forget_removal(struct pty *p); /* cancels on_done */
