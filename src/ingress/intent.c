#include "ingress/intent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"

enum { PUSHES_MAX = REDIS_WAITING_MAX / 2 };

/* RFC 3339 without zeros at the end of its fraction. */
static struct str time_text(int64_t us, char out[TIME_TEXT_MAX])
{
    size_t n = time_format(us, out);

    if (str_find(str_make(out, n), '.') < n) {
        n--; /* the Z */
        while (out[n - 1] == '0')
            n--;
        out[n++] = 'Z';
    }
    return str_make(out, n);
}

int intent_write(struct buf *out, struct str id, uint16_t port, struct str uri, int64_t us)
{
    char text[TIME_TEXT_MAX];
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("sandbox_id"), id);
    json_member_string(&w, STR("observed_at"), time_text(us, text));
    if (port)
        json_member_u64(&w, STR("port"), port);
    if (uri.n)
        json_member_string(&w, STR("request_uri"),
                           str_make(uri.p, min_size(uri.n, INTENT_URI_MAX)));
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* --- pushing, on the loop --- */

static void push_some(struct intents *i);

static void note_pushed(struct intents *i, const struct resp *reply, const char *why)
{
    bool good = reply && reply->type != RESP_ERROR;
    uint64_t left_out;

    (void)pthread_mutex_lock(&i->lock);
    i->stats.pushed += good;
    i->stats.failed += !good;
    (void)pthread_mutex_unlock(&i->lock);
    if (!good && log_limit_pass(&i->log_limit, time_mono_ns())) {
        left_out = log_limit_take(&i->log_limit);
        log_event(LOG_WARN, "a renew intent was lost",
                  LOG_STR("why", reply ? reply->text : str_of(why)), LOG_U64("left_out", left_out));
    }
}

static void on_pushed(void *user, const struct resp *reply, const char *why)
{
    struct intents *i = user;

    i->pushing--;
    note_pushed(i, reply, why);
    push_some(i);
}

static void push_one(struct intents *i, struct str text)
{
    const struct str push[] = {STR("LPUSH"), str_of(i->conf.key), text};
    char last[24];
    struct str trim[] = {STR("LTRIM"), str_of(i->conf.key), STR("0"), STR_NONE};
    int r = redis_call(i->redis, push, ARRAY_LEN(push), on_pushed, i);

    if (r < 0) {
        note_pushed(i, NULL, r == -EHOSTUNREACH ? "Redis cannot be reached" : "Redis lags behind");
        return;
    }
    i->pushing++;
    if (i->conf.length_max) {
        (void)snprintf(last, sizeof(last), "%" PRIu64, i->conf.length_max - 1);
        trim[3] = str_of(last);
        (void)redis_call(i->redis, trim, ARRAY_LEN(trim), NULL, NULL);
    }
}

static char *take_one(struct intents *i)
{
    char *text = NULL;

    (void)pthread_mutex_lock(&i->lock);
    if (i->count) {
        text = i->queue[i->first];
        i->first = (i->first + 1) % INTENT_QUEUE_MAX;
        i->count--;
    }
    (void)pthread_mutex_unlock(&i->lock);
    return text;
}

/* A push that fails at once comes back here, and is not nested. */
static void push_some(struct intents *i)
{
    char *text;

    if (i->busy)
        return;
    i->busy = true;
    while (i->pushing < PUSHES_MAX && (text = take_one(i))) {
        push_one(i, str_of(text));
        free(text);
    }
    i->busy = false;
}

static void push_posted(struct loop_task *t)
{
    struct intents *i = container_of(t, struct intents, push);

    (void)pthread_mutex_lock(&i->lock);
    i->posted = false;
    (void)pthread_mutex_unlock(&i->lock);
    push_some(i);
}

/* --- noting, on any thread --- */

static void sweep(struct intents *i, uint64_t now_ns, uint64_t interval_ns)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(&i->marks, &at, &key, &value))
        if (now_ns - *(uint64_t *)value >= interval_ns)
            (void)map_remove(&i->marks, key);
    i->sweep_ns = now_ns + 2 * interval_ns;
}

/* Whether this one is due; marks it. */
static bool is_due(struct intents *i, struct str id, uint64_t now_ns)
{
    uint64_t interval_ns = (uint64_t)i->conf.min_interval_s * 1000 * TIME_NS_PER_MS;
    uint64_t *mark;

    if (i->conf.min_interval_s <= 0)
        return true;
    mark = map_get(&i->marks, id);
    if (mark) {
        if (now_ns < *mark || now_ns - *mark < interval_ns)
            return false;
        *mark = now_ns;
        return true;
    }
    if (now_ns >= i->sweep_ns)
        sweep(i, now_ns, interval_ns);
    mark = mem_new(uint64_t);
    *mark = now_ns;
    if (map_add(&i->marks, id, mark) < 0)
        free(mark);
    return true;
}

void intents_note(struct intents *i, struct str id, uint16_t port, struct str uri, uint64_t now_ns)
{
    AUTO_BUF(text, INTENT_TEXT_MAX);
    bool due, post = false;

    (void)pthread_mutex_lock(&i->lock);
    due = is_due(i, id, now_ns);
    i->stats.throttled += !due;
    (void)pthread_mutex_unlock(&i->lock);
    if (!due || intent_write(&text, id, port, uri, time_wall_us()) < 0)
        return;
    (void)pthread_mutex_lock(&i->lock);
    i->stats.noted++;
    if (i->count == INTENT_QUEUE_MAX) {
        i->stats.dropped++;
    } else {
        i->queue[(i->first + i->count++) % INTENT_QUEUE_MAX] = buf_take(&text);
        post = !i->posted;
        i->posted = true;
    }
    (void)pthread_mutex_unlock(&i->lock);
    if (post)
        loop_post(i->conf.loop, &i->push, push_posted);
}

void intents_stats(struct intents *i, struct intents_stats *ret)
{
    (void)pthread_mutex_lock(&i->lock);
    *ret = i->stats;
    (void)pthread_mutex_unlock(&i->lock);
}

int intents_start(struct intents *i, const struct intents_conf *conf, struct err *e)
{
    *i = (struct intents){.conf = *conf};
    (void)pthread_mutex_init(&i->lock, NULL);
    map_init(&i->marks, INTENT_MARKS_MAX, free);
    return redis_new(conf->loop, &conf->redis, &i->redis, e);
}

bool intents_idle(struct intents *i)
{
    bool idle;

    (void)pthread_mutex_lock(&i->lock);
    idle = i->count == 0 && i->pushing == 0;
    (void)pthread_mutex_unlock(&i->lock);
    return idle;
}

void intents_stop(struct intents *i)
{
    char *text;

    i->busy = true;
    redis_free(take_ptr(&i->redis));
    while ((text = take_one(i)))
        free(text);
    map_done(&i->marks);
}
