/* isolated.h - isolated sessions: sandboxes inside the sandbox. A session is created by request,
 * executes runs, and ends by request, after an idle time, or when execd ends. Loop thread only.
 *
 *   new ──► starting ──its box is ready──► ready ──isolated_end(), idle, its box died──► gone
 *              └──a step failed──► gone                       └──with persist──► retained ──► gone
 *
 * Foreground runs go one at a time to a single shell (shell.h) that lives in the box. Background
 * runs are separate commands (command.h) in the box, in any number. Commit and reset change the
 * layer below the runs and need exclusive use of the session. */
#pragma once

#include "base/arena.h"
#include "base/id.h"
#include "execd/core/child_proc.h"
#include "execd/isolated/isolated_box.h"
#include "net/loop.h"

enum {
    ISOLATED_MAX = 64,                            /* sessions, including retained ones */
    ISOLATED_WRITABLE_MAX = BOX_WRITABLE_MAX - 1, /* one entry is for /tmp */
    ISOLATED_ARENA_BYTES_MAX = 1 << 20,
    ISOLATED_IDLE_S = 1800,
    ISOLATED_RETAIN_S = 3600,
    ISOLATED_SECONDS_MAX = 365 * 24 * 3600,
    ISOLATED_WHY_MAX = 96,
};
#define ISOLATED_UPPER_BYTES     (UINT64_C(2) << 30) /* default maximum of a layer */
#define ISOLATED_UPPER_BYTES_MAX (UINT64_C(8) << 30)
#define ISOLATED_DIFF_BYTES_MAX  (UINT64_C(4) << 30)
#define ISOLATED_UPPER_ROOT      "/var/lib/execd/isolation"

struct isolated_conf {
    const char *upper_root;       /* directory of persistent layers */
    const char *allowed_writable; /* allowed prefixes of extra_writable, "A,B"; NULL = none */
    uint64_t upper_bytes_max, diff_bytes_max;
};

enum isolated_profile { ISOLATED_STRICT, ISOLATED_BALANCED };
enum isolated_env { ISOLATED_ENV_PROFILE, ISOLATED_ENV_DENY, ISOLATED_ENV_ALLOW };

/* The requested properties of a session. Strings are in the session's arena. */
struct isolated_spec {
    enum isolated_profile profile;
    enum box_mode mode;
    const char *workspace;
    const char *writable[ISOLATED_WRITABLE_MAX];
    size_t writable_count;
    bool share_net;
    bool persist;
    uint64_t upper_bytes;
    uint32_t retain_s, idle_s; /* idle_s 0: never ends because of idleness */
    struct child_user user;
    enum isolated_env env;
    struct str *env_keys; /* glob patterns */
    size_t env_keys_count;
};

struct file_view;
struct file_views;
struct isolated_all;
struct isolated_gauge;
struct isolated_run;
struct shell;

enum isolated_state {
    ISOLATED_NEW,
    ISOLATED_STARTING,
    ISOLATED_READY,
    ISOLATED_RETAINED, /* it ended; its layer is kept */
    ISOLATED_GONE,     /* isolated_find() does not return it; holders may still use it */
};

/* Read-only outside isolated*.c, except the spec of a new session. */
struct isolated {
    char id[ID_UUID_MAX];
    struct arena arena;
    struct isolated_spec spec;
    int workspace; /* O_PATH; the directory that spec.workspace named when opened */
    enum isolated_state state;
    int64_t created_us, last_run_us; /* wall clock; 0 = never */
    struct child_box box;
    struct child_place place; /* for processes that run in it */
    uint64_t touched_ns;      /* when it was last used, CLOCK_MONOTONIC */
    bool alone;               /* a commit has exclusive use of it */
    bool outgrown;            /* it ended because its layer was larger than spec.upper_bytes */

    /* The remaining fields are private to isolated*.c. */
    struct isolated_all *all;
    struct child_proc init; /* the first process of its box */
    int channel;
    struct loop_timer timer;      /* idle time, or end of retention */
    unsigned users;               /* requests that use it, and background runs */
    struct file_view *view;       /* serves its files; NULL = not requested yet */
    struct isolated_gauge *gauge; /* of a layer on disk; NULL = none */
    struct shell *shell;          /* executes code; NULL = no run yet */
    struct isolated_run *run;     /* the current foreground run; NULL = none */
    char *lent;                   /* names of variables set by the current or the last run */
    unsigned layers;              /* number of earlier layers */
    char upper[144];              /* directory of a persistent layer; "" = none */
    void (*on_ready)(void *user, struct isolated *s, const struct err *why);
    void *user;
};

void isolated_new_all(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                      const struct isolated_conf *conf, struct isolated_all **ret);
void isolated_free_all(struct isolated_all *all); /* ends all sessions; NULL is fine */
const struct isolated_conf *isolated_conf(const struct isolated_all *all);
struct loop *isolated_loop(const struct isolated_all *all);
struct reaper *isolated_reaper(const struct isolated_all *all);
struct file_views *isolated_views(struct isolated_all *all);

/* True if boxes can be created here: checks for CAP_SYS_ADMIN and the result of earlier attempts.
 * Otherwise *ret_why says what is missing. */
bool isolated_available(const struct isolated_all *all, const char **ret_why);
void isolated_set_unavailable(struct isolated_all *all, const char *why);
uint64_t isolated_upper_bytes(const struct isolated_all *all); /* default maximum of a layer */
/* True if layers can be stored in the upper root. */
bool isolated_can_persist(const struct isolated_all *all);

/* Calls `see` for every session that isolated_find() can return, in no particular order. */
void isolated_each(const struct isolated_all *all,
                   void (*see)(void *user, const struct isolated *s), void *user);
struct isolated *isolated_find(const struct isolated_all *all, struct str id); /* NULL = unknown */
/* Allocates a session to fill in. Clients cannot find it until it is ready. -EAGAIN: too many
 * sessions. */
int isolated_new(struct isolated_all *all, struct isolated **ret, struct err *e) MUST_USE;
/* Opens the directory that the spec of a new session names. The box and every commit use this
 * directory, even if the name later leads elsewhere. */
int isolated_open_workspace(struct isolated *s) MUST_USE;
/* Writes the current path of that directory, with all symlinks resolved. */
int isolated_workspace_path(const struct isolated *s, char out[BOX_PATH_BYTES_MAX]) MUST_USE;
/* Creates its box. on_ready is called once, never from within this call. If a step fails, on_ready
 * gets NULL and `why`, and the session is freed afterwards. -errno: it could not begin, and the
 * session is freed, too. */
int isolated_start(struct isolated *s,
                   void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                   void *user, struct err *e) MUST_USE;
/* Creates a new box with an empty layer for the same session; processes in the old box are killed.
 * Fails like isolated_start(). */
int isolated_restart(struct isolated *s,
                     void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                     void *user, struct err *e) MUST_USE;
/* Cancels on_ready; nothing else changes. */
void isolated_ignore(struct isolated *s);
void isolated_forget(struct isolated *s); /* isolated_ignore() and isolated_end() */
/* Kills all processes in its box. The session is gone unless its layer is retained. */
void isolated_end(struct isolated *s);
void isolated_remove(struct isolated *s); /* like isolated_end(), but retains nothing */
void isolated_drop(struct isolated *s);   /* frees it even if it is held: the holder must know */

/* Reference count. A held session does not become idle. The last isolated_release() of a session
 * that is ISOLATED_GONE frees it. */
void isolated_hold(struct isolated *s);
void isolated_release(struct isolated *s);
bool isolated_is_busy(const struct isolated *s);       /* it is held, or has a foreground run */
size_t isolated_idle_left_s(const struct isolated *s); /* until its idle time is over */
/* Writes why a retained session ended, if that was not by request. Returns `out` or NULL. */
const char *isolated_why_ended(const struct isolated *s, char out[ISOLATED_WHY_MAX]);
/* Frees its shell, if any. A current run ends with an event that says so. */
void isolated_shell_free(struct isolated *s);
/* Ends the streams of all sessions, runs and watches, with their last events. */
void isolated_end_streams(struct isolated_all *all);
