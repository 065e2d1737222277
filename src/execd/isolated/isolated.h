/* isolated.h - isolated sessions: sandboxes inside the sandbox, made on request, used for runs, and
 * ended by request, after a time of idleness or with us. Loop thread only.
 *
 *   new ──► starting ──its box is ready──► ready ──isolated_end(), idle, its box died──► gone
 *              └──a step failed──► gone                       └──with persist──► retained ──► gone
 *
 * Runs are given to one living shell (shell.h) in the box, one at a time; those in the background
 * are commands (command.h) beside it, any number. What changes the layer below them, commit and
 * reset, needs the session alone. */
#pragma once

#include "base/arena.h"
#include "base/id.h"
#include "execd/core/reaper.h"
#include "execd/isolated/isolated_box.h"
#include "net/loop.h"

enum {
    ISOLATED_MAX = 64,                            /* sessions, the retained among them */
    ISOLATED_WRITABLE_MAX = BOX_WRITABLE_MAX - 1, /* one is /tmp */
    ISOLATED_ARENA_BYTES_MAX = 1 << 20,
    ISOLATED_IDLE_S = 1800,
    ISOLATED_RETAIN_S = 3600,
    ISOLATED_SECONDS_MAX = 365 * 24 * 3600,
    ISOLATED_WHY_MAX = 96,
};
#define ISOLATED_UPPER_BYTES     (UINT64_C(2) << 30) /* of a layer, unless asked otherwise */
#define ISOLATED_UPPER_BYTES_MAX (UINT64_C(8) << 30)
#define ISOLATED_DIFF_BYTES_MAX  (UINT64_C(4) << 30)
#define ISOLATED_UPPER_ROOT      "/var/lib/execd/isolation"

struct isolated_conf {
    const char *upper_root;       /* where layers that persist are kept */
    const char *allowed_writable; /* prefixes of extra_writable, between commas; NULL = none */
    uint64_t upper_bytes_max, diff_bytes_max;
};

enum isolated_profile { ISOLATED_STRICT, ISOLATED_BALANCED };
enum isolated_env { ISOLATED_ENV_PROFILE, ISOLATED_ENV_DENY, ISOLATED_ENV_ALLOW };

/* What a session is asked to be; its texts are in the session's arena. */
struct isolated_spec {
    enum isolated_profile profile;
    enum box_mode mode;
    const char *workspace;
    const char *writable[ISOLATED_WRITABLE_MAX];
    size_t writable_count;
    bool share_net;
    bool persist;
    uint64_t upper_bytes;
    uint32_t retain_s, idle_s; /* idle_s 0: for ever */
    struct child_user user;
    enum isolated_env env;
    struct str *env_keys; /* patterns */
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
    ISOLATED_GONE,     /* nobody finds it; those who hold it still work on it */
};

/* All read-only for others, but for the spec of a new one. */
struct isolated {
    char id[ID_UUID_MAX];
    struct arena arena;
    struct isolated_spec spec;
    int workspace; /* where spec.workspace led when it was opened; O_PATH */
    enum isolated_state state;
    int64_t created_us, last_run_us; /* wall clock; 0 = never */
    struct child_box box;
    struct child_place place; /* of what runs in it */
    uint64_t touched_ns;      /* when it was last used */
    bool alone;               /* somebody has it alone */
    bool outgrown;            /* it ended for that: its layer is larger than spec.upper_bytes */

    /* The rest is ours. */
    struct isolated_all *all;
    struct reaper_child init; /* the first process of its box */
    struct loop_io report;    /* of the spawn; fd is -EBADF once it was read */
    int channel;
    struct loop_timer timer;      /* idleness, or the end of retention */
    unsigned users;               /* requests at work on it, runs in the background */
    struct file_view *view;       /* serves its files; NULL = nobody asked yet */
    struct isolated_gauge *gauge; /* of a layer on a disk; NULL = none */
    struct shell *shell;          /* runs code; NULL = none did yet */
    struct isolated_run *run;     /* the one that is on */
    char *lent;                   /* names of variables that it brought, or the one before it */
    unsigned layers;              /* how many it had before this one */
    char upper[144];              /* the directory of a layer that persists; "" = none */
    void (*on_ready)(void *user, struct isolated *s, const struct err *why);
    void *user;
};

void isolated_new_all(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                      const struct isolated_conf *conf, struct isolated_all **ret);
void isolated_free_all(struct isolated_all *all); /* NULL is fine; ends them */
const struct isolated_conf *isolated_conf(const struct isolated_all *all);
struct loop *isolated_loop(const struct isolated_all *all);
struct reaper *isolated_reaper(const struct isolated_all *all);
struct file_views *isolated_views(struct isolated_all *all);

/* Whether boxes can be made here: asks for the capability first, and knows what a try taught. The
 * sentence says what is missing. */
bool isolated_available(const struct isolated_all *all, const char **ret_why);
void isolated_set_unavailable(struct isolated_all *all, const char *why);
uint64_t isolated_upper_bytes(const struct isolated_all *all); /* of a layer, unless asked for */
/* Whether layers can be kept at the upper root. */
bool isolated_can_persist(const struct isolated_all *all);

/* Those that can be found, in no order. */
void isolated_each(const struct isolated_all *all,
                   void (*see)(void *user, const struct isolated *s), void *user);
struct isolated *isolated_find(const struct isolated_all *all, struct str id); /* NULL = unknown */
/* A session to fill in, which nobody finds before it is ready. -EAGAIN when there are too many. */
int isolated_new(struct isolated_all *all, struct isolated **ret, struct err *e) MUST_USE;
/* The directory that the spec of a new one names, for good: its box is made of it, and what is
 * committed goes there, whatever the name leads to by then. */
int isolated_open_workspace(struct isolated *s) MUST_USE;
/* Where that is now, with no link on the way. */
int isolated_workspace_path(const struct isolated *s, char out[BOX_PATH_BYTES_MAX]) MUST_USE;
/* Makes its box. on_ready comes once, never from within this call; with NULL and `why` when a step
 * failed, and then the session is gone afterwards. -errno when it could not even begin; it is gone,
 * too. */
int isolated_start(struct isolated *s,
                   void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                   void *user, struct err *e) MUST_USE;
/* A new box for the same session, with an empty layer; who works in it now is killed. Fails as
 * isolated_start does. */
int isolated_restart(struct isolated *s,
                     void (*on_ready)(void *user, struct isolated *s, const struct err *why),
                     void *user, struct err *e) MUST_USE;
/* on_ready is not wanted any more; nothing else changes. */
void isolated_ignore(struct isolated *s);
void isolated_forget(struct isolated *s); /* the same, and ends it */
/* Kills all there is in its box. The session is gone, unless its layer is retained. */
void isolated_end(struct isolated *s);
void isolated_remove(struct isolated *s); /* the same, and nothing is retained */
void isolated_drop(struct isolated *s);   /* the same, with whoever holds it: he must know */

/* One more that uses it, and less; it does not idle meanwhile. Whoever is the last to release one
 * that is gone meanwhile frees it. */
void isolated_hold(struct isolated *s);
void isolated_release(struct isolated *s);
bool isolated_is_busy(const struct isolated *s); /* someone holds it, or something runs in it */
size_t isolated_idle_left_s(const struct isolated *s); /* until it ends by itself */
/* Why one that is retained ended, when that was not asked for: a sentence, or NULL. */
const char *isolated_why_ended(const struct isolated *s, char out[ISOLATED_WHY_MAX]);
/* Ends its shell, and the run that is on with an event that says so. None is fine. */
void isolated_shell_free(struct isolated *s);
/* The streams of all of them, runs and watches, with their last events. */
void isolated_end_streams(struct isolated_all *all);
