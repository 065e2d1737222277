/* sandboxes.h - all sandboxes of this server: what they are, what is being done to them, when they
 * end.
 *
 * The table in memory answers reads; the store is what a restart begins from, and the runtime is
 * what really runs. A change is an operation: it runs on a worker, first in the store or first in
 * the runtime so that being killed half way is repaired by the next start, and when it is done the
 * table follows. Operations on one sandbox come one after the other, in the order they were asked
 * for; those on different sandboxes do not wait for each other. Loop thread only. */
#pragma once

#include "api/lifecycle.h"
#include "base/id.h"
#include "base/list.h"
#include "net/pool.h"
#include "server/core/spec_json.h"
#include "server/runtime/runtime.h"
#include "server/store/store.h"
#include <stdatomic.h>

enum {
    SANDBOX_REASON_MAX = 48,
    SANDBOX_OPS_MAX = 64, /* that wait for one sandbox; more are refused */
};

struct op;
struct sandboxes;

struct sandbox {
    char id[ID_UUID_MAX];
    char token[ID_TOKEN_MAX]; /* opens its data plane */
    enum sandbox_state state;
    char reason[SANDBOX_REASON_MAX];
    char *message;
    int64_t created_us, since_us, expires_us; /* expires 0 = never */
    char *image, *snapshot_id, *os, *arch;    /* "" = none */
    char *entrypoint, *metadata;              /* JSON; metadata "" = none */
    char *spec;                               /* spec_json.h */
    struct spec_facts facts;                  /* of it */
    uint32_t renew_extend_s;                  /* on access; 0 = not asked for */
    int64_t renewed_us;                       /* on access, last */

    /* The rest is the table's. */
    struct sandboxes *table;
    struct list link; /* in order of creation */
    struct list ops;
    struct op *active;
    size_t op_count;
    struct loop_timer due; /* expiry, or the next try to remove it */
    struct loop_io watch;  /* readable once it ended */
    _Atomic bool stored;   /* its row is written: before that it is nobody's business */
    bool announced;        /* a client was told its id while it was Pending */
    bool failing;          /* its creation has failed, and nobody was told its id */
    bool gone;             /* removed; freed with its last operation */
};

struct sandboxes_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    int64_t failed_ttl_us; /* that sandboxes which never ran stay visible, if they never expire */
    uint32_t renew_min_interval_s; /* between renewals on access */
    uint32_t reconcile_ms;
    size_t max;                  /* sandboxes at a time */
    void (*on_idle)(void *user); /* no operation is left; may be NULL */
    void *user;
};

int sandboxes_new(const struct sandboxes_conf *conf, struct sandboxes **ret, struct err *e);
/* Once no operation is left. */
void sandboxes_free(struct sandboxes *t);

/* Before serving: reads the store, adopts what runs, ends what should have ended, and says so.
 * BLOCKS. */
int sandboxes_load(struct sandboxes *t, struct err *e);

struct sandbox *sandboxes_find(struct sandboxes *t, struct str id); /* NULL = none */
void sandbox_view(const struct sandbox *sb, struct api_sandbox *ret);
/* Newest first: `for (sb = sandboxes_newest(t); sb; sb = sandboxes_older(t, sb))`. */
struct sandbox *sandboxes_newest(struct sandboxes *t);
struct sandbox *sandboxes_older(struct sandboxes *t, const struct sandbox *sb);
size_t sandboxes_total(const struct sandboxes *t);
void sandboxes_count(struct sandboxes *t, uint64_t counts[SANDBOX_STATE_COUNT]);

/* --- operations --- */

/* Comes exactly once, from the loop. fail NULL is success; sb is NULL when the sandbox is gone or
 * never was. */
typedef void op_done_fn(void *user, struct sandbox *sb, const struct api_fail *fail);

/* Parses the body and begins. Failing at once: -errno and `f`, and done does not come. On success
 * *ret_sandbox is what is being made, valid until done came. */
int sandboxes_create(struct sandboxes *t, struct str type, struct str body, int64_t timeout_s_max,
                     op_done_fn *done, void *user, struct sandbox **ret_sandbox,
                     struct api_fail *f);
void sandbox_delete(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_pause(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_resume(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_renew(struct sandbox *sb, int64_t expires_us, op_done_fn *done, void *user);
int sandbox_patch(struct sandbox *sb, struct str type, struct str body, op_done_fn *done,
                  void *user, struct api_fail *f);
/* Somebody used it: pushes its expiry on, if it asked for that. */
void sandbox_touch(struct sandbox *sb);

size_t sandboxes_busy(const struct sandboxes *t); /* operations that are not done */

/* Whether an errno of store or runtime is a 503: it passes once somebody makes room, lets go of the
 * store, or wakes the broker. */
bool sandboxes_failure_passes(int code);
