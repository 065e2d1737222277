#include "operator/world.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "operator/names.h"

enum { KEY_MAX = 600, PROFILES_MAX = 1 << 20 };

struct key {
    char text[KEY_MAX];
};

static struct str key_of(struct key *k, struct str ns, struct str name)
{
    int n = snprintf(k->text, sizeof(k->text), "%.*s/%.*s", STR_ARG(ns), STR_ARG(name));

    return str_make(k->text, min_size((size_t)n, sizeof(k->text) - 1));
}

static void *find(const struct map *m, struct str ns, struct str name)
{
    struct key k;

    return map_get(m, key_of(&k, ns, name));
}

static void put(struct map *m, struct str ns, struct str name, void *entry)
{
    struct key k;

    if (map_set(m, key_of(&k, ns, name), entry) < 0)
        log_event(LOG_ERROR, "too many objects: one is not looked after", LOG_STR("name", name));
}

static void drop(struct map *m, struct str ns, struct str name)
{
    struct key k;

    (void)map_take(m, key_of(&k, ns, name));
}

void world_init(struct world *w, struct queues *queues)
{
    *w = (struct world){.queues = queues};
    map_init(&w->sandboxes, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->pools, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->snapshots, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->pods, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->jobs, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->owners, WORLD_OBJECTS_MAX, NULL);
    map_init(&w->claims, WORLD_OBJECTS_MAX, NULL);
    arena_init(&w->profiles_arena, PROFILES_MAX * 8);
}

struct sandbox_entry *world_sandbox(const struct world *w, struct str ns, struct str name)
{
    return find(&w->sandboxes, ns, name);
}

struct pool_entry *world_pool(const struct world *w, struct str ns, struct str name)
{
    return find(&w->pools, ns, name);
}

struct snapshot_entry *world_snapshot(const struct world *w, struct str ns, struct str name)
{
    return find(&w->snapshots, ns, name);
}

struct pod_entry *world_pod(const struct world *w, struct str ns, struct str name)
{
    return find(&w->pods, ns, name);
}

struct job_entry *world_job(const struct world *w, struct str ns, struct str name)
{
    return find(&w->jobs, ns, name);
}

struct sandbox_entry *world_holder(const struct world *w, struct str ns, struct str pod)
{
    return find(&w->claims, ns, pod);
}

struct owner *world_owner(const struct world *w, struct str uid)
{
    return map_get(&w->owners, uid);
}

/* Whether `o` replaces what is known. The same version again may come with fewer fields. */
static bool is_newer(const struct kube_object *old, const struct kube_object *o)
{
    return !old || !str_eq(old->uid, o->uid) || o->revision >= old->revision;
}

static void problem(const struct kube_object *o, const struct err *e)
{
    log_event(LOG_WARN, "an object cannot be read, ignoring it", LOG_STR("namespace", o->ns),
              LOG_STR("name", o->name), LOG_STR("why", e->msg));
}

static void remember_lost(struct world *w, struct str uid)
{
    if (str_copy(w->lost[w->lost_at], WORLD_UID_MAX, uid) < 0)
        return;
    w->lost_at = (w->lost_at + 1) % WORLD_LOST_MAX;
}

bool world_has_lost(const struct world *w, struct str uid)
{
    for (size_t i = 0; i < WORLD_LOST_MAX; i++)
        if (str_eq(str_of(w->lost[i]), uid))
            return true;
    return false;
}

/* --- pods and their owners --- */

static void owner_add(struct world *w, struct pod_entry *p)
{
    struct str uid = p->facts->meta.owner_uid;
    struct owner *o = world_owner(w, uid);

    list_init(&p->of_owner);
    if (!uid.n)
        return;
    if (!o) {
        o = mem_new(struct owner);
        list_init(&o->pods);
        if (map_set(&w->owners, uid, o) < 0) {
            free(o);
            return;
        }
    }
    list_push(&o->pods, &p->of_owner);
    o->count++;
}

static void owner_remove(struct world *w, struct pod_entry *p)
{
    struct str uid = p->facts->meta.owner_uid;
    struct owner *o = world_owner(w, uid);

    if (!o || list_empty(&p->of_owner))
        return;
    list_remove(&p->of_owner);
    if (--o->count == 0)
        free(map_take(&w->owners, uid));
}

void world_wake_pod(struct world *w, const struct pod_entry *p)
{
    const struct meta *m = &p->facts->meta;
    struct sandbox_entry *holder;

    if (str_eq(m->owner_kind, STR(KIND_SANDBOX_NAME))) {
        struct sandbox_entry *s = world_sandbox(w, m->ns, m->owner_name);

        if (s)
            work_wake(&s->work);
    } else if (str_eq(m->owner_kind, STR(KIND_POOL_NAME))) {
        struct pool_entry *pool = world_pool(w, m->ns, m->owner_name);

        if (pool)
            work_wake(&pool->work);
    }
    holder = world_holder(w, m->ns, m->name);
    if (holder)
        work_wake(&holder->work);
}

static void pod_entry_free(struct pod_entry *p)
{
    pod_free(p->facts);
    kube_object_unref(p->object);
    free(p);
}

void world_see_pod(struct world *w, struct kube_object *o)
{
    struct pod_entry *p = world_pod(w, o->ns, o->name);
    struct err e = {0};
    struct pod *facts;

    if (p && !is_newer(p->object, o))
        return;
    facts = pod_read(o->root, &e);
    if (!facts) {
        problem(o, &e);
        return;
    }
    if (p && !str_eq(p->object->uid, o->uid))
        p->receiver = NULL; /* another pod by the same name */
    if (p) {
        owner_remove(w, p);
        pod_free(p->facts);
        kube_object_unref(p->object);
    } else {
        p = mem_new(struct pod_entry);
        put(&w->pods, o->ns, o->name, p);
    }
    p->object = kube_object_ref(o);
    p->facts = facts;
    owner_add(w, p);
    world_wake_pod(w, p);
}

void world_lose_pod(struct world *w, const struct kube_object *o)
{
    struct pod_entry *p = world_pod(w, o->ns, o->name);

    remember_lost(w, o->uid);
    if (!p || !str_eq(p->object->uid, o->uid))
        return;
    world_wake_pod(w, p);
    owner_remove(w, p);
    drop(&w->pods, o->ns, o->name);
    pod_entry_free(p);
}

bool world_pod_is_claimed(const struct world *w, const struct pod_entry *p)
{
    size_t at = 0;
    void *v;

    if (p->receiver || world_holder(w, p->facts->meta.ns, p->facts->meta.name))
        return true;
    if (!w->malformed)
        return false;
    while (map_next(&w->sandboxes, &at, NULL, &v)) {
        const struct sandbox_entry *s = v;

        if (s->facts->malformed && str_eq(s->facts->meta.ns, p->facts->meta.ns) &&
            sandbox_claims(s->facts, p->facts->meta.name))
            return true;
    }
    return false;
}

/* --- sandboxes --- */

static void claims_remove(struct world *w, struct sandbox_entry *s)
{
    for (size_t i = 0; i < s->facts->alloc.count; i++)
        if (world_holder(w, s->facts->meta.ns, s->facts->alloc.rows[i]) == s)
            drop(&w->claims, s->facts->meta.ns, s->facts->alloc.rows[i]);
}

static void claims_add(struct world *w, struct sandbox_entry *s)
{
    for (size_t i = 0; i < s->facts->alloc.count; i++) {
        struct str ns = s->facts->meta.ns, name = s->facts->alloc.rows[i];
        struct sandbox_entry *other = world_holder(w, ns, name);

        if (names_have(&s->facts->released, name))
            continue;
        if (other && other != s) {
            w->duplicates++;
            log_event(LOG_ERROR, "a pod is claimed by two sandboxes", LOG_STR("pod", name),
                      LOG_STR("first", other->facts->meta.name),
                      LOG_STR("second", s->facts->meta.name));
            continue;
        }
        put(&w->claims, ns, name, s);
    }
}

/* Reserved pods of a write whose fate is now known. */
void world_end_doubt(struct world *w, struct sandbox_entry *s)
{
    size_t at = 0;
    void *v;

    if (!s->doubt_until_ns)
        return;
    s->doubt_until_ns = 0;
    while (map_next(&w->pods, &at, NULL, &v)) {
        struct pod_entry *p = v;

        if (p->receiver == s)
            p->receiver = NULL;
    }
}

static struct pool_entry *pool_entry_of(struct world *w, struct str ns, struct str name)
{
    struct pool_entry *p = world_pool(w, ns, name);

    if (p)
        return p;
    p = mem_new(struct pool_entry);
    work_init(&p->work, w->queues, OBJECT_POOL);
    list_init(&p->sandboxes);
    put(&w->pools, ns, name, p);
    return p;
}

static void pool_link(struct world *w, struct sandbox_entry *s)
{
    struct pool_entry *p;

    if (!sandbox_is_pooled(s->facts) || str_eq(s->facts->pool_ref, STR(POOL_ANY)))
        return;
    p = pool_entry_of(w, s->facts->meta.ns, s->facts->pool_ref);
    list_push(&p->sandboxes, &s->of_pool);
    p->sandbox_count++;
    work_wake(&p->work);
}

static void pool_unlink(struct world *w, struct sandbox_entry *s)
{
    struct pool_entry *p;

    if (list_empty(&s->of_pool))
        return;
    list_remove(&s->of_pool);
    p = world_pool(w, s->facts->meta.ns, s->facts->pool_ref);
    if (!p)
        return;
    p->sandbox_count--;
    work_wake(&p->work);
}

/* Pools whose pods it had: they may be idle now. */
static void wake_pools_of(struct world *w, const struct sandbox *s)
{
    for (size_t i = 0; i < s->alloc.count; i++) {
        struct pod_entry *p = world_pod(w, s->meta.ns, s->alloc.rows[i]);

        if (p)
            world_wake_pod(w, p);
    }
}

void world_see_sandbox(struct world *w, struct kube_object *o)
{
    struct sandbox_entry *s = world_sandbox(w, o->ns, o->name);
    struct err e = {0};
    struct sandbox *facts;

    if (s && str_eq(s->object->uid, o->uid) && s->object->revision >= o->revision)
        return;
    facts = sandbox_read(o->root, &e);
    if (!facts) {
        problem(o, &e);
        return;
    }
    if (s && !str_eq(s->object->uid, o->uid)) {
        world_lose_sandbox(w, s->object);
        s = NULL;
    }
    if (s) {
        claims_remove(w, s);
        pool_unlink(w, s);
        if (facts->alloc.count != s->facts->alloc.count)
            wake_pools_of(w, s->facts);
        w->malformed -= s->facts->malformed;
        if (s->doubt_until_ns && !str_eq(str_of(s->doubt_version), o->version))
            world_end_doubt(w, s);
        sandbox_free(s->facts);
        kube_object_unref(s->object);
    } else {
        s = mem_new(struct sandbox_entry);
        work_init(&s->work, w->queues, OBJECT_SANDBOX);
        list_init(&s->of_pool);
        put(&w->sandboxes, o->ns, o->name, s);
    }
    s->object = kube_object_ref(o);
    s->facts = facts;
    w->malformed += facts->malformed;
    claims_add(w, s);
    pool_link(w, s);
    work_wake(&s->work);
}

void world_lose_sandbox(struct world *w, const struct kube_object *o)
{
    struct sandbox_entry *s = world_sandbox(w, o->ns, o->name);

    if (!s || !str_eq(s->object->uid, o->uid))
        return;
    claims_remove(w, s);
    pool_unlink(w, s);
    world_end_doubt(w, s);
    wake_pools_of(w, s->facts);
    w->malformed -= s->facts->malformed;
    drop(&w->sandboxes, s->facts->meta.ns, s->facts->meta.name);
    work_drop(&s->work); /* may free it */
}

/* --- the other kinds --- */

void world_see_pool(struct world *w, struct kube_object *o)
{
    struct pool_entry *p = world_pool(w, o->ns, o->name);
    struct err e = {0};
    struct pool *facts;

    if (p && p->object && !is_newer(p->object, o))
        return;
    facts = pool_facts_read(o->root, &e);
    if (!facts) {
        problem(o, &e);
        return;
    }
    p = pool_entry_of(w, o->ns, o->name);
    pool_facts_free(p->facts);
    kube_object_unref(p->object);
    p->object = kube_object_ref(o);
    p->facts = facts;
    work_wake(&p->work);
}

void world_lose_pool(struct world *w, const struct kube_object *o)
{
    struct pool_entry *p = world_pool(w, o->ns, o->name);

    if (!p || !p->object || !str_eq(p->object->uid, o->uid))
        return;
    /* The entry stays while sandboxes refer to it: a pool of that name may come again. */
    pool_facts_free(take_ptr(&p->facts));
    kube_object_unref(take_ptr(&p->object));
    LIST_EACH(&p->sandboxes, at)
    {
        work_wake(&container_of(at, struct sandbox_entry, of_pool)->work);
    }
    if (!p->sandbox_count && !p->work.running) {
        drop(&w->pools, o->ns, o->name);
        work_drop(&p->work);
    }
}

void world_see_snapshot(struct world *w, struct kube_object *o)
{
    struct snapshot_entry *s = world_snapshot(w, o->ns, o->name);
    struct err e = {0};
    struct snapshot *facts;
    struct sandbox_entry *owner;

    if (s && str_eq(s->object->uid, o->uid) && s->object->revision >= o->revision)
        return;
    facts = snapshot_read(o->root, &e);
    if (!facts) {
        problem(o, &e);
        return;
    }
    if (!s) {
        s = mem_new(struct snapshot_entry);
        work_init(&s->work, w->queues, OBJECT_SNAPSHOT);
        put(&w->snapshots, o->ns, o->name, s);
    }
    snapshot_free(s->facts);
    kube_object_unref(s->object);
    s->object = kube_object_ref(o);
    s->facts = facts;
    work_wake(&s->work);
    owner = world_sandbox(w, o->ns, facts->sandbox_name);
    if (owner)
        work_wake(&owner->work);
}

void world_lose_snapshot(struct world *w, const struct kube_object *o)
{
    struct snapshot_entry *s = world_snapshot(w, o->ns, o->name);
    struct sandbox_entry *owner;

    if (!s || !str_eq(s->object->uid, o->uid))
        return;
    remember_lost(w, o->uid);
    owner = world_sandbox(w, o->ns, s->facts->sandbox_name);
    drop(&w->snapshots, o->ns, o->name);
    work_drop(&s->work);
    if (owner)
        work_wake(&owner->work);
}

void world_see_job(struct world *w, struct kube_object *o)
{
    struct job_entry *j = world_job(w, o->ns, o->name);
    struct snapshot_entry *s;
    struct err e = {0};
    struct job *facts;

    if (j && !is_newer(j->object, o))
        return;
    facts = job_read(o->root, &e);
    if (!facts) {
        problem(o, &e);
        return;
    }
    if (!j) {
        j = mem_new(struct job_entry);
        put(&w->jobs, o->ns, o->name, j);
    }
    job_free(j->facts);
    kube_object_unref(j->object);
    j->object = kube_object_ref(o);
    j->facts = facts;
    s = world_snapshot(w, o->ns, facts->meta.owner_name);
    if (s)
        work_wake(&s->work);
}

void world_lose_job(struct world *w, const struct kube_object *o)
{
    struct job_entry *j = world_job(w, o->ns, o->name);
    struct snapshot_entry *s;

    remember_lost(w, o->uid);
    if (!j || !str_eq(j->object->uid, o->uid))
        return;
    s = world_snapshot(w, o->ns, j->facts->meta.owner_name);
    drop(&w->jobs, o->ns, o->name);
    job_free(j->facts);
    kube_object_unref(j->object);
    free(j);
    if (s)
        work_wake(&s->work);
}

void world_see_profiles(struct world *w, const struct kube_object *o)
{
    struct str text = o ? kube_str(o->root, "data.profiles") : STR_NONE;
    struct err e = {0};

    arena_reset(&w->profiles_arena);
    w->profiles = NULL;
    if (!text.n)
        return;
    if (json_parse(&w->profiles_arena, text, &(struct json_limits){.text_bytes_max = PROFILES_MAX},
                   &w->profiles, &e) < 0) {
        w->profiles = NULL;
        log_event(LOG_WARN, "pool-assign-profiles cannot be read, using the built-in profile",
                  LOG_STR("why", e.msg));
    }
}

static void free_all(struct map *m, void (*free_one)(void *))
{
    size_t at = 0;
    void *v;

    while (map_next(m, &at, NULL, &v))
        free_one(v);
    map_done(m);
}

static void pod_free_any(void *v)
{
    pod_entry_free(v);
}

static void job_free_any(void *v)
{
    struct job_entry *j = v;

    job_free(j->facts);
    kube_object_unref(j->object);
    free(j);
}

static void sandbox_free_any(void *v)
{
    work_drop(&((struct sandbox_entry *)v)->work);
}

static void pool_free_any(void *v)
{
    work_drop(&((struct pool_entry *)v)->work);
}

static void snapshot_free_any(void *v)
{
    work_drop(&((struct snapshot_entry *)v)->work);
}

void world_done(struct world *w)
{
    free_all(&w->pods, pod_free_any);
    free_all(&w->jobs, job_free_any);
    free_all(&w->owners, free);
    free_all(&w->sandboxes, sandbox_free_any);
    free_all(&w->pools, pool_free_any);
    free_all(&w->snapshots, snapshot_free_any);
    map_done(&w->claims);
    arena_done(&w->profiles_arena);
}
