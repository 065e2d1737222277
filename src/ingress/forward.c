/* forward.c - sends a request to its sandbox: at its own address, or through the gateway of the
 * server that has it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"

enum {
    ROWS_MAX = 8,
    DROPS_MAX = 8,
    AGAIN_MS = 50,
    RETRIES_MAX = 2,
    AUTHORITY_MAX = PLACE_HOST_MAX + 16,
};

#define REFUSAL_HEADER "OpenSandbox-Gateway-Refusal" /* of a server's gateway */

/* --- the address of the client --- */

static void addr_text(const struct sock_addr *addr, char out[INET6_ADDRSTRLEN])
{
    out[0] = '\0';
    if (addr->any.sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &addr->v4.sin_addr, out, INET6_ADDRSTRLEN);
    else if (addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr))
        (void)inet_ntop(AF_INET, &addr->v6.sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
    else if (addr->any.sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &addr->v6.sin6_addr, out, INET6_ADDRSTRLEN);
}

static bool addr_read(struct str text, struct sock_addr *ret)
{
    char host[INET6_ADDRSTRLEN];

    *ret = (struct sock_addr){.size = sizeof(ret->v6)};
    if (str_copy(host, sizeof(host), text) < 0)
        return false;
    if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1)
        ret->any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1)
        ret->any.sa_family = AF_INET6;
    else
        return false;
    return true;
}

/* Of X-Forwarded-For the last address that is no proxy of ours: each proxy appends its peer. */
static void client_behind(const struct limits_nets *trusted, struct str list,
                          struct sock_addr *addr)
{
    while (list.n) {
        size_t at = list.n;
        struct sock_addr one;

        while (at > 0 && list.p[at - 1] != ',')
            at--;
        if (!addr_read(str_trim(str_skip(list, at)), &one))
            return;
        *addr = one;
        if (!limits_nets_have(trusted, &one))
            return;
        list.n = at ? at - 1 : 0;
    }
}

void forward_source(struct visit *v)
{
    const struct limits_nets *trusted = &v->worker->ingress->trusted;
    struct sock_addr addr = *http_req_peer(v->req);

    v->is_trusted = trusted->count == 0 || limits_nets_have(trusted, &addr);
    addr_text(&addr, v->client);
    if (trusted->count && v->is_trusted)
        client_behind(trusted, http_req_header(v->req, STR("X-Forwarded-For")), &addr);
    v->source = limits_key_of(&addr);
}

/* --- headers --- */

static struct str forwarded_for(const struct visit *v)
{
    struct http_req *req = v->req;
    const struct http_headers *h = &req->head.headers;
    const struct http_header *row = http_header_find(h, STR("X-Forwarded-For"));
    AUTO_BUF(list, H1_HEAD_BYTES_MAX + INET6_ADDRSTRLEN + 2);

    if (!row || !v->is_trusted)
        return str_of(v->client);
    for (; row; row = http_header_next(h, row))
        if (row->value.n)
            (void)buf_addf(&list, "%.*s, ", STR_ARG(row->value));
    (void)buf_add(&list, str_of(v->client));
    return arena_str(&req->arena, buf_str(&list));
}

static struct str own_port(const struct visit *v)
{
    struct str host = v->req->head.host;
    size_t at = host.n;

    while (at > 0 && ascii_is_digit(host.p[at - 1]))
        at--;
    if (at > 0 && at < host.n && host.p[at - 1] == ':')
        return str_skip(host, at);
    return http_req_is_secure(v->req) ? STR("443") : STR("80");
}

/* "/id/port" or the signed form: what an app puts before its own paths in links. */
static struct str prefix_of(const struct visit *v)
{
    struct str path = v->req->head.path;

    return v->worker->ingress->options.mode == ROUTE_BY_PATH ? str_make(path.p, path.n - v->rest.n)
                                                             : STR_NONE;
}

/* What a proxy in front said stays, if it is believed; of TLS we know by ourselves. */
static size_t added_rows(struct visit *v, struct http_header rows[ROWS_MAX])
{
    const struct http_headers *h = &v->req->head.headers;
    bool secure = http_req_is_secure(v->req);
    const struct {
        struct http_header row;
        bool always; /* replaces what came */
    } wanted[] = {
        {{STR("X-Forwarded-For"), forwarded_for(v)},                                true  },
        {{STR("X-Forwarded-Proto"), secure ? STR("https") : STR("http")},           secure},
        {{STR("X-Forwarded-Host"), v->req->head.host},                              false },
        {{STR("X-Forwarded-Port"), own_port(v)},                                    false },
        {{STR("X-Forwarded-Prefix"), prefix_of(v)},                                 true  },
        {{STR("X-Request-ID"), v->req->id},                                         true  },
        {{STR(ACCESS_HEADER), v->place.server ? str_of(v->place.token) : STR_NONE}, true  },
    };
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (wanted[i].row.value.n &&
            (wanted[i].always || !v->is_trusted || !http_header_find(h, wanted[i].row.name)))
            rows[n++] = wanted[i].row;
    return n;
}

/* --- the answer --- */

static void on_answer(void *user, struct http_req *req, int status, struct http_headers *rows)
{
    struct visit *v = user;

    if (status == 101)
        return;
    rows->rows[rows->count++] =
        (struct http_header){STR("Reverse-Proxy-Server-Powerby"), STR("OpenSandbox-ingress")};
    if (v->place.server) { /* between it and us */
        size_t n = 0;

        if (http_header_find(rows, STR(REFUSAL_HEADER)))
            finder_forget(&v->worker->finder, v->route.id);
        for (size_t i = 0; i < rows->count; i++)
            if (!str_eq_nocase(rows->rows[i].name, STR(REFUSAL_HEADER)))
                rows->rows[n++] = rows->rows[i];
        rows->count = n;
    }
    if (!http_header_find(rows, STR("X-Request-ID")))
        rows->rows[rows->count++] = (struct http_header){STR("X-Request-ID"), req->id};
}

static void on_fail(void *user, struct http_req *req, int status UNUSED, const struct err *why)
{
    struct visit *v = user;

    metric_add(&v->worker->metrics, METRIC_BACKEND_FAILED, 1);
    log_event(LOG_DEBUG, "a sandbox did not answer", LOG_STR("sandbox", v->route.id),
              LOG_U64("port", v->route.port), LOG_STR("why", (const char *)why->msg));
    if (v->websocket)
        http_reply(req, 503, STR("text/plain; charset=utf-8"), STR("Service Unavailable\n"));
    else
        http_reply(req, 502, STR_NONE, STR_NONE);
}

/* --- another attempt --- */

static ssize_t on_parked_body(struct http_req *req UNUSED, struct str piece UNUSED)
{
    return 0;
}

static void on_parked_close(struct http_req *req, int error UNUSED)
{
    struct visit *v = req->user;

    loop_timer_stop(v->worker->loop, &v->again);
}

static const struct http_req_ops parked_ops = {
    .on_body = on_parked_body,
    .on_close = on_parked_close,
};

static void on_again(struct loop_timer *t)
{
    struct visit *v = container_of(t, struct visit, again);

    serve_again(v->worker, v->req, NULL);
}

static void park(struct visit *v)
{
    v->req->ops = &parked_ops;
    v->req->user = v;
    list_remove(&v->link);
    metric_add(&v->worker->metrics, METRIC_RETRIED, 1);
    loop_timer_after(v->worker->loop, &v->again, AGAIN_MS, on_again);
}

/* A port that is not open yet; or a server that no longer has the sandbox, or has it paused. One
 * that refuses the token we have, which the client showed us, does not know it any more. */
static bool on_take_back(void *user, struct http_req *req UNUSED, int status,
                         const struct http_headers *rows)
{
    struct visit *v = user;
    struct worker *w = v->worker;
    uint64_t wait_ns = w->ingress->options.connect_wait_ms * TIME_NS_PER_MS;

    if (!rows) {
        if (v->place.server || loop_now_ns(w->loop) - v->first_ns >= wait_ns)
            return false;
        park(v);
        return true;
    }
    if (!v->place.server || (status != 401 && status != 404 && status != 503) ||
        !http_header_find(rows, STR(REFUSAL_HEADER)))
        return false;
    finder_forget(&w->finder, v->route.id);
    if (v->retries++ >= RETRIES_MAX)
        return false;
    park(v);
    return true;
}

/* --- upgraded connections --- */

static void *on_tunnel(void *user, struct http_req *req UNUSED)
{
    struct visit *v = user;
    struct tunnel_note *t = mem_new(struct tunnel_note);

    t->worker = v->worker;
    t->source = v->source;
    t->port = v->route.port;
    (void)!str_copy(t->id, sizeof(t->id), v->route.id);
    list_push(&v->worker->tunnels_open, &t->link);
    metric_add(&v->worker->metrics, METRIC_TUNNELS, 1);
    metric_add(&v->worker->metrics, METRIC_TUNNELS_NOW, 1);
    return t;
}

static void on_tunnel_end(void *tunnel_user)
{
    struct tunnel_note *t = tunnel_user;

    metric_add(&t->worker->metrics, METRIC_TUNNELS_NOW, -1);
    list_remove(&t->link);
    free(t);
}

/* --- the request --- */

/* True when the request waits for the address, or was answered. */
static bool lacks_address(struct visit *v, struct sock_addr *ret)
{
    struct worker *w = v->worker;
    int r = 0;

    if (v->place.server)
        *ret = v->place.server->addr;
    else
        r = names_find(&w->names, v->place.host, v->route.port, ret);
    if (r == 0)
        return false;
    if (r == -EAGAIN && v->lookups++ < 4 &&
        http_waits_can(&w->name_lookups, str_of(v->place.host), true)) {
        http_waits_add(&w->name_lookups, str_of(v->place.host), v->req);
        return true;
    }
    on_fail(v, v->req, 502, &(struct err){.msg = "its host has no address"});
    return true;
}

static struct str target_of(struct visit *v)
{
    struct str path = v->rest.n ? v->rest : STR("/"), query = v->req->head.query;
    const char *mark = query.p ? "?" : "";
    struct arena *a = &v->req->arena;

    if (v->place.server)
        return str_of(arena_printf(a, "/sandboxes/%.*s/proxy/%u%.*s%s%.*s", STR_ARG(v->route.id),
                                   v->route.port, STR_ARG(path), mark, STR_ARG(query)));
    if (v->rest.n) /* path and query stand together in the head */
        return str_make(path.p, query.p ? (size_t)(query.p + query.n - path.p) : path.n);
    return str_of(arena_printf(a, "/%s%.*s", mark, STR_ARG(query)));
}

static struct str host_of(struct visit *v)
{
    const char *host = v->place.host;

    if (v->place.server)
        return str_of(v->place.server->authority);
    return str_of(
        arena_printf(&v->req->arena, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, v->route.port));
}

static void note_access(struct visit *v)
{
    struct ingress *g = v->worker->ingress;

    if (g->intents)
        intents_note(g->intents, v->route.id, v->route.port,
                     g->options.mode == ROUTE_BY_PATH ? v->rest.n ? v->rest : STR("/") : STR_NONE,
                     loop_now_ns(v->worker->loop));
}

void forward(struct visit *v)
{
    static const uint64_t no_seed[2] = {0};
    static const struct str drops[] = {
        STR_INIT(ROUTE_HEADER),
        STR_INIT(ROUTE_HEADER_OLD),
        STR_INIT(ACCESS_HEADER),
        /* Of clients that are not believed: */
        STR_INIT("Forwarded"),
        STR_INIT("X-Real-IP"),
    };
    struct worker *w = v->worker;
    struct http_header rows[ROWS_MAX];
    struct sock_addr addr;
    struct http_proxy_target target = {
        .addr = &addr,
        /* An address may pass from one sandbox to another: no connection is shared. */
        .group = v->place.server ? 0 : map_hash(no_seed, v->route.id),
        .headers = rows,
        .drop = drops,
        .drop_count = v->is_trusted ? 3 : ARRAY_LEN(drops),
        .tunnels = &w->tunnels,
        .on_take_back = on_take_back,
        .on_answer = on_answer,
        .on_fail = on_fail,
        .on_tunnel = on_tunnel,
        .on_tunnel_end = on_tunnel_end,
        .user = v,
    };

    if (lacks_address(v, &addr))
        return;
    v->websocket = http_headers_have_token(&v->req->head.headers, STR("Upgrade"), STR("websocket"));
    target.header_count = added_rows(v, rows);
    target.target = target_of(v);
    target.host = host_of(v);
    if (!target.target.p || !target.host.p) {
        serve_refuse(v->req, 503, "out of memory for this request");
        return;
    }
    if (v->place.server) {
        target.tls = w->calls.tls[v->place.server->index];
        target.tls_host = str_of(v->place.server->host);
    }
    if (!v->first_ns)
        v->first_ns = loop_now_ns(w->loop);
    v->forwarded = true;
    list_remove(&v->link);
    list_push(&w->live, &v->link);
    metric_add(&w->metrics, METRIC_PROXIED, 1);
    note_access(v);
    http_req_be_patient(v->req);
    http_proxy_forward(v->req, w->client, &target);
}
