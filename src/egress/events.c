/* events.c - what happened to a sandbox: a ring of the last events, and a stream for clients that
 * watch. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "egress/egress.h"
#include "egress/metrics.h"
#include "net/sse.h"

enum {
    ANSWER_BYTES_MAX = 4 << 20,
    EVENT_BYTES_MAX = 4096,
    LOGGED_EVENTS = 100,
    LAG_BYTES_MAX = 256 * 1024,
    WATCHERS_MAX = 16, /* of one sandbox */
    PING_MS = 15 * 1000,
    ALLOWED_EVERY = 100,   /* one event for so many allowed names, and one ... */
    NS_PER_S = 1000000000, /* ... in this time */
    RECORDED_PER_S = 20,   /* of one sandbox: a flood must not fill the server's record */
    LINES_PER_S = 100,     /* of allowed names in the log, then every hundredth */
};

static void write_event(struct json_writer *w, const struct event *event)
{
    json_write_object(w);
    json_member_time(w, STR("timestamp"), event->at_us);
    json_member_string(w, STR("event"), str_of(event->kind));
    json_member_string(w, STR("target"), str_of(event->detail));
    json_member_string(w, STR("reason"), str_of(event->reason));
    json_write_object_end(w);
}

static void publish(struct guarded *b, const struct event *event)
{
    AUTO_BUF(text, EVENT_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &text);
    write_event(&w, event);
    if (json_write_end(&w) == 0)
        (void)sse_hub_publish(b->watchers, str_of(event->kind), buf_str(&text));
}

static struct event *add_event(struct guarded *b, const char *kind, const char *reason,
                               struct str detail)
{
    struct event *event;

    if (!b->events)
        b->events = mem_new_array(struct event, EGRESS_EVENTS_MAX);
    event = &b->events[b->event_count++ % EGRESS_EVENTS_MAX];
    *event = (struct event){.at_us = time_wall_us(), .kind = kind, .reason = reason};
    detail.n = min_size(detail.n, sizeof(event->detail) - 1);
    memcpy(event->detail, detail.p, detail.n);
    if (b->watchers)
        publish(b, event);
    return event;
}

/* A line to the server: id, kind, reason, how many were left out before, and the name. It is
 * shorter than PIPE_BUF, so it is written whole or not at all. */
static void record(struct guarded *b, const char *kind, const char *reason, struct str detail)
{
    uint64_t now = loop_now_ns(b->egress->loop);
    AUTO_BUF(line, PIPE_BUF);

    if (b->egress->conf.record < 0)
        return;
    if (now - b->recorded_at_ns > NS_PER_S || b->recorded_at_ns == 0) {
        b->recorded_at_ns = now;
        b->recorded_now = 0;
    }
    (void)buf_addf(&line, "%s\t%s\t%s\t%llu\t", b->id, kind, reason,
                   (unsigned long long)b->unrecorded);
    for (size_t i = 0; i < detail.n && i < EVENT_DETAIL_MAX; i++)
        (void)buf_add_char(&line, detail.p[i] >= ' ' && detail.p[i] < 0x7f ? detail.p[i] : '?');
    (void)buf_add_char(&line, '\n');
    if (++b->recorded_now > RECORDED_PER_S ||
        write(b->egress->conf.record, line.p, line.n) != (ssize_t)line.n)
        b->unrecorded++;
    else
        b->unrecorded = 0;
}

void guarded_event(struct guarded *b, const char *kind, const char *reason, struct str detail)
{
    (void)add_event(b, kind, reason, detail);
    record(b, kind, reason, detail);
    if (str_eq(str_of(kind), STR("vault.use")))
        b->egress->stats.vault_uses++;
    /* A sandbox must not fill the log: after the first hundred, one line each time that the number
     * has doubled. */
    if (b->event_count <= LOGGED_EVENTS || (b->event_count & (b->event_count - 1)) == 0)
        log_event(LOG_INFO, kind, LOG_STR("sandbox", b->id), LOG_STR("reason", reason),
                  LOG_STR("target", detail), LOG_U64("events", b->event_count));
}

void guarded_allowed(struct guarded *b, struct str name, struct str addresses, const char *error)
{
    uint64_t now = loop_now_ns(b->egress->loop);
    const struct policy *skip = b->egress->log_skip;
    const struct policy_rule *left_out = NULL;

    if (now - b->allowed_at_ns > NS_PER_S || b->allowed_at_ns == 0) {
        b->allowed_at_ns = now;
        b->allowed_now = 0;
    }
    b->allowed_now++;
    if (b->allowed_now == 1 || b->allowed_now % ALLOWED_EVERY == 0)
        (void)add_event(b, "egress.allow", "name is allowed; sampled", name);
    if (!b->egress->only || (b->allowed_now > LINES_PER_S && b->allowed_now % ALLOWED_EVERY != 0))
        return;
    if (skip)
        (void)policy_judge_name(NULL, skip, name, &left_out);
    if (!error && left_out)
        return;
    log_event(error ? LOG_WARN : LOG_INFO, "outbound",
              LOG_STR("opensandbox.event", "egress.outbound"), LOG_STR("target.host", name),
              LOG_STR("target.ips", addresses), LOG_STR("error", error ? error : ""));
}

/* --- traffic, as the kernel counts it --- */

struct counting {
    struct pool_job job;
    struct guarded *guarded;
    struct http_req *req; /* NULL when the client is gone */
    void (*then)(struct http_req *req);
    struct netns_traffic traffic;
    int result;
};

static void counting_work(struct pool_job *job)
{
    struct counting *c = container_of(job, struct counting, job);

    c->result = c->guarded->egress->enforcer->traffic(c->guarded, &c->traffic, NULL);
}

static void counting_done(struct pool_job *job, int error)
{
    struct counting *c = container_of(job, struct counting, job);
    struct guarded *b = c->guarded;

    if (!error && c->result >= 0)
        b->traffic = c->traffic;
    if (c->req) {
        c->req->user = NULL;
        if (b->gone)
            api_reply_text(c->req, 404, "the sandbox was removed");
        else
            c->then(c->req);
    }
    guarded_unref_job(b);
    free(c);
}

static void on_close(struct http_req *req, int error UNUSED)
{
    struct counting *c = req->user;

    if (c)
        c->req = NULL;
}

void api_with_traffic(struct http_req *req, struct guarded *b, void (*then)(struct http_req *req))
{
    static const struct http_req_ops ops = {.on_close = on_close};
    struct counting *c;

    if (!b->given || !b->attached) {
        then(req); /* there are no rules that would count */
        return;
    }
    c = mem_new(struct counting);
    *c = (struct counting){.guarded = b, .req = req, .then = then};
    b->jobs++;
    req->user = c;
    req->ops = &ops;
    if (pool_submit(b->egress->pool, &c->job, b->egress->loop, counting_work, counting_done, 0) ==
        0)
        return;
    b->jobs--;
    req->user = NULL;
    free(c);
    api_reply_text(req, 503, "too much to do");
}

/* --- for clients --- */

static void reply_json(struct http_req *req, struct json_writer *w, struct buf *out)
{
    if (json_write_end(w) < 0)
        api_reply_text(req, 500, "internal error: the answer is too long");
    else
        http_reply(req, 200, STR("application/json"), buf_str(out));
}

static void reply_events(struct http_req *req)
{
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    const struct guarded *b = api_guarded(req);
    size_t n = b ? min_size(b->event_count, EGRESS_EVENTS_MAX) : 0;
    struct json_writer w;

    if (!b)
        return;
    json_write_begin(&w, &out);
    json_write_object(&w);
    json_member_bool(&w, STR("inForce"), b->attached);
    json_member_u64(&w, STR("queries"), b->queries);
    json_member_u64(&w, STR("denied"), b->denied);
    json_member_u64(&w, STR("learned"), b->learned_count);
    json_member_u64(&w, STR("packets"), b->traffic.packets);
    json_member_u64(&w, STR("bytes"), b->traffic.bytes);
    json_member_u64(&w, STR("connections"), b->traffic.connections);
    json_write_key(&w, STR("events"));
    json_write_array(&w);
    for (size_t i = b->event_count - n; i < b->event_count; i++)
        write_event(&w, &b->events[i % EGRESS_EVENTS_MAX]);
    json_write_array_end(&w);
    json_write_object_end(&w);
    reply_json(req, &w, &out);
}

void api_events(struct http_req *req)
{
    struct guarded *b = api_guarded(req);

    if (b)
        api_with_traffic(req, b, reply_events);
}

/* For people: a line per event, as the server's diagnostics have them. */
void api_event_lines(struct http_req *req)
{
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    const struct guarded *b = guarded_find(req->server_user, http_req_param(req, "id"));
    size_t n = b ? min_size(b->event_count, EGRESS_EVENTS_MAX) : 0;

    for (size_t i = b ? b->event_count - n : 0; b && i < b->event_count; i++) {
        const struct event *event = &b->events[i % EGRESS_EVENTS_MAX];
        char at[TIME_TEXT_MAX];

        time_format(event->at_us, at);
        (void)buf_addf(&out, "%s  %-13s  %s  %s\n", at, event->kind, event->detail, event->reason);
    }
    http_reply(req, 200, STR("text/plain; charset=utf-8"), buf_str(&out));
}

/* New events from now on, as server-sent events. */
void api_event_stream(struct http_req *req)
{
    const struct sse_hub_conf conf = {.ping_ms = PING_MS};
    struct guarded *b = api_guarded(req);
    struct sse_hub_stats stats = {0};

    if (!b)
        return;
    if (!b->watchers && sse_hub_new(b->egress->loop, LAG_BYTES_MAX, &b->watchers) < 0) {
        api_reply_text(req, 503, "no stream can be opened now");
        return;
    }
    sse_hub_configure(b->watchers, &conf);
    sse_hub_stats(b->watchers, &stats);
    if (stats.clients >= WATCHERS_MAX)
        api_reply_text(req, 503, "too many clients watch this sandbox; at most %d may",
                       WATCHERS_MAX);
    else
        sse_hub_join(b->watchers, req);
}

static void reply_metrics(struct http_req *req)
{
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    const struct egress *g = req->server_user;
    const struct guarded *b = NULL;
    int r;

    if (g->only || http_req_param(req, "id").p) {
        b = api_guarded(req);
        if (!b)
            return;
    }
    r = g->only || !b ? metrics_text(g, &out) : 0;
    if (r >= 0 && b)
        r = metrics_text_of(b, &out);
    if (r < 0)
        api_reply_text(req, 500, "internal error: the answer is too long");
    else
        http_reply(req, 200, STR("text/plain; version=0.0.4; charset=utf-8"), buf_str(&out));
}

void api_metrics(struct http_req *req)
{
    const struct egress *g = req->server_user;
    struct guarded *b = NULL;

    if (!g->only && !http_req_param(req, "id").p) {
        reply_metrics(req);
        return;
    }
    b = api_guarded(req);
    if (b)
        api_with_traffic(req, b, reply_metrics);
}
