/* sandboxes.h - all sandboxes of this server: their state, operations on them, their expiry.
 *
 * Reads use the table in memory. The store is what a restart loads, and the runtime knows what
 * really runs. A change is an operation: a worker first changes the store or first the runtime, so
 * that the next start can repair an operation that was cut short; then the loop updates the table.
 * Operations on one sandbox run one after the other, in the order of the calls; those on different
 * sandboxes do not wait for each other. Loop thread only. */
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
    SANDBOX_OPS_MAX = 64, /* queued for one sandbox; more are refused */
};

struct op;
struct sandboxes;

struct sandbox {
    char id[ID_UUID_MAX];
    char token[ID_TOKEN_MAX]; /* grants access to its data plane */
    enum sandbox_state state;
    char reason[SANDBOX_REASON_MAX];
    char *message;
    int64_t created_us, since_us, expires_us; /* expires 0 = never */
    char *image, *snapshot_id, *os, *arch;    /* "" = none */
    char *entrypoint, *metadata;              /* JSON; metadata "" = none */
    char *spec;                               /* spec_json.h */
    struct spec_facts facts;                  /* parsed from spec */
    uint32_t renew_extend_s;                  /* per access; 0 = not requested */
    int64_t renewed_us;                       /* last renewal by an access */

    /* The remaining fields are private to src/server/core. */
    struct sandboxes *table;
    struct list link; /* in order of creation */
    struct list ops;
    struct op *active;
    size_t op_count;
    struct loop_timer due; /* expiry, or the next attempt to remove it */
    struct loop_io watch;  /* readable once the sandbox ended */
    _Atomic bool stored;   /* its row is stored; not visible to clients before that */
    bool announced;        /* a client got its id while it was Pending */
    bool failing;          /* its creation failed, and no client got its id */
    bool gone;             /* removed; freed after its last operation */
};

struct sandboxes_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    int64_t failed_ttl_us; /* how long sandboxes without an expiry that never ran stay visible */
    uint32_t renew_min_interval_s; /* between renewals by access */
    uint32_t reconcile_ms;
    size_t max;                  /* limit of sandboxes at a time */
    void (*on_idle)(void *user); /* no operation is left; may be NULL */
    void *user;
};

int sandboxes_new(const struct sandboxes_conf *conf, struct sandboxes **ret, struct err *e);
/* Call when no operation is left. */
void sandboxes_free(struct sandboxes *t);

/* Call before serving: reads the store, adopts running sandboxes, ends those that are due, and logs
 * it. BLOCKS. */
int sandboxes_load(struct sandboxes *t, struct err *e);

struct sandbox *sandboxes_find(struct sandboxes *t, struct str id); /* NULL = none */
void sandbox_view(const struct sandbox *sb, struct api_sandbox *ret);
/* Newest first: `for (sb = sandboxes_newest(t); sb; sb = sandboxes_older(t, sb))`. */
struct sandbox *sandboxes_newest(struct sandboxes *t);
struct sandbox *sandboxes_older(struct sandboxes *t, const struct sandbox *sb);
size_t sandboxes_total(const struct sandboxes *t);
void sandboxes_count(struct sandboxes *t, uint64_t counts[SANDBOX_STATE_COUNT]);

/* --- operations --- */

/* Called exactly once, on the loop. fail is NULL on success. sb is NULL when the sandbox is gone or
 * was never created. */
typedef void op_done_fn(void *user, struct sandbox *sb, const struct api_fail *fail);

/* Parses the body and starts the creation. On an immediate failure returns -errno, fills `f` and
 * never calls done. On success *ret_sandbox is the new sandbox, valid until done is called. */
int sandboxes_create(struct sandboxes *t, struct str type, struct str body, int64_t timeout_s_max,
                     op_done_fn *done, void *user, struct sandbox **ret_sandbox,
                     struct api_fail *f);
void sandbox_delete(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_pause(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_resume(struct sandbox *sb, op_done_fn *done, void *user);
void sandbox_renew(struct sandbox *sb, int64_t expires_us, op_done_fn *done, void *user);
int sandbox_patch(struct sandbox *sb, struct str type, struct str body, op_done_fn *done,
                  void *user, struct api_fail *f);
/* Records an access: extends the expiry if the sandbox was created with that option. */
void sandbox_touch(struct sandbox *sb);

size_t sandboxes_busy(const struct sandboxes *t); /* number of operations that have not ended */

/* Whether an errno of store or runtime is temporary, a 503: it may pass when space is freed,
 * another program releases the store, or the broker answers again. */
bool sandboxes_failure_passes(int code);
