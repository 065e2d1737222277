#include "execd/metrics/metrics_api.h"

#include <errno.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/core/answer.h"
#include "execd/core/routes.h"
#include "net/sse.h"

enum { METRICS_BYTES_MAX = 1024 };

static int format_metrics(struct buf *out, const struct metrics *m)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_double(&w, STR("cpu_count"), m->cpu_count);
    json_member_double(&w, STR("cpu_used_pct"), m->cpu_used_pct);
    json_member_double(&w, STR("mem_total_mib"), m->mem_total_mib);
    json_member_double(&w, STR("mem_used_mib"), m->mem_used_mib);
    json_member_i64(&w, STR("timestamp"), m->timestamp_ms);
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* --- GET /metrics --- */

struct wait {
    struct loop_timer timer;
    struct http_req *req;
    struct metrics_point from;
};

static void metrics_fail(struct http_req *req, const struct err *e)
{
    answer_error(req, 500, "RUNTIME_ERROR", "error reading runtime metrics. %s", e->msg);
}

/* Measures since `from` and replies; stores the result for the next request. */
static void metrics_reply(struct http_req *req, const struct metrics_point *from)
{
    struct execd_api *api = req->server_user;
    struct metrics_memory *memory = api->metrics_memory;
    AUTO_BUF(body, METRICS_BYTES_MAX);
    struct metrics_point now;
    struct metrics m;
    struct err e = {0};

    if (metrics_take_point(api->metrics, &now, &e) < 0 ||
        metrics_measure(api->metrics, from, &now, &m, &e) < 0) {
        metrics_fail(req, &e);
        return;
    }
    if (now.at_ns - from->at_ns < METRICS_SPAN_MS_MIN * TIME_NS_PER_MS) {
        m.cpu_used_pct = memory->last_pct; /* too short to measure */
    } else {
        *memory = (struct metrics_memory){now, m.cpu_used_pct, true};
    }
    if (format_metrics(&body, &m) < 0)
        metrics_fail(req, &(struct err){.msg = "no memory"});
    else
        answer_json(req, 200, buf_str(&body));
}

static void wait_on_due(struct loop_timer *t)
{
    struct wait *w = container_of(t, struct wait, timer);

    metrics_reply(w->req, &w->from);
}

static void wait_on_close(struct http_req *req, int error UNUSED)
{
    struct wait *w = req->user;

    loop_timer_stop(http_req_loop(req), &w->timer);
    free(w);
}

static const struct http_req_ops wait_ops = {.on_close = wait_on_close};

static void metrics_wait(struct http_req *req, const struct metrics_point *now)
{
    struct loop *loop = http_req_loop(req);
    struct wait *w = mem_new(struct wait);

    w->req = req;
    w->from = *now;
    req->ops = &wait_ops;
    req->user = w;
    loop_timer_set(loop, &w->timer, now->at_ns + METRICS_SPAN_MS_MIN * TIME_NS_PER_MS, wait_on_due);
}

void get_metrics(struct http_req *req)
{
    struct execd_api *api = req->server_user;
    const struct metrics_memory *memory = api->metrics_memory;
    struct metrics_point now;
    struct err e = {0};
    uint64_t age_ms;

    if (metrics_take_point(api->metrics, &now, &e) < 0) {
        metrics_fail(req, &e);
        return;
    }
    age_ms = (now.at_ns - memory->last.at_ns) / TIME_NS_PER_MS;
    if (memory->measured && age_ms <= METRICS_SPAN_MS_MAX)
        metrics_reply(req, &memory->last);
    else
        metrics_wait(req, &now);
}

/* --- GET /metrics/watch --- */

struct watch {
    struct sse sse;
    struct loop_timer timer;
    struct metrics_point last;
};

static void watch_on_due(struct loop_timer *t);

static void watch_again(struct watch *w, uint32_t ms)
{
    struct loop *loop = http_req_loop(w->sse.req);

    loop_timer_after(loop, &w->timer, ms, watch_on_due);
}

static int format_failure(struct buf *out, const struct err *e)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("error"), str_of(e->msg));
    json_write_object_end(&w);
    return json_write_end(&w);
}

static int watch_measure(struct watch *w, struct buf *out)
{
    struct execd_api *api = w->sse.req->server_user;
    struct metrics_point now;
    struct metrics m;
    struct err e = {0};
    int r = metrics_take_point(api->metrics, &now, &e);

    if (r >= 0)
        r = metrics_measure(api->metrics, &w->last, &now, &m, &e);
    if (r < 0)
        return format_failure(out, &e);
    w->last = now;
    return format_metrics(out, &m);
}

/* A client that does not read misses some values, and gets the newest when it reads again. */
static void watch_on_due(struct loop_timer *t)
{
    struct watch *w = container_of(t, struct watch, timer);
    AUTO_BUF(line, METRICS_BYTES_MAX);

    watch_again(w, METRICS_WATCH_MS);
    if (watch_measure(w, &line) == 0)
        (void)sse_send_bare(&w->sse, buf_str(&line));
}

static void watch_on_close(struct sse *s, int error UNUSED)
{
    struct watch *w = container_of(s, struct watch, sse);

    loop_timer_stop(http_req_loop(s->req), &w->timer);
    free(w);
}

static const struct sse_ops watch_ops = {.on_close = watch_on_close};

void get_metrics_watch(struct http_req *req)
{
    struct execd_api *api = req->server_user;
    struct watch *w;
    struct metrics_point now;
    struct err e = {0};

    if (metrics_take_point(api->metrics, &now, &e) < 0) {
        metrics_fail(req, &e);
        return;
    }
    w = mem_new(struct watch);
    w->last = now;
    sse_begin(&w->sse, req, &watch_ops);
    watch_again(w, METRICS_SPAN_MS_MIN);
}
