/* pool_allocate.c - which sandbox gets which idle pod of its pool.
 *
 * One patch of the BatchSandbox does it all: alloc-status, the finalizers and the endpoints,
 * because
 * an idle pod that is given away is ready and has its address. The patch holds the version of the
 * sandbox it was decided on, so a change in between fails it. */
#include <stdlib.h>

#include "kube/object.h"
#include "operator/names.h"
#include "operator/pool_internal.h"

struct want { /* a sandbox that lacks pods */
    const struct sandbox *sandbox;
    const struct pod *const *allocated;
    int64_t missing;
};

/* Whether the place has a pod, or had one whose task has ended. */
static bool place_is_served(const struct sandbox *s, const struct pod *const *allocated, size_t at)
{
    if (at >= s->alloc.count)
        return false;
    if (names_have(&s->release, s->alloc.rows[at]) || names_have(&s->released, s->alloc.rows[at]))
        return true;
    return pod_is_live(allocated[at]);
}

static int64_t places_missing(const struct sandbox *s, const struct pod *const *allocated)
{
    int64_t missing = 0;

    for (int64_t i = 0; i < s->replicas; i++)
        missing += !place_is_served(s, allocated, (size_t)i);
    return missing;
}

static bool may_be_served(const struct sandbox *s, int64_t now_us)
{
    return !s->meta.deleting_us && !s->malformed && !str_eq(s->phase, STR("Pausing")) &&
           !str_eq(s->phase, STR("Paused")) && !(s->expire_us && s->expire_us <= now_us);
}

static int want_cmp(const void *x, const void *y)
{
    const struct want *a = x, *b = y;

    if (a->sandbox->meta.created_us != b->sandbox->meta.created_us)
        return a->sandbox->meta.created_us < b->sandbox->meta.created_us ? -1 : 1;
    return str_cmp(a->sandbox->meta.name, b->sandbox->meta.name);
}

/* The next idle pod that is ready: those of the present template first. NULL when none is left. */
static struct pool_pod *next_ready(struct pool_in *in, bool newest, size_t *at)
{
    for (; *at < in->pod_count; (*at)++) {
        struct pool_pod *x = &in->pods[*at];

        if (pool_pod_is_idle(x) && x->pod->ready && x->pod->ip.n &&
            str_eq(x->pod->revision, in->pool->revision) == newest)
            return x;
    }
    return NULL;
}

struct supply {
    size_t newest_at, older_at;
};

static struct pool_pod *take_ready(struct pool_in *in, struct supply *s)
{
    struct pool_pod *x = next_ready(in, true, &s->newest_at);

    if (!x)
        x = next_ready(in, false, &s->older_at);
    if (x)
        x->claimed = true;
    return x;
}

static void grant_write(const struct want *w, const struct names *alloc, const struct names *got,
                        const struct json *addresses, struct plan *p)
{
    const struct sandbox *s = w->sandbox;
    const char *add[3] = {NULL, NULL, NULL};
    struct json *patch = patch_begin(p, &s->meta, true);
    struct write *write;
    size_t n = 0;

    if (s->has_tasks && !s->has_task_finalizer)
        add[n++] = FINALIZER_TASK;
    if (!s->has_pool_finalizer)
        add[n++] = FINALIZER_POOL;
    if (n)
        patch_finalizers(p, patch, s->object, add, NULL);
    patch_note_names(p, patch, NOTE_ALLOC_STATUS, alloc);
    patch_note(p, patch, NOTE_ENDPOINTS, doc_text(&p->arena, addresses));
    write = patch_end(p, OBJECT_SANDBOX, &s->meta, patch);
    write->granted = got->rows;
    write->granted_count = got->count;
}

/* Fills the empty places of one sandbox, as far as pods are there. Returns how many it got. */
static int64_t grant(struct pool_in *in, const struct want *w, struct supply *supply,
                     struct plan *p)
{
    const struct sandbox *s = w->sandbox;
    size_t places = max_size((size_t)s->replicas, s->alloc.count);
    struct names alloc = {arena_new_array(&p->arena, struct str, places + 1), 0};
    struct names got = {arena_new_array(&p->arena, struct str, places + 1), 0};
    struct json *addresses = doc_array(&p->arena);

    if (!alloc.rows || !got.rows)
        return 0;
    for (size_t i = 0; i < places; i++) {
        const struct pod *pod = i < s->alloc.count ? w->allocated[i] : NULL;
        bool let_go = i < s->alloc.count && (names_have(&s->release, s->alloc.rows[i]) ||
                                             names_have(&s->released, s->alloc.rows[i]));
        struct pool_pod *x = NULL;
        struct str name = i < s->alloc.count ? s->alloc.rows[i] : STR_NONE;

        if ((int64_t)i < s->replicas && !place_is_served(s, w->allocated, i))
            x = take_ready(in, supply);
        if (x) {
            pod = x->pod;
            name = pod->meta.name;
            got.rows[got.count++] = name;
        }
        if (!name.p)
            break; /* the list has no holes: the rest waits */
        alloc.rows[alloc.count++] = name;
        if ((int64_t)i < s->replicas)
            (void)doc_push(addresses, doc_string(&p->arena, pod_is_live(pod) && !let_go && pod->ip.n
                                                                ? pod->ip
                                                                : STR("")));
    }
    for (int64_t i = (int64_t)json_count(addresses); i < s->replicas && got.count; i++)
        (void)doc_push(addresses, doc_string(&p->arena, STR("")));
    if (got.count)
        grant_write(w, &alloc, &got, addresses, p);
    return (int64_t)got.count;
}

int64_t pool_allocate(struct pool_in *in, struct plan *p)
{
    struct want *wants = arena_new_array(&p->arena, struct want, in->sandbox_count + 1);
    struct supply supply = {0, 0};
    int64_t missing = 0;
    size_t count = 0;

    if (!wants)
        return 0;
    for (size_t i = 0; i < in->sandbox_count; i++) {
        const struct sandbox *s = in->sandboxes[i];
        int64_t n =
            may_be_served(s, in->now_us) && !in->busy[i] ? places_missing(s, in->allocated[i]) : 0;

        if (n > 0)
            wants[count++] = (struct want){s, in->allocated[i], n};
    }
    if (count > 1)
        qsort(wants, count, sizeof(wants[0]), want_cmp);
    for (size_t i = 0; i < count; i++)
        missing += wants[i].missing - grant(in, &wants[i], &supply, p);
    return missing;
}
