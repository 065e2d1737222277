/* session.h - shell sessions: long-lived shells with an id, and a queue of runs. Loop thread only.
 *
 * A session executes one run at a time; up to SESSION_WAITING_MAX others wait in order of arrival.
 * Its shell starts with its first run, in the environment of a command (envs.h), and is restarted
 * by the first run after it went down. */
#pragma once

#include "base/id.h"
#include "base/list.h"
#include "execd/shell/shell.h"

enum {
    SESSIONS_MAX = 256,
    SESSION_WAITING_MAX = 16,
    SESSIONS_WAITING_BYTES_MAX = 8 << 20, /* of the code of all waiting runs, in all sessions */
};

struct sessions; /* the table of all sessions */
struct session;
struct telemetry;

struct session_ops {
    /* As in shell_owner. */
    bool (*on_output)(void *user, enum shell_stream from, struct str data);
    void (*on_end)(void *user, const struct shell_end *end); /* the last call */
};

struct session_run {         /* owned by the caller until on_end or session_run_forget */
    struct session *session; /* NULL: not started. The other fields are private to session.c */
    struct list link;
    const struct session_ops *ops;
    void *user;
    char *text; /* setup and code of a waiting run */
    size_t setup_bytes, code_bytes;
    uint64_t timeout_ms;
};

struct session_wait { /* a request that waits for an interrupt to take effect */
    struct list link;
    void (*on_done)(struct session_wait *w);
};

void sessions_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct sessions **ret);
void sessions_free(struct sessions *all); /* NULL is fine; frees each, without callbacks */
void sessions_signal(struct sessions *all, int signo);            /* as shell_signal() */
void sessions_observe(struct sessions *all, struct telemetry *t); /* reports every end to `t` */

/* -EAGAIN when there are too many. `cwd` NULL is execd's own. Starts no process. */
int session_new(struct sessions *all, const char *cwd, struct session **ret,
                struct err *e) MUST_USE;
struct session *sessions_find(const struct sessions *all, struct str id); /* NULL = unknown */
const char *session_id(const struct session *s);
/* Ends every process of the session; its runs end with "signal: killed". */
void session_free(struct session *s);

/* -EAGAIN and a message when the run would have to wait and the queue is full. */
int session_check_room(const struct session *s, const struct shell_job *job,
                       struct err *e) MUST_USE;
/* Starts the run now or in its turn; the caller has checked for room. -ENOMEM. on_end may be called
 * from within. */
int session_run(struct session *s, struct session_run *run, const struct shell_job *job,
                const struct session_ops *ops, void *user, struct err *e) MUST_USE;
void session_run_resume(struct session_run *run);
/* Drops the run's callbacks: it is interrupted, or never begins. */
void session_run_forget(struct session_run *run);

/* Interrupts the current run. False when there is none; else on_done is called when it has ended,
 * unless the caller removes `w` from its list before. */
bool session_interrupt(struct session *s, struct session_wait *w);
