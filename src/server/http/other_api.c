/* other_api.c - routes about the server itself, and those that this runtime does not support. */
#include <errno.h>
#include <stdatomic.h>

#include "base/json_write.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/http/pages.h"
#include "server/http/server_internal.h"
#include "version.h"

enum {
    METRICS_TEXT_MAX = 1 << 20,
    INQUIRY_MS = 2000, /* a monitoring client gets its answer within this time */
    READY_MS = 1000,   /* how long a positive /ready is reused */
};

/* --- the server itself --- */

void handle_version_get(struct http_req *req)
{
    AUTO_BUF(body, 256);

    (void)buf_addf(&body, "{\"version\":\"" OPENSANDBOX_VERSION "\",\"runtime\":\"%s\"}",
                   server_of(req)->runtime->name);
    http_reply(req, 200, STR("application/json"), buf_str(&body));
}

void handle_openapi_get(struct http_req *req)
{
    http_reply(req, 200, STR("application/json"),
               str_make(page_openapi_json, page_openapi_json_len));
}

void handle_docs_get(struct http_req *req)
{
    (void)http_reply_header(req, STR("Content-Security-Policy"),
                            STR("default-src 'self' 'unsafe-inline'"));
    http_reply(req, 200, STR("text/html; charset=utf-8"),
               str_make(page_docs_html, page_docs_html_len));
}

void handle_root_get(struct http_req *req)
{
    (void)http_reply_header(req, STR("Location"), STR("/docs"));
    http_reply(req, 302, STR_NONE, STR_NONE);
}

/* SDKs report how long they waited. Ignored, as the server measures that itself. */
void handle_events_post(struct http_req *req)
{
    http_reply(req, 204, STR_NONE, STR_NONE);
}

/* --- requests that ask store and runtime --- */

/* One round for all waiting requests: if store or runtime hangs, it blocks one worker only. */
struct asking {
    struct pool_job job;
    struct server *server;
    bool store;    /* also ask the store, by a write */
    atomic_int at; /* enum asking_step */
    bool has_levels;
    struct runtime_levels levels;
    struct err err;      /* code 0 = all have answered */
    struct list waiting; /* of struct inquiry */
};

enum asking_step { ASKING_WORKERS, ASKING_STORE, ASKING_RUNTIME };

struct inquiry {
    struct pending pending;
    struct list link;
    struct loop_timer timer;
    bool store; /* wants the store asked, too */
    bool has_levels;
    struct runtime_levels levels;
    struct err err;
    void (*answer)(struct inquiry *q, struct http_req *req);
};

static void inquiry_free(struct pending *p)
{
    struct inquiry *q = container_of(p, struct inquiry, pending);

    loop_timer_stop(p->server->loop, &q->timer);
    free(q);
}

static void inquiry_end(struct inquiry *q)
{
    list_remove(&q->link);
    if (q->pending.req && q->pending.req->status == 0)
        q->answer(q, q->pending.req);
    pending_end(&q->pending);
}

static void asking_work(struct pool_job *job)
{
    struct asking *a = container_of(job, struct asking, job);
    struct runtime *rt = a->server->runtime;
    struct err e = {0};

    atomic_store(&a->at, ASKING_STORE);
    if (a->store)
        (void)store_probe(a->server->store, &a->err);
    atomic_store(&a->at, ASKING_RUNTIME);
    a->has_levels = rt->ops->levels(rt, &a->levels, &e) >= 0;
    if (!a->err.code)
        a->err = a->has_levels ? a->levels.blocked : e;
    if (!a->err.code && a->levels.egress.has && !a->levels.egress.up)
        (void)err_set(&a->err, EIO, RUNTIME_EGRESS_DOWN);
}

/* Answers all on failure. Else those that need the store wait on if this round did not ask it. */
static void asking_tell(struct asking *a)
{
    LIST_EACH(&a->waiting, at)
    {
        struct inquiry *q = container_of(at, struct inquiry, link);

        if (q->store && !a->store && !a->err.code)
            continue;
        q->has_levels = a->has_levels;
        q->levels = a->levels;
        q->err = a->err;
        inquiry_end(q);
    }
}

static void asking_end(struct asking *a)
{
    a->server->asking = NULL;
    free(a);
}

static void asking_done(struct pool_job *job, int error);

static void asking_begin(struct asking *a)
{
    struct server *s = a->server;

    LIST_EACH(&a->waiting, at)
    a->store |= container_of(at, struct inquiry, link)->store;
    atomic_store(&a->at, ASKING_WORKERS);
    if (pool_submit(s->pool, &a->job, s->loop, asking_work, asking_done, 0) >= 0)
        return;
    (void)err_set(&a->err, EAGAIN, "all workers are busy");
    asking_tell(a);
    asking_end(a);
}

/* Logs each reason once. The broker has logged those that it found itself. */
static void log_readiness(struct server *s, const struct asking *a)
{
    bool broker_says = a->has_levels && a->levels.blocked.code;

    if (strcmp(a->err.msg, s->not_ready.msg) == 0)
        return;
    if (a->err.code && !broker_says)
        log_event(LOG_WARN, "not ready", LOG_STR("error", a->err.msg));
    else if (!a->err.code)
        log_event(LOG_INFO, "ready again");
    s->not_ready = a->err;
}

static void asking_done(struct pool_job *job, int error)
{
    struct asking *a = container_of(job, struct asking, job);
    struct server *s = a->server;

    if (error)
        (void)err_set(&a->err, error, "the server is stopping");
    if (a->has_levels)
        s->blocked = a->levels.blocked;
    if (a->store)
        log_readiness(s, a);
    if (a->store && !a->err.code)
        s->ready_until_ns = deadline_in_ms(READY_MS);
    asking_tell(a);
    if (list_empty(&a->waiting))
        asking_end(a);
    else
        asking_begin(a);
}

/* The next request asks again, after this round has ended. */
static void on_inquiry_late(struct loop_timer *timer)
{
    static const char *const whose[] = {
        [ASKING_WORKERS] = "all workers are busy",
        [ASKING_STORE] = "the store does not answer",
        [ASKING_RUNTIME] = "the runtime does not answer",
    };
    struct inquiry *q = container_of(timer, struct inquiry, timer);

    (void)err_set(&q->err, ETIMEDOUT, "%s", whose[atomic_load(&q->pending.server->asking->at)]);
    inquiry_end(q);
}

static void inquire(struct http_req *req, bool store,
                    void (*answer)(struct inquiry *, struct http_req *))
{
    struct server *s = server_of(req);
    struct inquiry *q = mem_new(struct inquiry);
    bool first = !s->asking;

    if (first) {
        s->asking = mem_new(struct asking);
        s->asking->server = s;
        list_init(&s->asking->waiting);
    }
    pending_init(&q->pending, req, inquiry_free);
    q->store = store;
    q->answer = answer;
    list_push(&s->asking->waiting, &q->link);
    loop_timer_set(s->loop, &q->timer, deadline_in_ms(INQUIRY_MS), on_inquiry_late);
    if (first)
        asking_begin(s->asking);
}

static void reply_ready(struct http_req *req, const struct err *e)
{
    if (e->code || server_of(req)->stopping)
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "not ready: %s",
                         e->code ? e->msg : "the server is stopping");
    else
        http_reply(req, 200, STR("application/json"), STR("{\"status\":\"ready\"}"));
}

static void answer_ready(struct inquiry *q, struct http_req *req)
{
    reply_ready(req, &q->err);
}

/* No key is needed, and asking costs a write, so a positive answer is reused for READY_MS. */
void handle_ready_get(struct http_req *req)
{
    if (time_mono_ns() < server_of(req)->ready_until_ns)
        reply_ready(req, &(struct err){0});
    else
        inquire(req, true, answer_ready);
}

/* Always 200, as the server is alive; the body tells of any problem. */
static void reply_health(struct http_req *req, const struct err *e)
{
    struct json_writer w;
    AUTO_BUF(body, 1024);

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("status"), STR("healthy"));
    if (e->code)
        json_member_string(&w, STR("message"), str_of(e->msg));
    json_write_object_end(&w);
    reply_json(req, 200, &body, json_write_end(&w));
}

static void answer_health(struct inquiry *q, struct http_req *req)
{
    reply_health(req, &q->pending.server->blocked);
}

/* Does not wait, unless no sandbox could start at the last check. */
void handle_health_get(struct http_req *req)
{
    struct runtime *rt = server_of(req)->runtime;
    struct err e = {0};

    if (server_of(req)->blocked.code) {
        inquire(req, false, answer_health);
        return;
    }
    if (rt->ops->trouble)
        rt->ops->trouble(rt, &e);
    reply_health(req, &e);
}

static void gather_egress(const struct runtime_egress *egress, struct metrics_gauges *g)
{
    g->has_egress = egress->has;
    g->egress_up = egress->up;
    g->egress_sandboxes = egress->sandboxes;
    g->egress_queries = egress->queries;
    g->egress_failed = egress->failed;
    g->egress_denied = egress->denied;
    g->egress_changes = egress->changes;
    g->egress_rule_errors = egress->rule_errors;
    g->egress_vault_uses = egress->vault_uses;
    g->egress_vaults_lost = egress->vaults_lost;
}

static void gather(struct server *s, const struct runtime_levels *levels, struct metrics_gauges *g)
{
    struct exporter_stats sent[OTLP_SIGNAL_COUNT];
    struct http_server_stats http;
    struct gateway_stats gateway;
    struct pool_stats pool;

    *g = (struct metrics_gauges){
        .has_slots = levels != NULL,
        .loop_lag_ns = loop_take_lag_ns(s->loop),
        .started_us = (uint64_t)s->started_us,
        .has_telemetry = s->telemetry != NULL,
    };
    if (levels) {
        g->slots_ready = levels->ready;
        g->slots_ready_wanted = levels->ready_wanted;
        g->slots_live = levels->live;
        gather_egress(&levels->egress, g);
    }
    sandboxes_count(s->sandboxes, g->sandboxes);
    http_server_stats(s->http, &http);
    gateway_stats(s->gateway, &gateway);
    pool_stats(s->pool, &pool);
    telemetry_stats(s->telemetry, sent);
    g->connections_accepted = http.accepted;
    g->connections = http.connections;
    g->connections_idle = http.idle;
    g->gateway_forwarded = gateway.forwarded;
    g->gateway_refused = gateway.refused;
    g->gateway_failed = gateway.failed;
    g->jobs_running = pool.running;
    g->jobs_queued = pool.queued;
    for (int i = 0; i < OTLP_SIGNAL_COUNT; i++) {
        g->telemetry[i].sent = sent[i].sent;
        g->telemetry[i].dropped = sent[i].dropped;
        g->telemetry[i].failures = sent[i].failures;
    }
    metrics_read_process(g);
}

static void answer_metrics(struct inquiry *q, struct http_req *req)
{
    struct server *s = q->pending.server;
    struct metrics_gauges g;
    AUTO_BUF(body, METRICS_TEXT_MAX);

    gather(s, q->has_levels ? &q->levels : NULL, &g);
    if (metrics_render(s->metrics, &g, &body) < 0)
        http_reply_error(req, 500, "GENERAL::UNKNOWN_ERROR", "the metrics are too large");
    else
        http_reply(req, 200, STR(METRICS_CONTENT_TYPE), buf_str(&body));
}

/* The same for telemetry. */
struct measuring {
    struct pool_job job;
    struct server *server;
    struct runtime_levels levels;
    bool has_levels;
};

static void measure_work(struct pool_job *job)
{
    struct measuring *m = container_of(job, struct measuring, job);
    struct runtime *rt = m->server->runtime;

    m->has_levels = rt->ops->levels(rt, &m->levels, NULL) >= 0;
}

static void measure_done(struct pool_job *job, int error)
{
    struct measuring *m = container_of(job, struct measuring, job);
    struct server *s = m->server;
    struct otlp_json_metric clock = {0};
    struct metrics_gauges g;
    uint64_t count;
    AUTO_BUF(items, METRICS_TEXT_MAX);

    if (!error) {
        gather(s, m->has_levels ? &m->levels : NULL, &g);
        telemetry_clock(s->telemetry, &clock);
        if (metrics_render_otlp(s->metrics, &g, &clock, &items, &count) == 0)
            telemetry_metrics(s->telemetry, buf_str(&items), count);
    }
    free(m);
}

void server_metrics_due(void *user)
{
    struct measuring *m = mem_new(struct measuring);

    m->server = user;
    if (pool_submit(m->server->pool, &m->job, m->server->loop, measure_work, measure_done, 0) < 0)
        free(m);
}

void handle_metrics_get(struct http_req *req)
{
    inquire(req, false, answer_metrics);
}
