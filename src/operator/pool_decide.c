/* pool_decide.c - what to do for a Pool: evict, allocate, roll out, scale, report. */
#include <stdio.h>

#include "kube/object.h"
#include "operator/names.h"
#include "operator/pool_internal.h"

enum {
    STATUS_EVERY_US = 500 * 1000, /* a burst of allocations is reported once */
    SUPPLY_AGAIN_US = 5 * 1000000,
};

void pool_pod_delete(struct plan *p, struct pool_pod *x)
{
    const struct meta *meta = &x->pod->meta;

    plan_write(p, WRITE_DELETE, OBJECT_POD, meta->ns, meta->name)->uid = meta->uid;
    x->leaving = true;
}

/* Idle pods that ended or are marked for eviction go; one in use is never touched. */
static void pool_evict(struct pool_in *in, struct plan *p)
{
    for (size_t i = 0; i < in->pod_count; i++) {
        struct pool_pod *x = &in->pods[i];

        if (x->claimed || x->pod->meta.deleting_us)
            continue;
        if (x->pod->finished) {
            pool_pod_delete(p, x);
            plan_event(p, true, "PodEnded", "pod %.*s ended (%.*s) and is replaced",
                       STR_ARG(x->pod->meta.name), STR_ARG(x->pod->failure_reason));
        } else if (x->pod->evict) {
            pool_pod_delete(p, x);
            plan_event(p, false, "PodEvicted", "pod %.*s is idle and marked for eviction",
                       STR_ARG(x->pod->meta.name));
        }
    }
}

static void put_int(struct plan *p, struct json *v, const char *key, int64_t n)
{
    (void)doc_set(&p->arena, v, str_of(key), doc_int(&p->arena, n));
}

static struct json *pool_status(const struct pool_in *in, struct plan *p)
{
    int64_t total = 0, allocated = 0, available = 0, updated = 0;
    struct json *v = doc_object(&p->arena);

    for (size_t i = 0; i < in->pod_count; i++) {
        const struct pool_pod *x = &in->pods[i];

        if (!pool_pod_is_live(x))
            continue;
        total++;
        allocated += x->claimed;
        available += pool_pod_is_idle(x) && x->pod->ready;
        updated += str_eq(x->pod->revision, in->pool->revision);
    }
    put_int(p, v, "observedGeneration", in->pool->meta.generation);
    (void)doc_set_string(&p->arena, v, STR("revision"), in->pool->revision);
    put_int(p, v, "total", total);
    put_int(p, v, "allocated", allocated);
    put_int(p, v, "available", available);
    put_int(p, v, "updated", updated);
    return v;
}

static void pool_report(const struct pool_in *in, struct plan *p)
{
    const struct meta *meta = &in->pool->meta;
    const struct json *old = json_get(in->pool->object, STR("status"));
    struct json *wanted = pool_status(in, p), *patch = doc_object(&p->arena);
    bool same = old != NULL;

    json_each(one, wanted)
    {
        same = same && doc_equal(json_get(old, one->key), one);
    }
    if (same)
        return;
    if (in->status_us && in->now_us < in->status_us + STATUS_EVERY_US) {
        plan_again_at(p, in->status_us + STATUS_EVERY_US);
        return;
    }
    (void)doc_set(&p->arena, patch, STR("status"), wanted);
    plan_body(p, plan_write(p, WRITE_PATCH_STATUS, OBJECT_POOL, meta->ns, meta->name), patch);
}

void pool_decide(struct pool_in *in, struct plan *p)
{
    int64_t missing, replaced;

    if (in->pool->meta.deleting_us)
        return; /* its pods go by their owner reference, sandboxes give theirs back */
    if (in->pool->problem.p)
        plan_event(p, true, "InvalidPool", "%.*s", STR_ARG(in->pool->problem));
    pool_evict(in, p);
    missing = pool_allocate(in, p);
    if (missing > 0)
        plan_again_at(p, in->now_us + SUPPLY_AGAIN_US);
    if (!in->pool->problem.p) {
        replaced = pool_rollout(in, p);
        pool_scale(in, missing, replaced, p);
    }
    pool_report(in, p);
}
