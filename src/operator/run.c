/* run.c - one pass: what is known of an object and around it, the decision, its plan. */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "operator/label.h"
#include "operator/names.h"
#include "operator/operator.h"
#include "operator/sandbox_internal.h"

static struct operator* operator_of(struct work *w)
{
    return container_of(w->queues, struct operator, queues);
}

void operator_free_dead(struct work *w)
{
    if (w->kind == OBJECT_SANDBOX) {
        struct sandbox_entry *s = container_of(w, struct sandbox_entry, work);

        sandbox_free(s->facts);
        kube_object_unref(s->object);
        for (size_t i = 0; i < s->task_count; i++)
            free((void *)s->tasks[i].pod_uid.p);
        free(s->tasks);
        free(s);
    } else if (w->kind == OBJECT_POOL) {
        struct pool_entry *p = container_of(w, struct pool_entry, work);

        pool_facts_free(p->facts);
        kube_object_unref(p->object);
        free(p);
    } else {
        struct snapshot_entry *s = container_of(w, struct snapshot_entry, work);

        snapshot_free(s->facts);
        kube_object_unref(s->object);
        free(s);
    }
}

/* --- what is around an object --- */

static size_t pods_of(const struct world *w, struct str uid, struct arena *a,
                      const struct pod ***ret)
{
    const struct owner *o = world_owner(w, uid);
    size_t n = 0;

    *ret = arena_new_array(a, const struct pod *, (o ? o->count : 0) + 1);
    if (!*ret || !o)
        return 0;
    for (const struct list *at = o->pods.next; at != &o->pods; at = at->next)
        (*ret)[n++] = container_of(at, struct pod_entry, of_owner)->facts;
    return n;
}

/* The pods of alloc-status, and their pools. */
static int allocated_of(const struct world *w, const struct sandbox *s, struct arena *a,
                        const struct pod ***ret_pods, const struct pool ***ret_pools)
{
    *ret_pods = arena_new_array(a, const struct pod *, s->alloc.count + 1);
    if (ret_pools)
        *ret_pools = arena_new_array(a, const struct pool *, s->alloc.count + 1);
    if (!*ret_pods || (ret_pools && !*ret_pools))
        return -1;
    for (size_t i = 0; i < s->alloc.count; i++) {
        struct pod_entry *p = world_pod(w, s->meta.ns, s->alloc.rows[i]);
        struct pool_entry *pool;

        if (!p)
            continue;
        (*ret_pods)[i] = p->facts;
        if (!ret_pools)
            continue;
        pool = world_pool(w, s->meta.ns, p->facts->meta.owner_name);
        (*ret_pools)[i] = pool ? pool->facts : NULL;
    }
    return 0;
}

static size_t pools_of(const struct world *w, struct str ns, struct arena *a,
                       const struct pool ***ret)
{
    size_t n = 0, at = 0;
    void *v;

    *ret = arena_new_array(a, const struct pool *, w->pools.n + 1);
    while (*ret && map_next(&w->pools, &at, NULL, &v)) {
        const struct pool_entry *p = v;

        if (p->facts && str_eq(p->facts->meta.ns, ns))
            (*ret)[n++] = p->facts;
    }
    return n;
}

/* --- passes --- */

static void decide_sandbox(struct operator* op, struct sandbox_entry *s,
                           const struct json *whole_pod, struct plan *p)
{
    const struct world *w = &op->world;
    const struct sandbox *facts = s->facts;
    struct sandbox_in in = {.sandbox = facts,
                            .whole_pod = whole_pod,
                            .tasks = s->tasks,
                            .task_count = s->task_count,
                            .profiles = w->profiles,
                            .settings = &op->settings,
                            .now_us = time_wall_us()};
    const struct pod **own, **allocated;
    const struct pool **pools, **candidates;
    struct snapshot_entry *snapshot;

    in.own_count = pods_of(w, facts->meta.uid, &p->arena, &own);
    in.own = own;
    if (!own || allocated_of(w, facts, &p->arena, &allocated, &pools) < 0)
        return;
    in.allocated = allocated;
    in.allocated_pools = pools;
    snapshot = world_snapshot(w, facts->meta.ns, snapshot_name_of(p, facts->meta.name));
    /* A snapshot of that name that somebody else made is not ours to use. */
    if (snapshot && str_eq(snapshot->facts->meta.owner_uid, facts->meta.uid))
        in.snapshot = snapshot->facts;
    if (str_eq(facts->pool_ref, STR(POOL_ANY))) {
        in.pool_count = pools_of(w, facts->meta.ns, &p->arena, &candidates);
        in.pools = candidates;
    }
    sandbox_decide(&in, p);
}

static void decide_pool(struct operator* op, struct pool_entry *pool, struct plan *p)
{
    const struct world *w = &op->world;
    struct pool_in in = {.pool = pool->facts,
                         .pods_expected = pool->pods_expected,
                         .status_us = pool->status_us,
                         .now_us = time_wall_us()};
    const struct owner *o = world_owner(w, pool->facts->meta.uid);
    const struct sandbox **sandboxes;
    const struct pod *const **allocated;
    bool *busy;

    in.pods = arena_new_array(&p->arena, struct pool_pod, (o ? o->count : 0) + 1);
    sandboxes = arena_new_array(&p->arena, const struct sandbox *, pool->sandbox_count + 1);
    allocated = arena_new_array(&p->arena, const struct pod *const *, pool->sandbox_count + 1);
    busy = arena_new_array(&p->arena, bool, pool->sandbox_count + 1);
    if (!in.pods || !sandboxes || !allocated || !busy)
        return;
    for (const struct list *at = o ? o->pods.next : NULL; at && at != &o->pods; at = at->next) {
        const struct pod_entry *e = container_of(at, struct pod_entry, of_owner);

        in.pods[in.pod_count++] = (struct pool_pod){e->facts, world_pod_is_claimed(w, e), false};
    }
    LIST_EACH(&pool->sandboxes, at)
    {
        const struct sandbox_entry *s = container_of(at, struct sandbox_entry, of_pool);
        const struct pod **pods;

        if (allocated_of(w, s->facts, &p->arena, &pods, NULL) < 0)
            return;
        sandboxes[in.sandbox_count] = s->facts;
        allocated[in.sandbox_count] = pods;
        busy[in.sandbox_count] = s->writes > 0 || s->doubt_until_ns;
        in.sandbox_count++;
    }
    in.sandboxes = sandboxes;
    in.allocated = allocated;
    in.busy = busy;
    pool_decide(&in, p);
}

static void decide_snapshot(struct operator* op, struct snapshot_entry *s,
                            const struct json *whole_pod, struct plan *p)
{
    const struct world *w = &op->world;
    const struct meta *meta = &s->facts->meta;
    struct sandbox_entry *sandbox = world_sandbox(w, meta->ns, s->facts->sandbox_name);
    struct snapshot_in in = {.snapshot = s->facts,
                             .whole_pod = whole_pod,
                             .settings = &op->settings,
                             .now_us = time_wall_us()};
    struct job_entry *commit =
        world_job(w, meta->ns, label_fit(&p->arena, meta->name, STR("-commit")));
    struct job_entry *unpause =
        world_job(w, meta->ns, label_fit(&p->arena, meta->name, STR("-unpause")));
    const struct pod **pods = NULL;

    in.commit = commit && str_eq(commit->facts->meta.owner_uid, meta->uid) ? commit->facts : NULL;
    in.unpause =
        unpause && str_eq(unpause->facts->meta.owner_uid, meta->uid) ? unpause->facts : NULL;
    if (in.commit) {
        const struct owner *o = world_owner(w, in.commit->meta.uid);

        for (const struct list *at = o ? o->pods.next : NULL; at && at != &o->pods; at = at->next) {
            const struct pod *pod = container_of(at, struct pod_entry, of_owner)->facts;

            if (pod->job_message.n && str_eq(pod->phase, STR("Succeeded")))
                in.commit_pod = pod;
        }
    }
    if (sandbox) {
        in.sandbox = sandbox->facts;
        if (sandbox_is_pooled(sandbox->facts)) {
            if (allocated_of(w, sandbox->facts, &p->arena, &pods, NULL) < 0)
                return;
            in.pod_count = sandbox->facts->alloc.count;
        } else {
            in.pod_count = pods_of(w, sandbox->facts->meta.uid, &p->arena, &pods);
        }
        in.pods = pods;
    }
    snapshot_decide(&in, p);
}

static void decide(struct operator* op, struct work *w, const struct json *whole_pod,
                   struct plan *p)
{
    if (w->kind == OBJECT_SANDBOX)
        decide_sandbox(op, container_of(w, struct sandbox_entry, work), whole_pod, p);
    else if (w->kind == OBJECT_POOL)
        decide_pool(op, container_of(w, struct pool_entry, work), p);
    else
        decide_snapshot(op, container_of(w, struct snapshot_entry, work), whole_pod, p);
}

static struct kube_object *object_of(struct work *w)
{
    if (w->kind == OBJECT_SANDBOX)
        return container_of(w, struct sandbox_entry, work)->object;
    if (w->kind == OBJECT_POOL)
        return container_of(w, struct pool_entry, work)->object;
    return container_of(w, struct snapshot_entry, work)->object;
}

struct fetch { /* a pass that waits for the whole object of a pod */
    struct operator* op;
    struct work *work;
};

static void pass(struct operator* op, struct work *w, const struct json *whole_pod, bool may_fetch);

static void fetched(void *user, const struct kube_answer *answer)
{
    struct fetch *f = user;
    struct operator* op = f->op;
    struct work *w = f->work;

    free(f);
    if (w->dead || answer->error.err.code || !answer->object)
        work_end(w, answer->error.err.code && answer->error.err.code != ENOENT);
    else
        pass(op, w, answer->object->root, false);
}

static void fetch(struct operator* op, struct work *w, struct str pod)
{
    struct kube_request rq = {
        .verb = KUBE_GET, .kind = &kube_pods, .ns = object_of(w)->ns, .name = pod};
    struct fetch *f = mem_new(struct fetch);
    struct err e = {0};

    f->op = op;
    f->work = w;
    if (kube_send(op->client, &rq, fetched, f, NULL, &e) == 0)
        return;
    free(f);
    work_end(w, true);
}

static void pass(struct operator* op, struct work *w, const struct json *whole_pod, bool may_fetch)
{
    struct plan p;

    plan_init(&p);
    decide(op, w, whole_pod, &p);
    if (p.need_pod.n && may_fetch && !p.failed) {
        fetch(op, w, p.need_pod);
        plan_done(&p);
        return;
    }
    if (p.failed)
        (void)log_err(&p.err, "%.*s/%.*s", STR_ARG(object_of(w)->ns), STR_ARG(object_of(w)->name));
    operator_apply(op, w, &p, object_of(w));
}

void operator_run(struct work *w)
{
    struct operator* op = operator_of(w);

    if (w->kind == OBJECT_POOL) {
        struct pool_entry *p = container_of(w, struct pool_entry, work);

        if (!p->facts) { /* sandboxes refer to a pool that does not exist */
            work_end(w, false);
            return;
        }
    }
    if (w->kind == OBJECT_SANDBOX) {
        struct sandbox_entry *s = container_of(w, struct sandbox_entry, work);

        /* A grant of its pool is under way: its answer wakes this again. */
        if (s->writes > 0) {
            work_end(w, false);
            return;
        }
        if (s->doubt_until_ns && loop_now_ns(op->loop) >= s->doubt_until_ns)
            world_end_doubt(&op->world, s);
    }
    pass(op, w, NULL, true);
}
