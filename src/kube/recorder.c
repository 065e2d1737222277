#include "kube/recorder.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/id.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "kube/client_internal.h"
#include "kube/time.h"

enum {
    KNOWN_MAX = 4096,
    SAME_S = 600,
    BURST = 25,
    REFILL_S = 300,
    KEY_MAX = 2048,
    BODY_MAX = 16 << 10,
};

/* An event that was sent, or is. */
struct known {
    struct kube_recorder *recorder;
    char ns[256], name[300];
    uint32_t count;
    int64_t first_us, last_us;
    struct kube_call *call;
    bool dirty, failed; /* dirty: the count rose while a request was under way */
};

struct kube_recorder {
    struct kube_client *client;
    char *component, *instance;
    struct map known;   /* by object, type, reason, message: struct known */
    struct map buckets; /* by object: struct kube_bucket */
    size_t inflight;
};

static void known_free(void *value)
{
    struct known *k = value;

    if (k->call) {
        kube_cancel(k->call);
        k->recorder->inflight--;
    }
    free(k);
}

/* Makes room for a new key: the oldest goes. */
static void make_room(struct map *m)
{
    size_t at = 0;
    struct str key;

    if (m->n >= KNOWN_MAX && map_next(m, &at, &key, NULL))
        (void)map_remove(m, key);
}

static bool may_send(struct kube_recorder *r, struct str uid)
{
    uint64_t now = loop_now_ns(kube_client_loop(r->client));
    struct kube_bucket *b = map_get(&r->buckets, uid);

    if (!b) {
        make_room(&r->buckets);
        b = mem_new(struct kube_bucket);
        kube_bucket_init(b, (struct kube_rate){1.0 / REFILL_S, BURST}, now);
        if (map_add(&r->buckets, uid, b) < 0) {
            free(b);
            return false;
        }
    }
    return kube_bucket_take(b, now) == 0;
}

/* --- requests --- */

static void send_count(struct known *k);

static void on_sent(void *user, const struct kube_answer *answer)
{
    struct known *k = user;

    k->call = NULL;
    k->recorder->inflight--;
    k->failed |= answer->error.err.code != 0;
    if (k->dirty && !k->failed)
        send_count(k);
}

static void send_request(struct known *k, const struct kube_request *rq)
{
    if (k->recorder->inflight >= KUBE_EVENTS_QUEUED ||
        kube_send(k->recorder->client, rq, on_sent, k, &k->call, NULL) < 0)
        k->failed = true;
    else
        k->recorder->inflight++;
}

static void send_count(struct known *k)
{
    AUTO_BUF(body, BODY_MAX);
    char last[TIME_TEXT_MAX];

    k->dirty = false;
    (void)kube_time_format(k->last_us, last);
    (void)buf_addf(&body, "{\"count\":%u,\"lastTimestamp\":\"%s\"}", k->count, last);
    send_request(k, &(struct kube_request){.verb = KUBE_PATCH,
                                           .kind = &kube_events,
                                           .ns = str_of(k->ns),
                                           .name = str_of(k->name),
                                           .body = buf_str(&body)});
}

struct event {
    const struct kube_kind *kind;
    const struct kube_object *about;
    enum kube_event_type type;
    const char *reason;
    struct str message;
};

static struct str type_name(enum kube_event_type type)
{
    return type == KUBE_EVENT_WARNING ? STR("Warning") : STR("Normal");
}

static void write_about(struct json_writer *w, const struct event *ev)
{
    char version[128];

    (void)snprintf(version, sizeof(version), "%s%s%s", ev->kind->group,
                   ev->kind->group[0] ? "/" : "", ev->kind->version);
    json_write_key(w, STR("involvedObject"));
    json_write_object(w);
    json_member_string(w, STR("apiVersion"), str_of(version));
    json_member_string(w, STR("kind"), str_of(ev->kind->kind));
    if (ev->about->ns.n)
        json_member_string(w, STR("namespace"), ev->about->ns);
    json_member_string(w, STR("name"), ev->about->name);
    json_member_string(w, STR("uid"), ev->about->uid);
    if (ev->about->version.n)
        json_member_string(w, STR("resourceVersion"), ev->about->version);
    json_write_object_end(w);
}

static int write_event(const struct known *k, const struct event *ev, struct buf *out)
{
    char at[TIME_TEXT_MAX];
    struct json_writer w;

    (void)kube_time_format(k->first_us, at);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("apiVersion"), STR("v1"));
    json_member_string(&w, STR("kind"), STR("Event"));
    json_write_key(&w, STR("metadata"));
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(k->name));
    json_member_string(&w, STR("namespace"), str_of(k->ns));
    json_write_object_end(&w);
    write_about(&w, ev);
    json_member_string(&w, STR("type"), type_name(ev->type));
    json_member_string(&w, STR("reason"), str_of(ev->reason));
    json_member_string(&w, STR("message"), ev->message);
    json_write_key(&w, STR("source"));
    json_write_object(&w);
    json_member_string(&w, STR("component"), str_of(k->recorder->component));
    json_write_object_end(&w);
    json_member_string(&w, STR("firstTimestamp"), str_of(at));
    json_member_string(&w, STR("lastTimestamp"), str_of(at));
    json_member_i64(&w, STR("count"), 1);
    json_member_string(&w, STR("reportingComponent"), str_of(k->recorder->component));
    json_member_string(&w, STR("reportingInstance"), str_of(k->recorder->instance));
    json_write_object_end(&w);
    return json_write_end(&w);
}

static void record_new(struct kube_recorder *r, const struct event *ev, struct str key)
{
    AUTO_BUF(body, BODY_MAX);
    struct known *k = mem_new(struct known);
    uint64_t dice;

    k->recorder = r;
    k->count = 1;
    k->first_us = k->last_us = time_wall_us();
    id_random_bytes(&dice, sizeof(dice));
    (void)snprintf(k->name, sizeof(k->name), "%.*s.%016llx", (int)min_size(ev->about->name.n, 230),
                   ev->about->name.p, (unsigned long long)dice);
    if (str_copy(k->ns, sizeof(k->ns), ev->about->ns.n ? ev->about->ns : STR("default")) < 0 ||
        write_event(k, ev, &body) < 0) {
        free(k);
        return;
    }
    make_room(&r->known);
    if (map_set(&r->known, key, k) < 0) {
        free(k);
        return;
    }
    send_request(k, &(struct kube_request){.verb = KUBE_CREATE,
                                           .kind = &kube_events,
                                           .ns = str_of(k->ns),
                                           .body = buf_str(&body)});
}

void kube_record(struct kube_recorder *r, const struct kube_kind *kind,
                 const struct kube_object *about, enum kube_event_type type, const char *reason,
                 const char *fmt, ...)
{
    AUTO_BUF(message, KUBE_EVENT_MESSAGE_MAX * 4);
    AUTO_BUF(key, KEY_MAX);
    struct event ev = {kind, about, type, reason, STR("")};
    struct known *k;
    va_list ap;

    va_start(ap, fmt);
    (void)buf_vaddf(&message, fmt, ap);
    va_end(ap);
    if (message.n >= KUBE_EVENT_MESSAGE_MAX) {
        buf_cut(&message, KUBE_EVENT_MESSAGE_MAX - 1);
        buf_cut(&message, message.n - utf8_cut_tail(buf_str(&message)));
    }
    ev.message = buf_str(&message);
    if (buf_addf(&key, "%.*s/%d/%s/%s", STR_ARG(about->uid), (int)type, reason, message.p) < 0)
        return;
    k = map_get(&r->known, buf_str(&key));
    if (!may_send(r, about->uid))
        return;
    if (!k || k->failed || time_wall_us() - k->last_us > SAME_S * TIME_US_PER_S) {
        record_new(r, &ev, buf_str(&key));
        return;
    }
    k->count++;
    k->last_us = time_wall_us();
    if (k->call)
        k->dirty = true;
    else
        send_count(k);
}

/* --- life --- */

int kube_recorder_new(struct kube_client *client, const char *component, const char *instance,
                      struct kube_recorder **ret, struct err *e)
{
    struct kube_recorder *r = mem_new(struct kube_recorder);

    r->client = client;
    r->component = mem_strdup(component);
    r->instance = mem_strdup(instance);
    map_init(&r->known, KNOWN_MAX, known_free);
    map_init(&r->buckets, KNOWN_MAX, free);
    *ret = r;
    return 0;
}

void kube_recorder_free(struct kube_recorder *r)
{
    if (!r)
        return;
    map_done(&r->known);
    map_done(&r->buckets);
    free(r->component);
    free(r->instance);
    free(r);
}
