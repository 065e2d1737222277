/* pools.h - sandboxes made ahead, of a template, to be claimed by name: extensions.poolRef.
 *
 * A pool is a record of the store. Its sandboxes are made as all others are; until one is claimed,
 * its owner is the pool (principal.h), and clients do not see it. A claim changes the owner in the
 * store, by compare-and-set, before it is answered: no sandbox is handed out twice, and what was
 * done to one for a claim that did not end well is removed with it.
 *
 *   create -> [warm-up] -> ready -> taken -> in use -> gone
 *
 * Loop thread only. */
#pragma once

#include "api/request.h"
#include "server/core/sandboxes.h"
#include "server/store/seal.h"

struct pools;

struct pools_conf {
    struct loop *loop;
    struct pool *pool; /* workers */
    struct store *store;
    struct runtime *runtime; /* with RUNTIME_CAN_POOLS */
    struct sandboxes *sandboxes;
    const struct seal *seal; /* templates are stored by it */
};

/* From here on `sandboxes` adopts those of pools when it is loaded. */
int pools_new(const struct pools_conf *conf, struct pools **ret, struct err *e);
/* Call before sandboxes_load: reads the pools of the store. BLOCKS. */
int pools_load(struct pools *p, struct err *e);
void pools_start(struct pools *p); /* begins to fill them */
/* Makes and warms up no more; claims that wait fail. */
void pools_stop(struct pools *p);
void pools_free(struct pools *p); /* after the sandboxes; NULL is fine */

/* --- requests --- */

struct pool_view {
    struct str name, tenant;
    struct api_limits limits; /* of each of its sandboxes */
    struct api_capacity capacity;
    uint64_t total, allocated, available;
    struct str revision, message; /* message: why it cannot be filled now; "" = it can */
    int64_t created_us;
};

/* Called exactly once, on the loop. One of the two is NULL, except both after a deletion. */
typedef void pool_done_fn(void *user, const struct pool_view *view, const struct api_fail *fail);

/* The pool's view is valid during the current loop turn. */
bool pools_view(struct pools *p, struct str name, struct pool_view *ret);
/* Visits all, oldest first. */
void pools_each(struct pools *p, void (*visit)(void *user, const struct pool_view *view),
                void *user);

void pools_create(struct pools *p, const struct principal *by, const struct api_pool *pool,
                  const struct api_create_host *host, pool_done_fn *done, void *user);
void pools_resize(struct pools *p, struct str name, const struct api_capacity *capacity,
                  pool_done_fn *done, void *user);
/* Its waiting sandboxes are removed; those in use live on. */
void pools_delete(struct pools *p, struct str name, pool_done_fn *done, void *user);

/* Claims a sandbox of the pool that spec->pool_ref names. Waits for one to be made if the pool may
 * have more, for a limited time. */
void pools_claim(struct pools *p, const struct principal *by, const struct api_create *spec,
                 op_done_fn *done, void *user);
