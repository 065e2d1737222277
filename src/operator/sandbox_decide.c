/* sandbox_decide.c - what to do for a BatchSandbox, in order. */
#include <stdio.h>

#include "kube/object.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"

enum { ASSIGN_AGAIN_US = 5 * 1000000 };

static void expire(const struct sandbox_in *in, struct plan *p)
{
    const struct meta *meta = &in->sandbox->meta;

    plan_write(p, WRITE_DELETE, OBJECT_SANDBOX, meta->ns, meta->name)->uid = meta->uid;
    plan_event(p, false, "Expired", "its expireTime has passed");
}

static void choose_pool(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct members none = {NULL, 0};
    struct str why = STR_NONE;
    const struct pool *pool =
        assign_pool(s, in->pools, in->pool_count, in->profiles, &why, &p->arena);
    struct status status;

    if (pool) {
        struct json *patch = patch_begin(p, &s->meta, true);
        struct json *spec = doc_object_at(&p->arena, patch, STR("spec"));

        (void)doc_set_string(&p->arena, spec, STR("poolRef"), pool->meta.name);
        patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
        plan_event(p, false, "PoolAssigned", "pool %.*s was chosen", STR_ARG(pool->meta.name));
        return;
    }
    plan_again_at(p, in->now_us + ASSIGN_AGAIN_US);
    status_of(in, &none, p, &status);
    status.condition_count = 0;
    status.phase = STR("Pending");
    status_condition(&status, "Progressing", "NoPoolFits", why);
    if (!str_eq(kube_str(sandbox_condition(s, STR("Progressing")), "message"), why))
        plan_event(p, true, "NoPoolFits", "%.*s", STR_ARG(why));
    status_write(in, &status, p);
}

static void task_finalizer_write(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct json *patch = patch_begin(p, &s->meta, true);

    patch_finalizers(p, patch, s->object, (const char *const[]){FINALIZER_TASK, NULL}, NULL);
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
}

static bool has_address(const struct members *m)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->rows[i] && m->rows[i]->ip.n)
            return true;
    return false;
}

static bool writes_to_sandbox(const struct plan *p)
{
    for (const struct write *w = p->writes; w; w = w->next)
        if (w->kind == OBJECT_SANDBOX)
            return true;
    return false;
}

static void run(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    struct status status;
    struct members m;

    if (members_find(in, p, &m) < 0)
        return;
    if (s->malformed) {
        plan_event(
            p, true, "MalformedAnnotation",
            "an annotation sandbox.opensandbox.io/alloc-* is not {\"pods\":[...]}; the sandbox "
            "is left as it is until it is corrected");
        return;
    }
    if (pause_run(in, &m, p))
        return;
    if (!sandbox_is_pooled(s)) {
        pods_delete_surplus(in, p);
        pods_create(in, &m, p);
    }
    release_run(in, p);
    if (s->has_tasks && !s->has_task_finalizer && has_address(&m) && !writes_to_sandbox(p)) {
        task_finalizer_write(in, p);
        return;
    }
    /* One write of the object in a pass: its answer begins the next. */
    if (writes_to_sandbox(p) || endpoints_write(in, &m, p))
        return;
    status_of(in, &m, p, &status);
    tasks_run(in, &m, p, &status.tasks);
    if (!writes_to_sandbox(p))
        status_write(in, &status, p);
}

void sandbox_decide(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;

    if (s->meta.deleting_us) {
        deletion_run(in, p);
        return;
    }
    if (s->expire_us && s->expire_us <= in->now_us) {
        expire(in, p);
        return;
    }
    if (s->expire_us)
        plan_again_at(p, s->expire_us);
    if (str_eq(s->pool_ref, STR(POOL_ANY)))
        choose_pool(in, p);
    else
        run(in, p);
}
