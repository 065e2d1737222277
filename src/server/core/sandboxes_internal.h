/* sandboxes_internal.h - shared by the files of src/server/core. */
#pragma once

#include "base/map.h"
#include "base/trace.h"
#include "server/core/sandboxes.h"

struct pools;

struct sandboxes {
    struct sandboxes_conf conf;
    struct map by_id;
    struct list order;     /* in order of creation, oldest first */
    uint64_t number;       /* of the last one in it */
    struct map facets;     /* sandbox_index.c */
    struct list unindexed; /* sandboxes that are in no facet yet */
    bool is_partial;       /* a facet is missing, for want of memory */
    _Atomic size_t stored; /* number of visible sandboxes */
    size_t busy;           /* number of operations that have not ended */
    struct loop_timer reconcile;
    struct reconcile *reconciling; /* the current round, or NULL */
    size_t questions;              /* of sandboxes_ask(), under way */
    bool look_again;               /* another round is wanted right after it */
    struct pools *pools;           /* NULL = none */
    struct map doubts;             /* ids whose rows may be stored, though their creation failed */
};

enum { SANDBOX_DOUBTS_MAX = 10 * 1000 };

enum { OP_ARENA_MAX = 4 << 20 };

/* A queued or running operation. The worker reads the fields before `fail`, and writes those from
 * `fail` on; the loop uses neither until the worker is done. */
struct op {
    struct pool_job job;
    struct list link; /* in the queue of its sandbox */
    struct sandbox *sb;
    const struct op_kind *kind;
    void (*work)(struct op *op); /* kind->work, or what op_work_more was given */
    struct principal by;
    struct trace_span span;      /* of the operation */
    struct trace_span wait_span; /* of create: the wait for the entrypoint */
    op_done_fn *done;
    void *user;
    struct arena arena; /* memory of spec and patch */
    struct api_create spec;
    struct api_patch patch;
    struct sandbox_grant *grant;
    struct store_share share; /* of create and claim, in a shared store */
    char mark[IDEMPOTENCY_HASH_MAX];
    int64_t expires_us, expected_us; /* expected: the expiry it replaces; 0 = any */
    /* Called on the loop when the work is done; true when more work follows. May be NULL. */
    bool (*go_on)(struct op *op);
    struct loop_io started_io;       /* of create: waits for birth.started */
    struct loop_timer started_timer; /* limits that wait, and that for the runtime */
    bool waiting;                    /* of create: for the runtime's end of it */
    bool ended;                      /* of create: the runtime said its end of it */
    const char *cancelled;           /* of create: why it is to end early; NULL = it is not */
    bool settled;                    /* of create: the second half is done, or not needed */
    bool start_ended;                /* of create: birth.started reached end of file */

    struct api_fail fail; /* status 0 = success */
    bool changed, removed, disk_full;
    bool halted;      /* processes that ran before it have ended */
    int64_t found_us; /* of expire: what the row says; 0 = not looked up */
    bool doubtful;    /* of create: it failed, but its row may be stored */
    bool unsure;      /* it failed, but may still take effect */
    struct {          /* the new status, if changed */
        enum sandbox_state state;
        const char *reason;
        struct err err;
        int64_t now_us;
    } now;
    struct str metadata;
    int watch; /* -EBADF = none */
    struct runtime_create create;
    bool under_way; /* of create: the runtime goes on with it, and says its end later */
    struct err why; /* of create: why it failed; code 0 = it did not */
};

struct op_kind {
    const char *name;
    unsigned from;           /* STATE_BITs of states it may start in */
    const char *refuse_code; /* error code of the 409 in other states */
    void (*work)(struct op *op);
    void (*apply)(struct op *op); /* called on the loop after success; may be NULL */
    const char *fail_code;        /* error code of a 500 */
    unsigned needs;               /* RUNTIME_CAN_ bits; a runtime without is answered for by 501 */
};

#define STATE_ANY (STATE_BIT(SANDBOX_STATE_COUNT) - 1)
#define STATE_LIVE                                                                                 \
    (STATE_BIT(SANDBOX_PENDING) | STATE_BIT(SANDBOX_RUNNING) | STATE_BIT(SANDBOX_PAUSING) |        \
     STATE_BIT(SANDBOX_PAUSED) | STATE_BIT(SANDBOX_RESUMING) | STATE_BIT(SANDBOX_ALLOCATED))

/* Adds a sandbox to the table; the caller sets id, strings and times only. NULL when the table is
 * full. */
struct sandbox *sandbox_new(struct sandboxes *t, struct str id);
void sandbox_show(struct sandbox *sb);    /* call when its row is stored; any thread */
void sandbox_drop(struct sandbox *sb);    /* removes it from the table; freed after its last op */
void sandbox_release(struct sandbox *sb); /* frees it if nothing uses it */
void sandbox_attend(struct sandbox *sb);  /* ends it if it is due, else sets its timer */
void sandbox_arm(struct sandbox *sb);     /* sets its timer, after a change of state or expiry */
void sandbox_retry(struct sandbox *sb);   /* sets its timer, after its operation failed */
void sandbox_look_later(struct sandbox *sb);    /* the same, after a sync: it has no watch now */
void sandbox_watch(struct sandbox *sb, int fd); /* takes ownership of fd; -EBADF stops watching */
/* Counts it towards the quota of its tenant, unless it waits in a pool; or no longer. */
void sandbox_count(struct sandbox *sb);
void sandbox_uncount(struct sandbox *sb);
void sandbox_set_status(struct sandbox *sb, enum sandbox_state state, const char *reason,
                        const char *message, int64_t now_us);

/* --- sandbox_index.c: on the loop --- */

void sandbox_index_init(struct sandboxes *t);
void sandbox_index_done(struct sandboxes *t);   /* after its sandboxes */
void sandbox_index_changed(struct sandbox *sb); /* is new, or has other metadata, tenant, place */
void sandbox_index_remove(struct sandbox *sb);  /* is gone */
/* Call before its state becomes `next`. */
void sandbox_index_state(struct sandbox *sb, enum sandbox_state next);

void sandboxes_op_ended(struct sandboxes *t);
char *sandbox_text(struct str s); /* copy as a C string; free() it */

/* --- pools.c: on the loop --- */

struct warm_pool *pools_find(struct pools *p, struct str name); /* NULL = none */
bool pools_have(struct pools *p, const struct principal *by, struct str name);
/* At start-up: a row of a pool was read. */
void pools_adopt(struct pools *p, struct sandbox *sb);
/* For sandboxes with a pool: their state has changed. For those with a pool or an errand: they are
 * gone. */
void pool_on_change(struct sandbox *sb);
void pool_on_drop(struct sandbox *sb);

/* --- ops.c: on the loop --- */

/* Fills op->share: what the sandbox counts as, of that tenant. No change for a store of one. */
void op_share(struct op *op, struct sandboxes *t, const char *tenant, const char *key_id,
              const struct api_limits *limits);

struct op *op_new(const struct op_kind *kind, const struct principal *by, op_done_fn *done,
                  void *user);
void op_free(struct op *op); /* one that was not submitted */
/* Queues it. One that has failed already ends at once. */
void op_submit(struct op *op, struct sandbox *sb);
/* For op->go_on and what it starts: has a worker do more. If none can, the operation ends. */
void op_work_more(struct op *op, void (*work)(struct op *op));
void op_end(struct op *op);                          /* calls done, and frees it */
void op_log(const struct op *op, const char *event); /* logs the principal that asked for it */

/* --- ops.c: on a worker --- */

void op_fail(struct op *op, const struct err *e);
/* Set op->now. */
void op_status(struct op *op, enum sandbox_state state, const char *reason, const char *message);
void op_status_running(struct op *op);
void op_status_of_runtime(struct op *op, const struct runtime_status *status);
struct store_status op_store_status(const struct op *op); /* op->now, for the store */
bool op_write_status(struct op *op); /* writes op->now to the row; false when that failed */
bool op_disk_is_full(int r);         /* whether the store failed for that */

/* --- ops_create.c --- */

/* As sandboxes_create, but the sandbox shows, and is stored as, what `shown` has. */
int sandboxes_create_like(struct sandboxes *t, const struct principal *by,
                          const struct api_create *spec, const struct api_create *shown,
                          op_done_fn *done, void *user, struct sandbox **ret_sandbox,
                          struct api_fail *f);

void op_abandon(struct op *op); /* stops a create's wait for the entrypoint; else nothing */
/* Has a create that the runtime goes on with end early. Nothing if none is active. */
void sandbox_cancel_create(struct sandbox *sb, const char *why);

/* Goes on with a create after its work: op->go_on. */
bool create_go_on(struct op *op);
void create_on_progress(struct runtime_task *task, const char *message);
void create_on_end(struct runtime_task *task, int r, const struct err *e);

/* --- ops_again.c --- */

/* Whether its expiry does nothing: it is stopped, or it was to be stopped then and is lost. */
bool sandbox_is_left(const struct sandbox *sb);
void op_status_stopped(struct op *op, const char *message);
void op_status_lost(struct op *op, const char *message);
/* The end of a start or rollback that failed for op->why. */
void again_fail(struct op *op);

/* --- ops_change.c --- */

void sandbox_expire(struct sandbox *sb); /* starts to end it, as it is due */
void sandbox_sync(struct sandbox *sb);   /* asks the runtime for its state */
