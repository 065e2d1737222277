/* informer_store.c - the objects of an informer, and the handlers of their changes. */
#include <errno.h>

#include "base/mem.h"
#include "base/time.h"
#include "kube/informer_internal.h"

enum { INBOX_MAX = 65536 };

int kube_key(struct str ns, struct str name, char out[KUBE_KEY_MAX], struct str *ret)
{
    if (!name.n || ns.n + name.n + 1 > KUBE_KEY_MAX)
        return -EINVAL;
    memcpy(out, ns.p, ns.n);
    out[ns.n] = '/';
    memcpy(out + ns.n + 1, name.p, name.n);
    *ret = str_make(out, ns.n + 1 + name.n);
    return 0;
}

/* --- changes --- */

static void tell_add(struct kube_informer *i, struct kube_object *o)
{
    LIST_EACH(&i->handlers, at)
    {
        struct kube_handler *h = container_of(at, struct kube_handler, link);

        if (h->on_add)
            h->on_add(h, o);
    }
}

static void tell_update(struct kube_informer *i, struct kube_object *old, struct kube_object *o)
{
    LIST_EACH(&i->handlers, at)
    {
        struct kube_handler *h = container_of(at, struct kube_handler, link);

        if (h->on_update)
            h->on_update(h, old, o);
    }
}

static void tell_delete(struct kube_informer *i, struct kube_object *last)
{
    LIST_EACH(&i->handlers, at)
    {
        struct kube_handler *h = container_of(at, struct kube_handler, link);

        if (h->on_delete)
            h->on_delete(h, last);
    }
}

void kube_store_tell_synced(struct kube_informer *i)
{
    LIST_EACH(&i->handlers, at)
    {
        struct kube_handler *h = container_of(at, struct kube_handler, link);

        if (h->on_synced)
            h->on_synced(h);
    }
}

int kube_store_reduce(struct kube_informer *i, struct kube_object *full, struct kube_object **ret)
{
    AUTO_BUF(text, KUBE_OBJECT_BYTES_MAX);
    struct json_writer w;
    int r;

    if (!i->conf.reduce) {
        *ret = kube_object_ref(full);
        return 0;
    }
    json_write_begin(&w, &text);
    i->conf.reduce(full->root, &w);
    r = json_write_end(&w);
    return r < 0 ? r : kube_object_parse(buf_str(&text), ret, NULL);
}

void kube_store_put(struct kube_informer *i, struct kube_object *o)
{
    char text[KUBE_KEY_MAX];
    auto_object *old = NULL, *held = o;
    struct str key;
    int r;

    if (kube_key(o->ns, o->name, text, &key) < 0)
        return;
    old = map_get(&i->objects, key);
    if (old)
        (void)kube_object_ref(old);
    if (old && o->revision && old->revision >= o->revision)
        return; /* a late answer */
    (void)pthread_mutex_lock(&i->lock);
    r = map_set(&i->objects, key, kube_object_ref(o));
    if (r == 0)
        i->bytes += o->bytes - (old ? old->bytes : 0);
    (void)pthread_mutex_unlock(&i->lock);
    if (r < 0) { /* the limit: the next list says so */
        kube_object_unref(o);
        return;
    }
    if (old)
        tell_update(i, old, o);
    else
        tell_add(i, o);
}

void kube_store_remove(struct kube_informer *i, struct kube_object *last)
{
    char text[KUBE_KEY_MAX];
    auto_object *old = NULL;
    struct str key;

    if (kube_key(last->ns, last->name, text, &key) < 0)
        return;
    old = map_get(&i->objects, key);
    if (!old)
        return;
    (void)kube_object_ref(old);
    if (last->revision && old->revision > last->revision)
        return; /* it was made anew meanwhile, and we know that already */
    (void)pthread_mutex_lock(&i->lock);
    (void)map_remove(&i->objects, key);
    i->bytes -= old->bytes;
    (void)pthread_mutex_unlock(&i->lock);
    tell_delete(i, last);
}

void kube_store_replace(struct kube_informer *i, uint64_t revision)
{
    auto_objects all = {0};
    size_t at = 0;
    struct str key;
    void *value;

    if (revision > i->seen)
        i->seen = revision;
    while (map_next(&i->fresh, &at, &key, &value) && !i->dead)
        kube_store_put(i, kube_object_ref(value));
    if (i->dead || kube_informer_list(i, STR(""), NULL, &all) < 0)
        return;
    for (size_t n = 0; n < all.count && !i->dead; n++) {
        struct kube_object *o = all.rows[n];
        char text[KUBE_KEY_MAX];

        /* What we wrote after the list was taken is not in it, and yet exists. */
        if (kube_key(o->ns, o->name, text, &key) == 0 && !map_has(&i->fresh, key) &&
            (!revision || o->revision <= revision))
            kube_store_remove(i, o);
    }
}

/* --- our own writes --- */

static bool is_ours(const struct kube_informer *i, const struct kube_object *o)
{
    const char *ns = i->conf.ns;

    return (!ns || !ns[0] || str_eq(o->ns, str_of(ns))) &&
           kube_selector_matches(&i->selector, o->labels);
}

void kube_informer_apply(struct kube_informer *i, struct kube_object *o)
{
    struct kube_object *kept = NULL;
    bool known = kube_informer_peek(i, o->ns, o->name) != NULL;

    /* Unknown, and older than what was seen: it is deleted already. */
    if (!known && (!is_ours(i, o) || i->conf.field_selector || o->revision <= i->seen))
        return;
    if (known && !is_ours(i, o))
        return; /* the watch tells that it left */
    if (kube_store_reduce(i, o, &kept) == 0)
        kube_store_put(i, kept);
}

static void on_inbox(struct loop_task *t)
{
    struct kube_informer *i = container_of(t, struct kube_informer, inbox_task);
    struct kube_object **rows;
    size_t count;

    (void)pthread_mutex_lock(&i->lock);
    rows = i->inbox;
    count = i->inbox_count;
    i->inbox = NULL;
    i->inbox_count = i->inbox_room = 0;
    i->inbox_posted = false;
    (void)pthread_mutex_unlock(&i->lock);
    for (size_t n = 0; n < count; n++) {
        if (!i->dead)
            kube_informer_apply(i, rows[n]);
        kube_object_unref(rows[n]);
    }
    free(rows);
    if (i->dead)
        kube_informer_free(i);
}

void kube_informer_post(struct kube_informer *i, struct kube_object *o)
{
    (void)pthread_mutex_lock(&i->lock);
    if (i->inbox_count == i->inbox_room && i->inbox_room < INBOX_MAX) {
        size_t room = i->inbox_room ? i->inbox_room * 2 : 16;

        i->inbox = mem_realloc(i->inbox, room * sizeof(i->inbox[0]));
        i->inbox_room = room;
    }
    if (i->inbox_count < i->inbox_room) /* else the watch tells it a little later */
        i->inbox[i->inbox_count++] = kube_object_ref(o);
    if (!i->inbox_posted) {
        i->inbox_posted = true;
        loop_post(kube_client_loop(i->conf.client), &i->inbox_task, on_inbox);
    }
    (void)pthread_mutex_unlock(&i->lock);
}

/* --- handlers --- */

void kube_informer_add_handler(struct kube_informer *i, struct kube_handler *h)
{
    auto_objects all = {0};

    list_push(&i->handlers, &h->link);
    if (h->on_add && kube_informer_list(i, STR(""), NULL, &all) == 0)
        for (size_t n = 0; n < all.count; n++)
            h->on_add(h, all.rows[n]);
    if (h->on_synced && kube_informer_is_synced(i))
        h->on_synced(h);
}

void kube_informer_remove_handler(struct kube_informer *i, struct kube_handler *h)
{
    list_remove(&h->link);
}

/* --- reading --- */

bool kube_informer_is_synced(const struct kube_informer *i)
{
    return atomic_load(&i->synced);
}

uint32_t kube_informer_lag_s(const struct kube_informer *i)
{
    uint64_t heard = atomic_load(&i->heard_ns), now = time_mono_ns();

    return now > heard ? (uint32_t)((now - heard) / 1000000000) : 0;
}

struct kube_object *kube_informer_peek(struct kube_informer *i, struct str ns, struct str name)
{
    char text[KUBE_KEY_MAX];
    struct str key;

    return kube_key(ns, name, text, &key) < 0 ? NULL : map_get(&i->objects, key);
}

struct kube_object *kube_informer_get(struct kube_informer *i, struct str ns, struct str name)
{
    struct kube_object *o;

    (void)pthread_mutex_lock(&i->lock);
    o = kube_informer_peek(i, ns, name);
    if (o)
        (void)kube_object_ref(o);
    (void)pthread_mutex_unlock(&i->lock);
    return o;
}

struct kube_object *kube_informer_next(const struct kube_informer *i, size_t *at)
{
    void *value;

    return map_next(&i->objects, at, NULL, &value) ? value : NULL;
}

size_t kube_informer_count(const struct kube_informer *i)
{
    return i->objects.n;
}

int kube_informer_list(struct kube_informer *i, struct str ns, const struct kube_selector *match,
                       struct kube_objects *ret)
{
    struct kube_object **rows, *o;
    size_t at = 0, count = 0;

    (void)pthread_mutex_lock(&i->lock);
    rows = mem_try_realloc(NULL, (i->objects.n + 1) * sizeof(rows[0]));
    while (rows && (o = kube_informer_next(i, &at)))
        if ((!ns.n || str_eq(o->ns, ns)) && (!match || kube_selector_matches(match, o->labels)))
            rows[count++] = kube_object_ref(o);
    (void)pthread_mutex_unlock(&i->lock);
    if (!rows)
        return -ENOMEM;
    *ret = (struct kube_objects){rows, count};
    return 0;
}

void kube_objects_done(struct kube_objects *list)
{
    for (size_t n = 0; n < list->count; n++)
        kube_object_unref(list->rows[n]);
    free(list->rows);
    *list = (struct kube_objects){0};
}

void kube_informer_stats(struct kube_informer *i, struct kube_informer_stats *ret)
{
    (void)pthread_mutex_lock(&i->lock);
    *ret = i->stats;
    ret->objects = i->objects.n;
    ret->bytes = i->bytes;
    (void)pthread_mutex_unlock(&i->lock);
}
