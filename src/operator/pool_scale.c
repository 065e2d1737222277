/* pool_scale.c - how many pods a pool has, and of which template. */
#include <stdlib.h>

#include "base/time.h"
#include "kube/object.h"
#include "operator/label.h"
#include "operator/names.h"
#include "operator/pool_internal.h"

/* --- rollout --- */

static int phase_rank(const struct pod *pod)
{
    if (str_eq(pod->phase, STR("Running")))
        return 2;
    return str_eq(pod->phase, STR("Unknown")) ? 1 : 0;
}

static int cmp_i64(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Which pod is the smaller loss: not on a node, not running, not ready, ready for longer,
 * restarted
 * more often, newer. */
static int rollout_cmp(const void *x, const void *y)
{
    const struct pod *a = (*(struct pool_pod *const *)x)->pod;
    const struct pod *b = (*(struct pool_pod *const *)y)->pod;
    int r = cmp_i64(a->node.n > 0, b->node.n > 0);

    if (!r)
        r = cmp_i64(phase_rank(a), phase_rank(b));
    if (!r)
        r = cmp_i64(a->ready, b->ready);
    if (!r)
        r = cmp_i64(a->ready_us, b->ready_us);
    if (!r)
        r = cmp_i64(b->restarts, a->restarts);
    if (!r)
        r = cmp_i64(b->meta.created_us, a->meta.created_us);
    return r ? r : str_cmp(a->meta.name, b->meta.name);
}

static int age_cmp(const void *x, const void *y)
{
    const struct pod *a = (*(struct pool_pod *const *)x)->pod;
    const struct pod *b = (*(struct pool_pod *const *)y)->pod;
    int r = cmp_i64(a->meta.created_us, b->meta.created_us);

    return r ? r : str_cmp(a->meta.name, b->meta.name);
}

struct census {
    int64_t live;        /* not being deleted: what poolMax counts */
    int64_t schedulable; /* of these, not marked for eviction */
    int64_t allocated, unready;
};

static struct census count_pods(const struct pool_in *in)
{
    struct census c = {0};

    for (size_t i = 0; i < in->pod_count; i++) {
        const struct pool_pod *x = &in->pods[i];

        if (!pool_pod_is_live(x))
            continue;
        c.live++;
        if (x->pod->evict && !x->claimed)
            continue;
        c.schedulable++;
        c.allocated += x->claimed;
        c.unready += !x->pod->ready && !x->claimed;
    }
    c.live += (int64_t)in->pods_expected;
    c.schedulable += (int64_t)in->pods_expected;
    c.unready += (int64_t)in->pods_expected;
    return c;
}

/* Idle pods that `which` accepts, sorted. */
static size_t idle_pods(struct pool_in *in, struct plan *p,
                        bool (*which)(const struct pool_in *, const struct pool_pod *),
                        int (*cmp)(const void *, const void *), struct pool_pod ***ret)
{
    size_t count = 0;

    *ret = arena_new_array(&p->arena, struct pool_pod *, in->pod_count + 1);
    if (!*ret)
        return 0;
    for (size_t i = 0; i < in->pod_count; i++)
        if (pool_pod_is_idle(&in->pods[i]) && (!which || which(in, &in->pods[i])))
            (*ret)[count++] = &in->pods[i];
    if (count > 1)
        qsort(*ret, count, sizeof(**ret), cmp);
    return count;
}

static bool is_outdated(const struct pool_in *in, const struct pool_pod *x)
{
    return !str_eq(x->pod->revision, in->pool->revision);
}

int64_t pool_rollout(struct pool_in *in, struct plan *p)
{
    struct census c = count_pods(in);
    int64_t budget = int_or_percent_of(in->pool->update_unavailable, c.schedulable) - c.unready;
    struct pool_pod **old;
    size_t count = idle_pods(in, p, is_outdated, rollout_cmp, &old);
    int64_t replaced = 0;

    for (size_t i = 0; i < count; i++) {
        if (old[i]->pod->ready && budget-- <= 0)
            break;
        pool_pod_delete(p, old[i]);
        replaced++;
    }
    if (replaced)
        plan_event(p, false, "RollingUpdate", "%lld idle pods of an older template are replaced",
                   (long long)replaced);
    return replaced;
}

/* --- scaling --- */

static void owner_write(struct plan *p, struct json *meta, const struct meta *pool)
{
    struct json *list = doc_array(&p->arena), *ref = doc_object(&p->arena);

    (void)doc_set_string(&p->arena, ref, STR("apiVersion"), STR(GROUP_VERSION));
    (void)doc_set_string(&p->arena, ref, STR("kind"), STR(KIND_POOL_NAME));
    (void)doc_set_string(&p->arena, ref, STR("name"), pool->name);
    (void)doc_set_string(&p->arena, ref, STR("uid"), pool->uid);
    (void)doc_set(&p->arena, ref, STR("controller"), doc_bool(&p->arena, true));
    (void)doc_set(&p->arena, ref, STR("blockOwnerDeletion"), doc_bool(&p->arena, true));
    (void)doc_push(list, ref);
    (void)doc_set(&p->arena, meta, STR("ownerReferences"), list);
}

static struct json *pool_pod_tree(const struct pool *pool, struct plan *p)
{
    static const char *const kept[] = {"labels", "annotations", "finalizers"};
    struct json *pod = doc_object(&p->arena), *meta, *labels;

    (void)doc_set_string(&p->arena, pod, STR("apiVersion"), STR("v1"));
    (void)doc_set_string(&p->arena, pod, STR("kind"), STR("Pod"));
    meta = doc_object_at(&p->arena, pod, STR("metadata"));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const struct json *v = json_get(json_get(pool->template, STR("metadata")), str_of(kept[i]));

        if (v && v->type != JSON_NULL)
            (void)doc_set(&p->arena, meta, str_of(kept[i]), doc_copy(&p->arena, v));
    }
    (void)doc_set_string(&p->arena, meta, STR("generateName"),
                         str_of(arena_printf(&p->arena, "%.*s-", STR_ARG(pool->meta.name))));
    (void)doc_set_string(&p->arena, meta, STR("namespace"), pool->meta.ns);
    labels = doc_object_at(&p->arena, meta, STR("labels"));
    (void)doc_set_string(&p->arena, labels, STR(LABEL_POOL_NAME),
                         label_fit(&p->arena, pool->meta.name, STR("")));
    (void)doc_set_string(&p->arena, labels, STR(LABEL_POOL_REVISION), pool->revision);
    owner_write(p, meta, &pool->meta);
    (void)doc_set(&p->arena, pod, STR("spec"),
                  doc_copy(&p->arena, json_get(pool->template, STR("spec"))));
    return pod;
}

static void scale_out(const struct pool_in *in, const struct census *c, int64_t desired,
                      struct plan *p)
{
    const struct pool *pool = in->pool;
    int64_t n = desired - c->schedulable;
    int64_t room = pool->pool_max - c->live;
    int64_t unready = int_or_percent_of(pool->scale_unavailable, desired) - c->unready;
    struct str body;

    n = n < room ? n : room;
    n = n < unready ? n : unready;
    if (n <= 0)
        return;
    body = doc_text(&p->arena, pool_pod_tree(pool, p));
    for (int64_t i = 0; i < n; i++)
        plan_write(p, WRITE_CREATE, OBJECT_POD, pool->meta.ns, STR(""))->body = body;
}

static void scale_in(struct pool_in *in, int64_t n, struct plan *p)
{
    struct pool_pod **idle;
    size_t count = idle_pods(in, p, NULL, age_cmp, &idle);

    for (size_t i = 0; i < count && n > 0; i++, n--)
        pool_pod_delete(p, idle[i]);
}

void pool_scale(struct pool_in *in, int64_t missing, int64_t replaced, struct plan *p)
{
    const struct pool *pool = in->pool;
    struct census c = count_pods(in);
    int64_t buffer = c.schedulable + replaced - c.allocated, desired;

    if (buffer < pool->buffer_min || buffer > pool->buffer_max)
        buffer = (pool->buffer_min + pool->buffer_max) / 2;
    desired = c.allocated + missing + buffer;
    if (desired < pool->pool_min)
        desired = pool->pool_min;
    if (desired > c.schedulable)
        scale_out(in, &c, desired, p);
    else if (desired < c.schedulable)
        scale_in(in, c.schedulable - desired, p);
}
