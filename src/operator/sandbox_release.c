/* sandbox_release.c - giving pods of a pool back, and the end of a BatchSandbox.
 *
 * A pod belongs to a sandbox from the write of alloc-status until the sandbox says that it was
 * taken
 * back (alloc-released), stops naming it, or is gone; its finalizer keeps it from going before its
 * pods are clean. A pod is clean when it is being deleted (Delete), all its containers were
 * restarted
 * (Restart), or at once (Noop). */
#include <stdio.h>

#include "base/time.h"
#include "kube/object.h"
#include "kube/time.h"
#include "operator/names.h"
#include "operator/sandbox_internal.h"

enum {
    RESTART_INTERVAL_S = 30,
    RESTART_RETRIES = 3,
    RESTART_INTERVAL_MAX_S = 3600,
    RESTART_POLL_US = 5 * 1000000,
};

struct restart_config {
    const struct json *blacklist, *command;
    int64_t interval_us, retries;
};

/* "30s", "2m", "1h", "500ms" */
static int64_t duration_us(struct str s, int64_t otherwise_us)
{
    static const struct {
        const char *unit;
        int64_t us;
    } units[] = {
        {"ms", 1000            },
        {"s",  1000000         },
        {"m",  60 * 1000000    },
        {"h",  3600LL * 1000000},
    };
    int64_t n;

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        struct str unit = str_of(units[i].unit);

        if (!str_ends(s, unit) ||
            str_to_i64_range(str_make(s.p, s.n - unit.n), 0, RESTART_INTERVAL_MAX_S * 1000, &n) < 0)
            continue;
        return n * units[i].us;
    }
    return otherwise_us;
}

static struct restart_config restart_config_read(struct arena *a, struct str text)
{
    struct restart_config c = {NULL, NULL, RESTART_INTERVAL_S * TIME_US_PER_S, RESTART_RETRIES};
    struct json *v;

    if (!text.n || json_parse(a, text, NULL, &v, NULL) < 0)
        return c;
    c.blacklist = kube_get(v, "blacklist");
    if (json_count(kube_get(v, "restartCommand")))
        c.command = kube_get(v, "restartCommand");
    if (kube_str(v, "retryInterval").n)
        c.interval_us = duration_us(kube_str(v, "retryInterval"), c.interval_us);
    if (kube_get(v, "maxRetries"))
        c.retries = kube_i64(v, "maxRetries");
    return c;
}

static void pod_delete(struct plan *p, const struct pod *pod)
{
    plan_write(p, WRITE_DELETE, OBJECT_POD, pod->meta.ns, pod->meta.name)->uid = pod->meta.uid;
}

static bool is_blacklisted(const struct restart_config *c, struct str container)
{
    json_each(one, c->blacklist)
    {
        if (one->type == JSON_STRING && str_eq(one->string, container))
            return true;
    }
    return false;
}

/* Writes the record, then runs the command in each container of it. */
static void restart_try(const struct sandbox_in *in, const struct pod *pod,
                        const struct restart_config *c, const struct json *containers,
                        int64_t started_us, int64_t retry, struct plan *p)
{
    struct json *record = doc_object(&p->arena), *patch, *command = doc_array(&p->arena);
    char now[TIME_TEXT_MAX], start[TIME_TEXT_MAX];

    (void)kube_time_format(in->now_us, now);
    (void)kube_time_format(started_us, start);
    (void)doc_set_string(&p->arena, record, STR("id"), in->sandbox->meta.uid);
    (void)doc_set_string(&p->arena, record, STR("startTime"), str_of(start));
    (void)doc_set(&p->arena, record, STR("containers"), doc_copy(&p->arena, containers));
    (void)doc_set_string(&p->arena, record, STR("lastRetryTime"), str_of(now));
    (void)doc_set(&p->arena, record, STR("retryCount"), doc_int(&p->arena, retry));
    patch = patch_begin(p, &pod->meta, false);
    patch_note(p, patch, NOTE_RESTART_RECORD, doc_text(&p->arena, record));
    patch_end(p, OBJECT_POD, &pod->meta, patch);
    plan_next_step(p);
    if (c->command) {
        command = doc_copy(&p->arena, c->command);
    } else {
        (void)doc_push(command, doc_string(&p->arena, STR("kill")));
        (void)doc_push(command, doc_string(&p->arena, STR("1")));
    }
    json_each(one, containers)
    {
        struct write *w = plan_write(p, WRITE_EXEC, OBJECT_POD, pod->meta.ns, pod->meta.name);

        w->container = one->key;
        plan_body(p, w, command);
    }
    plan_again_at(p, in->now_us +
                         (c->interval_us < RESTART_POLL_US ? c->interval_us : RESTART_POLL_US));
}

static bool restart_is_done(const struct pod *pod, const struct json *recorded,
                            const struct json *running)
{
    json_each(old, recorded)
    {
        const struct json *now = json_get(running, old->key);

        if (!now || doc_equal(now, old))
            return false;
    }
    return pod->ready;
}

/* True when the pod is clean. */
static bool restart_run(const struct sandbox_in *in, const struct pod *pod, const struct pool *pool,
                        struct plan *p)
{
    struct restart_config c = restart_config_read(&p->arena, pool->restart_config);
    struct json *record = NULL, *running = NULL, *wanted = doc_object(&p->arena);
    int64_t last_us = 0, started_us = in->now_us, retry = 0;

    if (pod->running.n)
        (void)json_parse(&p->arena, pod->running, NULL, &running, NULL);
    if (pod->restart_record.n &&
        json_parse(&p->arena, pod->restart_record, NULL, &record, NULL) == 0 &&
        str_eq(kube_str(record, "id"), in->sandbox->meta.uid)) {
        if (restart_is_done(pod, kube_get(record, "containers"), running))
            return true;
        (void)time_parse_lenient(kube_str(record, "lastRetryTime"), &last_us, NULL);
        (void)time_parse_lenient(kube_str(record, "startTime"), &started_us, NULL);
        retry = kube_i64(record, "retryCount");
        if (in->now_us < last_us + c.interval_us) {
            plan_again_at(p, last_us + c.interval_us);
            return false;
        }
        if (retry < c.retries) {
            restart_try(in, pod, &c, kube_get(record, "containers"), started_us, retry + 1, p);
            return false;
        }
        plan_event(p, true, "RestartFailed",
                   "pod %.*s was not restarted after %lld tries and is deleted",
                   STR_ARG(pod->meta.name), (long long)retry);
        pod_delete(p, pod);
        return false;
    }
    json_each(one, running)
    {
        if (!is_blacklisted(&c, one->key))
            (void)doc_set(&p->arena, wanted, one->key, doc_copy(&p->arena, one));
    }
    /* With a container that does not run, what of it is dirty cannot be known. */
    if (!json_count(wanted) || json_count(running) != pod->containers) {
        pod_delete(p, pod);
        return false;
    }
    restart_try(in, pod, &c, wanted, started_us, 1, p);
    return false;
}

/* One step towards a clean pod; true when it is. */
static bool recycle(const struct sandbox_in *in, size_t at, bool destroy, struct plan *p)
{
    const struct pod *pod = in->allocated[at];
    const struct pool *pool = in->allocated_pools[at];
    bool unreachable = false;

    if (!pod || pod->meta.deleting_us)
        return true;
    if (destroy || !pool || pool->meta.deleting_us || pod->finished ||
        pool->recycle == RECYCLE_DELETE) {
        pod_delete(p, pod);
        return false;
    }
    if (in->sandbox->has_task_finalizer && !in->sandbox->meta.deleting_us &&
        !task_is_dropped(in, at, pod, p, &unreachable)) {
        if (unreachable) /* its task may still run: no other sandbox may get this pod */
            pod_delete(p, pod);
        return false;
    }
    if (pool->recycle == RECYCLE_NOOP)
        return true;
    return restart_run(in, pod, pool, p);
}

/* Whether the pod at this place must be given back. */
static bool must_release(const struct sandbox *s, size_t at)
{
    struct str name = s->alloc.rows[at];

    if (names_have(&s->released, name))
        return false;
    return s->meta.deleting_us || !sandbox_is_pooled(s) || names_have(&s->release, name) ||
           (int64_t)at >= s->replicas;
}

static void names_push(struct names *list, struct str name)
{
    list->rows[list->count++] = name;
}

static bool names_alloc(struct plan *p, size_t count, struct names *ret)
{
    ret->rows = arena_new_array(&p->arena, struct str, count + 1);
    ret->count = 0;
    return ret->rows != NULL;
}

/* Some pods are clean: the sandbox lets go of them. Those it gave back because their task ended
 * stay
 * in the list, so that they are not replaced; others leave it. */
static void release_write(const struct sandbox_in *in, const bool *clean, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    size_t room = s->alloc.count + s->released.count;
    struct names alloc, release, released;
    struct json *patch;
    size_t held = 0;

    if (!names_alloc(p, room, &alloc) || !names_alloc(p, s->release.count, &release) ||
        !names_alloc(p, room, &released))
        return;
    for (size_t i = 0; i < s->alloc.count; i++) {
        struct str name = s->alloc.rows[i];
        bool was_released = names_have(&s->released, name);
        bool task_ended = sandbox_is_pooled(s) && (int64_t)i < s->replicas;

        if ((clean[i] || was_released) && !task_ended)
            continue;
        held += !clean[i] && !was_released;
        names_push(&alloc, name);
        if (names_have(&s->release, name))
            names_push(&release, name);
        if (clean[i] || was_released)
            names_push(&released, name);
    }
    patch = patch_begin(p, &s->meta, true);
    patch_note_names(p, patch, NOTE_ALLOC_STATUS, &alloc);
    patch_note_names(p, patch, NOTE_ALLOC_RELEASE, &release);
    patch_note_names(p, patch, NOTE_ALLOC_RELEASED, &released);
    if (!held && !alloc.count && s->has_pool_finalizer)
        patch_finalizers(p, patch, s->object, NULL, (const char *const[]){FINALIZER_POOL, NULL});
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
}

/* Recycles what must go. Returns how many are not clean yet; *ret_clean by place. */
static size_t recycle_all(const struct sandbox_in *in, bool destroy, struct plan *p, bool *clean,
                          size_t *ret_done)
{
    const struct sandbox *s = in->sandbox;
    size_t left = 0;

    *ret_done = 0;
    for (size_t i = 0; i < s->alloc.count; i++) {
        if (!must_release(s, i))
            continue;
        clean[i] = recycle(in, i, destroy, p);
        *ret_done += clean[i];
        left += !clean[i];
    }
    return left;
}

void release_run(const struct sandbox_in *in, struct plan *p)
{
    const struct sandbox *s = in->sandbox;
    bool *clean = arena_new_array(&p->arena, bool, s->alloc.count + 1);
    size_t done;

    if (!clean || s->malformed)
        return;
    (void)recycle_all(in, false, p, clean, &done);
    if (done || (s->has_pool_finalizer && !s->alloc.count && !sandbox_is_pooled(s)))
        release_write(in, clean, p);
}

/* --- deletion --- */

/* All pods with a task of ours, for the time after the specification may have changed. */
static int deletion_members(const struct sandbox_in *in, struct plan *p, struct members *ret)
{
    int r = members_find(in, p, ret);

    if (r < 0 || !sandbox_is_pooled(in->sandbox))
        return r;
    for (size_t i = 0; i < ret->count && i < in->sandbox->alloc.count; i++)
        if (pod_is_live(in->allocated[i]) &&
            !names_have(&in->sandbox->released, in->sandbox->alloc.rows[i]))
            ret->rows[i] = in->allocated[i];
    return 0;
}

void deletion_run(const struct sandbox_in *in, struct plan *p)
{
    static const char *const ours[] = {FINALIZER_TASK, FINALIZER_POOL, NULL};
    const struct sandbox *s = in->sandbox;
    bool *clean = arena_new_array(&p->arena, bool, s->alloc.count + 1);
    bool given_up = false;
    struct members m;
    struct json *patch;
    size_t done;

    if (!s->has_task_finalizer && !s->has_pool_finalizer)
        return; /* its own pods go by their owner reference */
    if (!clean || deletion_members(in, p, &m) < 0)
        return;
    if (s->has_task_finalizer && !tasks_stop(in, &m, p, &given_up))
        return;
    if (s->has_pool_finalizer && s->malformed) {
        plan_event(
            p, true, "MalformedAnnotation",
            "the annotation %s cannot be read: the pods of this sandbox are unknown; correct "
            "it, and the deletion goes on",
            NOTE_ALLOC_STATUS);
        return;
    }
    if (s->has_pool_finalizer && recycle_all(in, given_up, p, clean, &done) > 0)
        return;
    patch = patch_begin(p, &s->meta, true);
    patch_finalizers(p, patch, s->object, NULL, ours);
    patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
}
