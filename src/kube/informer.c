#include "kube/informer.h"

#include <errno.h>
#include <stdio.h>

#include "base/id.h"
#include "base/mem.h"
#include "base/time.h"
#include "kube/client_internal.h"
#include "kube/informer_internal.h"

enum {
    PAGE_USUAL = 500,
    WATCH_S_USUAL = 300,
    SILENCE_S_USUAL = 90,
    OBJECTS_USUAL = 1 << 20,
    GRACE_S = 30, /* after the time at which the server should have ended a watch */
    LIST_MS = 60 * 1000,
    BACKOFF_MS = 200,
    BACKOFF_MAX_MS = 30 * 1000,
    STABLE_MS = 5 * 1000, /* a watch that lived that long was no failure */
    QUERY_MAX = 16 << 10,
    TEXT_MAX = 64 << 10,
};

static void go_on(struct kube_informer *i);

static void on_again(struct loop_timer *t)
{
    go_on(container_of(t, struct kube_informer, again));
}

/* Later, and later each time, so that a server in trouble is not asked by all at the same time. */
static void back_off(struct kube_informer *i, const struct err *why, uint32_t least_ms)
{
    uint32_t ms = BACKOFF_MS << (i->failures < 10 ? i->failures : 10), dice;

    id_random_bytes(&dice, sizeof(dice));
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    ms = ms / 2 + dice % (ms / 2 + 1);
    if (ms < least_ms)
        ms = least_ms;
    i->failures++;
    (void)pthread_mutex_lock(&i->lock);
    i->stats.failures++;
    (void)snprintf(i->stats.last_error, sizeof(i->stats.last_error), "%.159s", why->msg);
    (void)pthread_mutex_unlock(&i->lock);
    loop_timer_after(kube_client_loop(i->conf.client), &i->again, ms, on_again);
}

static void heard(struct kube_informer *i)
{
    atomic_store(&i->heard_ns, time_mono_ns());
}

static int add_selectors(struct kube_informer *i, struct buf *query)
{
    int r = 0;

    if (i->conf.label_selector)
        r = kube_query_add(query, "labelSelector", str_of(i->conf.label_selector));
    if (r == 0 && i->conf.field_selector)
        r = kube_query_add(query, "fieldSelector", str_of(i->conf.field_selector));
    return r;
}

/* --- list --- */

static void list_forget(struct kube_informer *i)
{
    map_done(&i->fresh);
    free(take_ptr(&i->next_page));
}

/* Adds a page to the list so far. */
static int take_page(struct kube_informer *i, const struct json *items, struct err *e)
{
    char text[KUBE_KEY_MAX];
    struct str key;

    json_each(item, items)
    {
        auto_object *full = NULL, *kept = NULL;
        struct kube_object *have;
        int r = kube_object_copy(item, &full, e);

        if (r == 0 && kube_key(full->ns, full->name, text, &key) < 0)
            r = err_set(e, EBADMSG, "a list has an object without a name");
        if (r < 0)
            return r;
        have = map_get(&i->objects, key);
        if (have && have->revision == full->revision && full->revision)
            kept = kube_object_ref(have); /* costs nothing */
        else if (kube_store_reduce(i, full, &kept) < 0)
            return err_set(e, EBADMSG, "an object cannot be reduced");
        r = map_set(&i->fresh, key, kept);
        if (r < 0)
            return err_set(e, -r, "there are more than %u %s", i->conf.objects_max,
                           i->conf.kind->plural);
        kept = NULL;
    }
    return 0;
}

static void list_complete(struct kube_informer *i, const struct kube_object *page)
{
    bool first = !atomic_load(&i->synced);

    if (str_copy(i->version, sizeof(i->version), page->version) < 0)
        i->version[0] = '\0';
    i->must_list = i->no_pages = false;
    i->in_event = true;
    kube_store_replace(i, page->revision);
    list_forget(i);
    if (first && !i->dead) {
        atomic_store(&i->synced, true);
        kube_store_tell_synced(i);
    }
    i->in_event = false;
    if (i->dead) {
        kube_informer_free(i);
        return;
    }
    (void)pthread_mutex_lock(&i->lock);
    i->stats.lists++;
    i->stats.last_error[0] = '\0';
    (void)pthread_mutex_unlock(&i->lock);
    go_on(i);
}

static void on_page(void *user, const struct kube_answer *answer)
{
    struct kube_informer *i = user;
    struct err e = answer->error.err;
    struct str next;
    int r = -e.code;

    i->call = NULL;
    if (r == 0 && !answer->object)
        r = err_set(&e, EBADMSG, "the answer to a list is no JSON object");
    if (r == 0)
        r = take_page(i, json_get(answer->object->root, STR("items")), &e);
    if (r < 0) {
        /* A list of many pages may become too old on the way. */
        i->no_pages |= r == -ERESTART && i->next_page;
        list_forget(i);
        back_off(i, &e, answer->error.retry_after_ms);
        return;
    }
    heard(i);
    free(take_ptr(&i->next_page));
    next = kube_str(answer->object->root, "metadata.continue");
    if (!next.n) {
        list_complete(i, answer->object);
        return;
    }
    i->next_page = mem_alloc(next.n + 1);
    memcpy(i->next_page, next.p, next.n);
    i->next_page[next.n] = '\0';
    go_on(i);
}

static int list_page(struct kube_informer *i, struct err *e)
{
    AUTO_BUF(query, QUERY_MAX);
    struct kube_request rq = {
        .verb = KUBE_LIST,
        .kind = i->conf.kind,
        .ns = i->conf.ns ? str_of(i->conf.ns) : STR(""),
        .timeout_ms = LIST_MS,
    };
    char number[16];
    int r = add_selectors(i, &query);

    (void)snprintf(number, sizeof(number), "%u", i->conf.page);
    if (r == 0 && !i->no_pages)
        r = kube_query_add(&query, "limit", str_of(number));
    if (r == 0 && i->next_page)
        r = kube_query_add(&query, "continue", str_of(i->next_page));
    if (r < 0)
        return err_set(e, EMSGSIZE, "the selectors are too long");
    rq.query = buf_str(&query);
    return kube_send(i->conf.client, &rq, on_page, i, &i->call, e);
}

/* --- watch --- */

static void remember(struct kube_informer *i, const struct kube_object *o)
{
    if (o->version.n && str_copy(i->version, sizeof(i->version), o->version) < 0)
        i->must_list = true;
    if (o->revision > i->seen)
        i->seen = o->revision;
}

static int on_event(void *user, enum kube_event_kind kind, struct kube_object *o, struct err *e)
{
    struct kube_informer *i = user;
    struct kube_error error;
    struct kube_object *kept = NULL;

    if (kind == KUBE_ERROR) {
        i->must_list |= kube_error_of_status(o->root, &error) == -ERESTART;
        return err_set(e, error.err.code, "%s", error.err.msg);
    }
    if (kind != KUBE_BOOKMARK && !o->name.n)
        return err_set(e, EBADMSG, "an event of a watch has an object without a name");
    remember(i, o);
    i->failures = 0;
    i->stats.events++;
    if (kind == KUBE_BOOKMARK)
        return 0;
    if (kube_store_reduce(i, o, &kept) < 0)
        return err_set(e, EBADMSG, "an object cannot be reduced");
    if (kind == KUBE_DELETED) {
        kube_store_remove(i, kept);
        kube_object_unref(kept);
    } else {
        kube_store_put(i, kept);
    }
    return i->dead ? -ECANCELED : 0;
}

static int on_piece(void *user, struct str piece, struct err *e)
{
    struct kube_informer *i = user;
    int r;

    heard(i);
    i->in_event = true;
    r = kube_watch_decode(&i->decoder, piece, e);
    i->in_event = false;
    if (!i->dead)
        return r;
    kube_informer_free(i); /* a handler asked for it */
    return -ECANCELED;
}

static void on_watch_end(void *user, const struct kube_answer *answer)
{
    struct kube_informer *i = user;
    const struct err *e = &answer->error.err;
    uint64_t lived = loop_now_ns(kube_client_loop(i->conf.client)) - i->begun_ns;

    i->call = NULL;
    kube_watch_decoder_done(&i->decoder);
    i->must_list |= e->code == ERESTART;
    /* What cannot be understood is read anew as a whole. */
    i->must_list |= e->code == EBADMSG || e->code == EMSGSIZE || e->code == EINVAL;
    if (lived >= STABLE_MS * TIME_NS_PER_MS)
        i->failures = 0;
    if ((!e->code || e->code == ERESTART) &&
        (!i->failures || lived >= STABLE_MS * TIME_NS_PER_MS)) {
        i->failures++; /* a server that ends watches at once is asked less and less */
        go_on(i);
    } else {
        back_off(i, e->code ? e : &(struct err){.msg = "watches end at once"},
                 answer->error.retry_after_ms);
    }
}

static int watch(struct kube_informer *i, struct err *e)
{
    AUTO_BUF(query, QUERY_MAX);
    struct kube_request rq = {
        .verb = KUBE_LIST,
        .kind = i->conf.kind,
        .ns = i->conf.ns ? str_of(i->conf.ns) : STR(""),
        .once = true,
        .on_piece = on_piece,
        .user = i,
    };
    uint32_t dice, seconds;
    char number[16];
    int r = add_selectors(i, &query);

    id_random_bytes(&dice, sizeof(dice));
    seconds = i->conf.watch_s + dice % (i->conf.watch_s + 1);
    (void)snprintf(number, sizeof(number), "%u", seconds);
    if (r == 0)
        r = buf_addf(&query, "%swatch=1&allowWatchBookmarks=true&timeoutSeconds=%s",
                     query.n ? "&" : "", number);
    if (r == 0)
        r = kube_query_add(&query, "resourceVersion", str_of(i->version));
    if (r < 0)
        return err_set(e, EMSGSIZE, "the selectors are too long");
    rq.query = buf_str(&query);
    rq.timeout_ms = (seconds + GRACE_S) * 1000;
    kube_watch_decoder_init(&i->decoder, on_event, i);
    i->begun_ns = loop_now_ns(kube_client_loop(i->conf.client));
    i->stats.watches++;
    return kube_send_watch(i->conf.client, &rq, i->conf.silence_s * 1000, on_watch_end, i, &i->call,
                           e);
}

/* The next step: a page of a list, or a watch. */
static void go_on(struct kube_informer *i)
{
    struct err e = {0};
    int r = i->must_list || !i->version[0] ? list_page(i, &e) : watch(i, &e);

    if (r < 0)
        back_off(i, &e, 0);
}

/* --- life --- */

static int copy_text(struct kube_informer *i, const char **text, struct err *e)
{
    if (!*text || !(*text)[0]) {
        *text = NULL;
        return 0;
    }
    *text = arena_strdup(&i->arena, str_of(*text));
    return *text ? 0 : err_set(e, EMSGSIZE, "the selectors are too long");
}

static void unref_value(void *value)
{
    kube_object_unref(value);
}

int kube_informer_new(const struct kube_informer_conf *conf, struct kube_informer **ret,
                      struct err *e)
{
    struct kube_informer *i = mem_new(struct kube_informer);
    int r;

    i->conf = *conf;
    arena_init(&i->arena, TEXT_MAX);
    i->conf.page = conf->page ? conf->page : PAGE_USUAL;
    i->conf.watch_s = conf->watch_s ? conf->watch_s : WATCH_S_USUAL;
    i->conf.silence_s = conf->silence_s ? conf->silence_s : SILENCE_S_USUAL;
    i->conf.objects_max = conf->objects_max ? conf->objects_max : OBJECTS_USUAL;
    map_init(&i->objects, i->conf.objects_max, unref_value);
    map_init(&i->fresh, i->conf.objects_max, unref_value);
    list_init(&i->handlers);
    (void)pthread_mutex_init(&i->lock, NULL);
    kube_watch_decoder_init(&i->decoder, on_event, i);
    heard(i);
    i->must_list = true;
    r = copy_text(i, &i->conf.ns, e);
    if (r == 0)
        r = copy_text(i, &i->conf.label_selector, e);
    if (r == 0)
        r = copy_text(i, &i->conf.field_selector, e);
    if (r == 0)
        r = kube_selector_parse(&i->arena, str_of(i->conf.label_selector), &i->selector, e);
    if (r == 0)
        r = list_page(i, e);
    if (r < 0) {
        kube_informer_free(i);
        return r;
    }
    *ret = i;
    return 0;
}

void kube_informer_free(struct kube_informer *i)
{
    bool posted;

    if (!i)
        return;
    if (i->call)
        kube_cancel(take_ptr(&i->call));
    loop_timer_stop(kube_client_loop(i->conf.client), &i->again);
    (void)pthread_mutex_lock(&i->lock);
    posted = i->inbox_posted;
    (void)pthread_mutex_unlock(&i->lock);
    i->dead = true;
    if (i->in_event || posted) /* freed when that is over */
        return;
    kube_watch_decoder_done(&i->decoder);
    list_forget(i);
    map_done(&i->objects);
    arena_done(&i->arena);
    (void)pthread_mutex_destroy(&i->lock);
    free(i);
}
