/* pty.h - terminal sessions: each a shell that outlives its clients, and the last of its output.
 * Loop thread only.
 *
 * At most one viewer holds a session. Its shell is started when a viewer begins, and again when one
 * begins after it ended; numbers of output bytes go on. Without a viewer output is read all the
 * same, for the replay. Of sessions that ended, the newest PTYS_ENDED_REPLAY_BYTES_MAX of replay
 * stay. At PTYS_MAX a new session takes the place of the oldest that nobody holds and nothing runs
 * in. */
#pragma once

#include "base/id.h"
#include "execd/pty/pty_kill.h"
#include "execd/pty/pty_proc.h"
#include "execd/pty/pty_replay.h"

enum {
    PTYS_MAX = 128,
    PTYS_ENDED_REPLAY_BYTES_MAX = 4 << 20,
};

struct ptys; /* the table of all */

struct pty_viewer_ops {
    /* The shell runs. The replay is to be had now, and all that is printed later comes by
     * on_output. False: nothing until pty_resume. */
    bool (*on_ready)(void *user);
    void (*on_fail)(void *user, const struct err *why); /* it cannot run; the viewer is let go */
    /* Borrowed, PTY_READ_BYTES at most. False: no more until pty_resume. */
    bool (*on_output)(void *user, enum pty_channel from, struct str data);
    void (*on_room)(void *user); /* pty_write takes something again */
    /* The shell ended, -1 by a signal; all of its output was given. The viewer is let go. */
    void (*on_end)(void *user, int exit_code);
    void (*on_lost)(void *user, bool taken_over); /* let go, for another or with the session */
};

struct pty { /* read-only for others */
    char id[ID_UUID_MAX];
    struct pty_replay replay;
    struct pty_proc proc;

    /* The rest is ours. */
    struct ptys *all;
    char *cwd, *command;              /* NULL = ours; an interactive shell */
    struct list link;                 /* among all, the one that ended or was made last behind */
    const struct pty_viewer_ops *ops; /* NULL: nobody holds it */
    void *user;
    bool hung_up; /* whoever holds it will not come back */
    bool live;    /* on_ready was said */
    bool removed; /* not to be found any more; gone once nothing runs */
    struct pty_kill kill;
    void (*on_removed)(void *user); /* NULL: nobody wants to hear */
    void *removed_user;
};

void ptys_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
              struct ptys **ret);
/* NULL is fine. Kills the groups of those that run, without a word to anyone but on_lost. */
void ptys_free(struct ptys *all);
void ptys_signal(struct ptys *all, int signo); /* to the job and the shell of each that runs */
/* As a terminal does that closes; shells at a prompt do not end for less. */
void ptys_hang_up(struct ptys *all);
struct pty *ptys_find(const struct ptys *all, struct str id); /* NULL = unknown */

/* Makes a session; nothing runs yet. `command` is what the shell runs, STR_NONE for none; both are
 * copied and hold no NUL. -EAGAIN when all are in use; -ENOMEM. */
int pty_new(struct ptys *all, struct str cwd, struct str command, struct pty **ret,
            struct err *e) MUST_USE;

static inline bool pty_is_held(const struct pty *p)
{
    return p->ops && !p->hung_up;
}

bool pty_is_running(const struct pty *p);

/* Makes `user` the viewer; whoever was it before has lost it. */
void pty_hold(struct pty *p, const struct pty_viewer_ops *ops, void *user);
void pty_release(struct pty *p);     /* nobody holds it any more; it runs on */
void pty_note_hangup(struct pty *p); /* of its viewer, who need not be asked to let go */
/* For the viewer: on_ready or on_fail follows, also from within. is_pty is of a new shell; one that
 * runs stays what it is. */
void pty_begin(struct pty *p, bool is_pty);

ssize_t pty_write(struct pty *p, struct str data); /* as pty_proc_write */
void pty_resume(struct pty *p);

/* Ends it: everyone of its session gets SIGKILL. It is not found any more; its viewer still hears
 * of the end. on_done (may be NULL) comes once all were killed, also from within. */
void pty_remove(struct pty *p, void (*on_done)(void *user), void *user);
void pty_forget_removal(struct pty *p); /* nobody is to be told */
