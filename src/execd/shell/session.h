/* session.h - shell sessions: living shells with an id, and runs that wait for their turn. Loop
 * thread only.
 *
 * A session takes one run at a time; up to SESSION_WAITING_MAX others wait, in the order in which
 * they came. Its shell starts with its first run, in the environment of a command (envs.h), and
 * again with the first run after it went down. */
#pragma once

#include "base/id.h"
#include "base/list.h"
#include "execd/shell/shell.h"

enum {
    SESSIONS_MAX = 256,
    SESSION_WAITING_MAX = 16,
    SESSIONS_WAITING_BYTES_MAX = 8 << 20, /* of the code of all that wait, in all sessions */
};

struct sessions; /* the table of all */
struct session;
struct telemetry;

struct session_ops {
    /* As shell_owner's. */
    bool (*on_output)(void *user, enum shell_stream from, struct str data);
    void (*on_end)(void *user, const struct shell_end *end); /* the last call */
};

struct session_run {         /* the caller's, until on_end or session_run_forget */
    struct session *session; /* NULL: not under way. The rest is ours */
    struct list link;
    const struct session_ops *ops;
    void *user;
    char *text; /* setup and code of one that waits */
    size_t setup_bytes, code_bytes;
    uint64_t timeout_ms;
};

struct session_wait { /* whoever waits for an interrupt to act */
    struct list link;
    void (*on_done)(struct session_wait *w);
};

void sessions_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct sessions **ret);
void sessions_free(struct sessions *all); /* NULL is fine; as session_free of each, but silent */
void sessions_signal(struct sessions *all, int signo);            /* as shell_signal() */
void sessions_observe(struct sessions *all, struct telemetry *t); /* it hears of every end */

/* -EAGAIN when there are too many. `cwd` NULL is ours. Starts nothing. */
int session_new(struct sessions *all, const char *cwd, struct session **ret,
                struct err *e) MUST_USE;
struct session *sessions_find(const struct sessions *all, struct str id); /* NULL = unknown */
const char *session_id(const struct session *s);
/* Ends every process of it; runs end with "signal: killed". */
void session_free(struct session *s);

/* -EAGAIN and a sentence when it would have to wait, and too much waits already. */
int session_check_room(const struct session *s, const struct shell_job *job,
                       struct err *e) MUST_USE;
/* Runs it now or when its turn comes; there is room. -ENOMEM. on_end may come from within. */
int session_run(struct session *s, struct session_run *run, const struct shell_job *job,
                const struct session_ops *ops, void *user, struct err *e) MUST_USE;
void session_run_resume(struct session_run *run);
/* Nobody follows it any more: it is interrupted, or never begins. */
void session_run_forget(struct session_run *run);

/* Interrupts what runs. False when nothing does; else on_done comes when that is over, unless `w`
 * is taken out of its list before. */
bool session_interrupt(struct session *s, struct session_wait *w);
