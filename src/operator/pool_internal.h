/* pool_internal.h - parts of the Pool decision. */
#pragma once

#include "operator/decide.h"
#include "operator/sandbox_internal.h"

static inline bool pool_pod_is_live(const struct pool_pod *x)
{
    return pod_is_live(x->pod) && !x->leaving;
}

static inline bool pool_pod_is_idle(const struct pool_pod *x)
{
    return pool_pod_is_live(x) && !x->claimed && !x->pod->evict;
}

void pool_pod_delete(struct plan *p, struct pool_pod *x);

/* Gives idle pods to sandboxes that wait, first come first served. Returns how many pods are
 * missing. */
int64_t pool_allocate(struct pool_in *in, struct plan *p);
/* Deletes idle pods of an old template. Returns how many. */
int64_t pool_rollout(struct pool_in *in, struct plan *p);
/* missing: pods that sandboxes wait for; replaced: what the rollout deletes in this plan. */
void pool_scale(struct pool_in *in, int64_t missing, int64_t replaced, struct plan *p);
