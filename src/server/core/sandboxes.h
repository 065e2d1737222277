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
#include "server/tenants/principal.h"
#include <stdatomic.h>

enum {
    SANDBOX_REASON_MAX = 48,
    SANDBOX_OPS_MAX = 64, /* queued for one sandbox; more are refused */
};

struct events;
struct op;
struct pool_errand;
struct sandboxes;
struct snapshots;
struct tenants;
struct warm_pool;

/* What a sandbox is to its pool. */
enum pool_member {
    POOL_STARTING, /* its creation is not known to have succeeded; after a restart only */
    POOL_WARMING,  /* its warm-up command runs */
    POOL_READY,    /* may be claimed */
    POOL_TAKEN,    /* is being claimed */
    POOL_IN_USE,   /* was claimed */
    POOL_MEMBER_KINDS,
};

struct sandbox {
    char id[ID_UUID_MAX];
    char token[ID_TOKEN_MAX]; /* grants access to its data plane */
    struct {                  /* who created it */
        char tenant[PRINCIPAL_TENANT_MAX];
        char key_id[PRINCIPAL_KEY_ID_MAX]; /* "" = not recorded, by an older server */
    } owner;
    enum sandbox_state state;
    char reason[SANDBOX_REASON_MAX];
    char *message;
    int64_t created_us, since_us, expires_us; /* expires 0 = never */
    char *image, *snapshot_id, *os, *arch;    /* "" = none */
    char *entrypoint, *metadata;              /* JSON; metadata "" = none */
    char *spec;                               /* spec_json.h */
    char *secrets;                            /* JSON: secretEnv without values; "" = none */
    char *request; /* spec_request.h, with the environment; NULL = from before the last start */
    struct spec_facts facts; /* parsed from spec */
    uint32_t renew_extend_s; /* per access; 0 = not requested */
    int64_t renewed_us;      /* last renewal by an access */

    /* The remaining fields are private to src/server/core. */
    struct sandboxes *table;
    struct list link; /* in order of creation */
    uint64_t number;  /* its place in that order */
    struct list index_link;
    struct facet **facets; /* those of sandbox_index.c that it is in */
    size_t facet_count;
    struct list ops;
    struct op *active;
    size_t op_count;
    struct loop_timer due;     /* expiry, or the next attempt to remove it or to look at it */
    uint32_t look_ms;          /* the runtime could not tell its state: until it is asked again */
    struct loop_io watch;      /* readable once the sandbox ended */
    _Atomic bool stored;       /* its row is stored; not visible to clients before that */
    bool announced;            /* a client got its id while it was Pending */
    bool failing;              /* its creation failed, and no client got its id */
    bool gone;                 /* removed; freed after its last operation */
    bool hidden;               /* waits in a pool: not visible to clients */
    bool is_counted;           /* towards the quota of its tenant, as .. */
    struct api_limits counted; /* .. this much */
    struct warm_pool *pool;    /* NULL = not of a pool, or the pool is deleted */
    enum pool_member member;
    struct list pool_link;
    struct pool_errand *errand; /* what a pool has its execd do; NULL = nothing */
};

struct sandboxes_conf {
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    struct snapshots *snapshots; /* what sandboxes may be made of; NULL = none */
    struct tenants *tenants;     /* whose quotas count; NULL = none do */
    struct events *events;       /* told of changes; NULL = none */
    const struct seal *seal;     /* of environments that are stored; NULL = none */
    bool shared_store;           /* with other servers: store_open_postgres */
    int64_t failed_ttl_us; /* how long sandboxes without an expiry that never ran stay visible */
    uint32_t renew_min_interval_s; /* between renewals by access */
    uint32_t reconcile_ms;
    size_t max;                                /* limit of sandboxes at a time */
    void (*on_idle)(void *user);               /* no operation is left; may be NULL */
    void (*on_end)(void *user, struct str id); /* its processes have ended; may be NULL */
    void *user;
};

int sandboxes_new(const struct sandboxes_conf *conf, struct sandboxes **ret, struct err *e);
/* Ends creates early that a runtime may take long for, so that no operation is left soon. */
void sandboxes_stop(struct sandboxes *t);
/* Call when no operation is left, or when the runtime is freed. */
void sandboxes_free(struct sandboxes *t);

/* Call before serving: reads the store, adopts running sandboxes, ends those that are due, and logs
 * it. BLOCKS. */
int sandboxes_load(struct sandboxes *t, struct err *e);

/* Where several servers share the store: this one holds the sandbox of the row from now on. */
void sandboxes_take(struct sandboxes *t, const struct store_sandbox *row);

/* Compares with the runtime soon: it has more than it had (RUNTIME_CAN_SHARE). */
void sandboxes_look(struct sandboxes *t);
/* Takes over a sandbox that another server made, if the runtime has one of that id, then calls
 * `done` on the loop, in any case; at once where there are no other servers. */
typedef void sandboxes_asked_fn(void *user);
void sandboxes_ask(struct sandboxes *t, struct str id, sandboxes_asked_fn *done, void *user);

/* Why a sandbox in that state cannot be reached; NULL = it can. */
const char *sandbox_state_refusal(enum sandbox_state state);
struct sandbox *sandboxes_find(struct sandboxes *t, struct str id); /* NULL = none */
void sandbox_view(const struct sandbox *sb, struct api_sandbox *ret);
/* Newest first: `for (sb = sandboxes_newest(t); sb; sb = sandboxes_older(t, sb))`. */
struct sandbox *sandboxes_newest(struct sandboxes *t);
struct sandbox *sandboxes_older(struct sandboxes *t, const struct sandbox *sb);

/* Those that a list may show, newest first: of one tenant ("" = of all), with these pairs of
 * metadata. Ends with the loop's turn. */
struct sandboxes_walk {
    /* It gives exactly those, and by_state counts them; else it may give others, too. */
    bool is_exact;
    size_t by_state[SANDBOX_STATE_COUNT];

    struct sandboxes *table; /* private, as all that follows */
    struct sandbox *next, **at;
    size_t left;
};
void sandboxes_walk(struct sandboxes *t, struct str tenant, const struct json_pair *pairs,
                    size_t pair_count, struct sandboxes_walk *ret);
struct sandbox *sandboxes_walk_next(struct sandboxes_walk *w); /* NULL = that was all */

size_t sandboxes_total(const struct sandboxes *t);
void sandboxes_count(struct sandboxes *t, uint64_t counts[SANDBOX_STATE_COUNT]);

/* --- operations ---
 *
 * `by` is who asks, for the log and as the owner of what is made. Arguments are copied. */

/* Called exactly once, on the loop. fail is NULL on success. sb is NULL when the sandbox is gone or
 * was never created. */
typedef void op_done_fn(void *user, struct sandbox *sb, const struct api_fail *fail);

/* The checks that api_create_parse makes for this server, in the middle of its rules. What is
 * another tenant's does not exist for `by`. `checks` is filled, and used by the result. */
struct sandbox_checks {
    struct sandboxes *table;
    const struct principal *by;
};
struct api_create_host sandboxes_create_host(struct sandboxes *t, const struct principal *by,
                                             int64_t timeout_s_max, struct sandbox_checks *checks);
/* Starts the creation of what api_create_parse accepted, with the checks above. On an immediate
 * failure returns -errno, fills `f` and never calls done. On success *ret_sandbox is the new
 * sandbox, valid until done is called. */
int sandboxes_create(struct sandboxes *t, const struct principal *by, const struct api_create *spec,
                     op_done_fn *done, void *user, struct sandbox **ret_sandbox,
                     struct api_fail *f);
void sandbox_delete(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user);
void sandbox_pause(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user);
void sandbox_resume(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user);
/* Fails with 409 when the sandbox never expires. */
void sandbox_renew(struct sandbox *sb, const struct principal *by, int64_t expires_us,
                   op_done_fn *done, void *user);
void sandbox_patch(struct sandbox *sb, const struct principal *by, const struct api_patch *patch,
                   op_done_fn *done, void *user);
/* Of a persistent one: ends its processes, and keeps its files. */
void sandbox_stop(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user);
/* Starts one that was stopped, or has ended, with its files; its timeout begins anew. */
void sandbox_start(struct sandbox *sb, const struct principal *by, op_done_fn *done, void *user);
/* Starts it once more, with the files of a snapshot in place of its own. */
void sandbox_rollback(struct sandbox *sb, const struct principal *by, struct str snapshot_id,
                      op_done_fn *done, void *user);
bool sandbox_is_stopped(const struct sandbox *sb);
/* Changes whose sandbox it is, and what comes with that, if it runs and is still the owner's that
 * it was at the call: the end of a claim. `grant` stays valid until done is called. */
struct sandbox_grant {
    struct principal to;
    char token[ID_TOKEN_MAX];
    int64_t created_us, expires_us;
    char *entrypoint, *metadata, *spec; /* as in struct sandbox, which takes them over */
    char *request;                      /* the same; NULL = as it was */
    uint32_t renew_extend_s;
};
void sandbox_give(struct sandbox *sb, const struct principal *by, struct sandbox_grant *grant,
                  op_done_fn *done, void *user);
/* What the sandbox has now, for another owner; free it by sandbox_grant_done(). */
struct sandbox_grant sandbox_grant_keep(const struct sandbox *sb, const struct principal *to);
void sandbox_grant_done(struct sandbox_grant *grant);
/* Records an access: extends the expiry if the sandbox was created with that option. */
void sandbox_touch(struct sandbox *sb);

size_t sandboxes_busy(const struct sandboxes *t); /* number of operations that have not ended */

/* Whether an errno of store or runtime is temporary, a 503: it may pass when space is freed,
 * another program releases the store, or the broker answers again. */
bool sandboxes_failure_passes(int code);
