/* serve.c - a request: where it wants to go, whether it may, and whether it can.
 *
 *   clean path ──► route ──► place ──► access ──► ready ──► forward.c
 *      301          400     404, 502  401, 429     503
 *
 * Where something must be found out first the request waits (http_wait.h), and then begins again at
 * its place. */
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"

enum {
    LOOKUPS_MAX = 4,
    REASON_MAX = 512,
    EXECD_PORT = 44772,
    EGRESS_PORT = 18080,
    SAMPLE_FIRST = 100, /* lines in a second; then every SAMPLE_FIRST-th */
};

static struct worker *worker_of(const struct http_req *req)
{
    return req->server_user;
}

static struct visit *visit_of(const struct http_req *req)
{
    return (struct visit *)req->principal;
}

void serve_refuse(struct http_req *req, int status, const char *fmt, ...)
{
    AUTO_BUF(text, REASON_MAX);
    va_list ap;
    int r = buf_add(&text, STR("OpenSandbox Ingress: "));

    va_start(ap, fmt);
    if (r == 0)
        r = buf_vaddf(&text, fmt, ap);
    va_end(ap);
    if (r == 0)
        (void)buf_add_char(&text, '\n');
    (void)http_reply_header(req, STR("X-Content-Type-Options"), STR("nosniff"));
    http_reply(req, status, STR("text/plain; charset=utf-8"), buf_str(&text));
}

/* --- the beginning --- */

bool serve_on_request(struct http_req *req)
{
    struct worker *w = worker_of(req);
    struct visit *v = arena_new(&req->arena, struct visit);
    const struct http_header *given = http_header_find(&req->head.headers, STR("X-Request-ID"));

    if (!v) {
        serve_refuse(req, 503, "out of memory for this request");
        return false;
    }
    v->worker = w;
    v->req = req;
    list_init(&v->link);
    req->principal = v;
    if (given && given->value.n && given->value.n <= LOG_REQUEST_ID_MAX)
        req->id = given->value;
    else
        req->id = str_of(arena_printf(&req->arena, "%s-%zx-%llx", w->ingress->id_prefix,
                                      (size_t)(w - w->ingress->workers),
                                      (unsigned long long)++w->request_number));
    forward_source(v);
    if (!limits_request(&w->ingress->limits, &v->source, loop_now_ns(w->loop))) {
        metric_add(&w->metrics, METRIC_LIMITED, 1);
        (void)http_reply_header(req, STR("Retry-After"), STR("1"));
        serve_refuse(req, 429, "too many requests from this address");
        return false;
    }
    return true;
}

void serve_on_unrouted(struct http_req *req, unsigned allowed UNUSED)
{
    serve_refuse(req, 400, "invalid ingress route: this form of request target is not served");
}

/* True when it was answered with a redirect. */
static bool redirect_unclean(struct http_req *req)
{
    AUTO_BUF(path, H1_HEAD_BYTES_MAX);
    int r = route_clean_path(req->head.path, &path);

    if (r == 0)
        return false;
    if (r == 1 && req->head.query.p)
        r = buf_addf(&path, "?%.*s", STR_ARG(req->head.query));
    if (r < 0 || http_reply_header(req, STR("Location"), buf_str(&path)) < 0)
        serve_refuse(req, 400, "invalid ingress route: the path is not clean");
    else
        http_reply(req, 301, STR_NONE, STR_NONE);
    return true;
}

/* The text that names the sandbox, without a path. */
static struct str route_text(const struct http_req *req)
{
    struct str text = str_trim(http_req_header(req, STR(ROUTE_HEADER)));

    if (!text.n)
        text = str_trim(http_req_header(req, STR(ROUTE_HEADER_OLD)));
    return text.n ? text : req->head.host;
}

static int parse_route(struct visit *v, const char **why)
{
    struct http_req *req = v->req;
    int r = -1;

    if (v->worker->ingress->options.mode == ROUTE_BY_PATH) {
        r = route_parse_path(req->head.path, &v->route, why);
        v->rest = v->route.rest;
    } else if (v->worker->ingress->options.mode == ROUTE_BY_HEADER) {
        r = route_parse_label(route_text(req), &v->route, why);
        v->rest = req->head.path;
    } else {
        *why = "the gateway was started with a mode that does not exist";
    }
    v->parsed = r == 0;
    return r;
}

static void visit_go_on(struct visit *v);

/* The gateway's own health. An app's path of this name is reached where the request names a sandbox
 * that exists: a host of the gateway itself may look like a route. */
static bool is_health(const struct http_req *req)
{
    return str_eq(req->head.path, STR("/status.ok"));
}

static void reply_health(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain; charset=utf-8"), STR("OK"));
}

void serve_request(struct http_req *req)
{
    struct visit *v = visit_of(req);
    const char *why = "";

    if (req->head.method == HTTP_CONNECT || req->head.form == H1_AUTHORITY_FORM) {
        serve_on_unrouted(req, 0);
        return;
    }
    if (redirect_unclean(req))
        return;
    if (parse_route(v, &why) == 0)
        visit_go_on(v);
    else if (is_health(req))
        reply_health(req);
    else
        serve_refuse(req, 400, "invalid ingress route: %s", why);
}

/* --- its place --- */

static void count_place(struct visit *v)
{
    struct metrics *m = &v->worker->metrics;

    if (v->found || v->place.state == PLACE_LATER)
        return;
    v->found = true;
    metric_add(m, (enum metric)(METRIC_FOUND + v->place.state), 1);
    metric_observe(&m->lookups, loop_now_ns(v->worker->loop) - v->req->begin_ns);
}

/* True when the request waits, or was refused. */
static bool visit_waits(struct visit *v, struct http_waits *waits, struct str key,
                        const char *reason)
{
    if (v->lookups++ < LOOKUPS_MAX && http_waits_can(waits, key, true))
        http_waits_add(waits, key, v->req);
    else
        serve_refuse(v->req, 503, "%s", reason);
    return true;
}

static bool visit_lacks_place(struct visit *v)
{
    struct worker *w = v->worker;
    struct http_req *req = v->req;

    w->ingress->provider->find(w, v->route.id, &v->place);
    count_place(v);
    switch (v->place.state) {
    case PLACE_LATER:
        return visit_waits(v, &w->lookups, v->route.id,
                           "sandbox not ready: too many sandboxes are being looked for");
    case PLACE_NONE:
        if (is_health(req))
            reply_health(req);
        else if (w->ingress->options.hide_unknown)
            serve_refuse(req, 401, "signature: signature required for this sandbox");
        else
            serve_refuse(req, 404, "sandbox not found: %.*s", STR_ARG(v->route.id));
        return true;
    case PLACE_AMBIGUOUS:
        serve_refuse(req, 502, "ambiguous sandbox id: several namespaces have it");
        return true;
    case PLACE_FAILED:
        serve_refuse(req, 502, "the server of this sandbox could not be found out");
        return true;
    default:
        return false;
    }
}

/* --- access --- */

static bool visit_lacks_access(struct visit *v)
{
    struct worker *w = v->worker;
    const struct options *o = &w->ingress->options;
    uint64_t now_ns = loop_now_ns(w->loop);
    struct access_rules rules = {
        .keys = &w->keys,
        .now_s = v->route.is_signed ? (uint64_t)(time_wall_us() / TIME_US_PER_S) : 0,
        .ahead_max_s = o->signed_max_s,
    };
    struct str token = str_of(v->place.token);
    struct access_verdict verdict;

    if (!str_trim(token).n) {
        bool control = v->route.port == EXECD_PORT || v->route.port == EGRESS_PORT;

        if (o->unprotected == UNPROTECTED_ALLOW ||
            (o->unprotected == UNPROTECTED_NO_CONTROL && !control))
            return false;
        metric_add(&w->metrics, METRIC_DENIED, 1);
        serve_refuse(v->req, 403, "this gateway does not lead to %s of sandboxes without a token",
                     o->unprotected == UNPROTECTED_DENY ? "ports" : "control ports");
        return true;
    }
    if (!limits_may_try(&w->ingress->limits, &v->source, now_ns)) {
        metric_add(&w->metrics, METRIC_GUESSING, 1);
        (void)http_reply_header(v->req, STR("Retry-After"), STR("10"));
        serve_refuse(v->req, 429, "too many wrong credentials from this address");
        return true;
    }
    verdict = access_check(&rules, token, &v->req->head.headers, &v->route);
    if (!verdict.status)
        return false;
    metric_add(&w->metrics, METRIC_DENIED, 1);
    if (verdict.guessed)
        limits_failed(&w->ingress->limits, &v->source, now_ns);
    serve_refuse(v->req, verdict.status, "%s", verdict.reason);
    return true;
}

/* --- readiness --- */

static bool visit_is_early(struct visit *v)
{
    struct worker *w = v->worker;

    if (v->place.state == PLACE_READY)
        return false;
    if (v->place.state == PLACE_PAUSED && !v->woken &&
        http_waits_can(&w->wakes, v->route.id, true)) {
        v->woken = true;
        metric_add(&w->metrics, METRIC_WOKEN, 1);
        http_waits_add(&w->wakes, v->route.id, v->req);
        return true;
    }
    if (v->place.state == PLACE_PAUSED)
        serve_refuse(v->req, 503, "sandbox not ready: the sandbox is paused");
    else
        serve_refuse(v->req, 503, "sandbox not ready: %s",
                     v->place.why ? v->place.why : "it does not run");
    return true;
}

static void visit_go_on(struct visit *v)
{
    if (visit_lacks_place(v))
        return;
    /* Segments that merely look like a signature belong to the app, unless it is checked. */
    if (v->worker->ingress->options.mode == ROUTE_BY_PATH && v->route.is_signed &&
        !str_trim(str_of(v->place.token)).n) {
        v->route.is_signed = false;
        v->rest = v->route.rest_unsigned;
    }
    if (visit_lacks_access(v) || visit_is_early(v))
        return;
    forward(v);
}

void serve_again(void *owner UNUSED, struct http_req *req, const char *why)
{
    if (why)
        serve_refuse(req, 503, "sandbox not ready: %s", why);
    else
        visit_go_on(visit_of(req));
}

void serve_woken(void *owner UNUSED, struct http_req *req, const char *why)
{
    if (why) {
        (void)http_reply_header(req, STR("Retry-After"), STR("1"));
        serve_refuse(req, 503, "sandbox not ready: it is paused and could not be resumed: %s", why);
    } else {
        visit_go_on(visit_of(req));
    }
}

void serve_late(void *owner UNUSED, struct http_req *req)
{
    (void)http_reply_header(req, STR("Retry-After"), STR("1"));
    serve_refuse(req, 503, "sandbox not ready: it took too long to find or resume it; try again");
}

/* --- the end --- */

static bool is_sampled(struct worker *w)
{
    uint64_t now = loop_now_ns(w->loop);

    if (now - w->sample_begin_ns >= 1000 * TIME_NS_PER_MS) {
        w->sample_begin_ns = now;
        w->sampled = 0;
    }
    w->sampled++;
    return w->sampled <= SAMPLE_FIRST || w->sampled % SAMPLE_FIRST == 0;
}

static struct str client_of(const struct visit *v)
{
    struct str text = http_req_header(v->req, STR("X-Forwarded-For"));

    text.n = str_find(text, ',');
    text = str_trim(text);
    if (!text.n)
        text = str_trim(http_req_header(v->req, STR("X-Real-IP")));
    return text.n && v->is_trusted ? text : str_of(v->client);
}

static void log_visit(const struct visit *v, int status, uint64_t ns)
{
    const struct http_req *req = v->req;
    AUTO_BUF(uri, H1_HEAD_BYTES_MAX);
    char target[PLACE_HOST_MAX + 16];

    if (route_redact(req->head.path, req->head.query,
                     v->worker->ingress->options.mode == ROUTE_BY_PATH, &uri) < 0)
        return;
    if (v->place.server)
        (void)snprintf(target, sizeof(target), "%.200s/%u", v->place.server->name, v->route.port);
    else
        (void)snprintf(target, sizeof(target), strchr(v->place.host, ':') ? "[%s]:%u" : "%s:%u",
                       v->place.host, v->route.port);
    log_event(LOG_INFO, "ingress requested", LOG_STR("target", (const char *)target),
              LOG_STR("client", client_of(v)), LOG_STR("uri", buf_str(&uri)),
              LOG_STR("method", req->head.method_name), LOG_STR("sandbox", v->route.id),
              LOG_I64("status", status), LOG_U64("duration_us", ns / 1000),
              LOG_U64("bytes", req->reply_bytes), LOG_STR("request_id", req->id));
}

void serve_on_done(struct http_req *req, int error)
{
    struct visit *v = visit_of(req);
    struct worker *w = worker_of(req);
    uint64_t ns = loop_now_ns(w->loop) - req->begin_ns;
    int status = req->status ? req->status : error || !v ? 499 : 101;

    metric_status(&w->metrics, status);
    metric_observe(&w->metrics.requests, ns);
    if (!v)
        return;
    list_remove(&v->link);
    if (v->forwarded && log_enabled(LOG_INFO) && is_sampled(w))
        log_visit(v, status, ns);
}
