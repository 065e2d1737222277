#include "image/web.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "image/problem.h"

enum {
    CALL_ARENA_BYTES_MAX = 256 * 1024,
    ADDRS_MAX = 4, /* of a name that are tried */
    HOST_TEXT_MAX = URL_HOST_BYTES_MAX + 16,
};

struct image_web {
    struct image_web_conf conf;
    struct http_client *client;
};

/* A name being looked up: outlives the call that asked, for a worker cannot be stopped. */
struct lookup {
    struct pool_job job;
    struct image_web_call *call; /* NULL when it has gone */
    char host[URL_HOST_BYTES_MAX + 1];
    uint16_t port;
    struct sock_addr addrs[ADDRS_MAX];
    int result; /* number of addresses, or -errno */
    struct err err;
};

struct image_web_call {
    struct image_web *web;
    struct arena arena; /* holds the call itself */
    const struct image_web_ops *ops;
    void *user;
    struct url url;
    char host[HOST_TEXT_MAX]; /* with its port */
    struct image_proxy proxy;
    struct http_call_spec spec;
    struct lookup *lookup;
    struct sock_addr addrs[ADDRS_MAX];
    int addr_count, addr_at;
    struct http_call *http;
    struct loop_timer timer; /* of the lookup, then of silence */
    int tunnel_fd;           /* through the proxy, between two calls */
    bool head_seen;
    bool written; /* some of a streamed body: it cannot be sent again */
};

static int connect_next(struct image_web_call *c, struct err *e);

static struct loop *loop_of(const struct image_web_call *c)
{
    return c->web->conf.loop;
}

static bool needs_tunnel(const struct image_web_call *c)
{
    return c->proxy.host.p && c->url.scheme == URL_HTTPS;
}

/* --- the end --- */

static void call_free(struct image_web_call *c)
{
    struct arena a = c->arena;

    loop_timer_stop(loop_of(c), &c->timer);
    if (c->lookup)
        c->lookup->call = NULL;
    fd_close(c->tunnel_fd);
    arena_done(&a);
}

static void call_end(struct image_web_call *c, int error, const struct err *why)
{
    struct err e = {0};

    if (error)
        err_set(&e, image_problem_of(error), "%s: %s", c->host, why->msg);
    loop_timer_stop(loop_of(c), &c->timer);
    c->http = NULL;
    c->ops->on_end(c, e.code, error ? &e : NULL);
    call_free(c);
}

void image_web_cancel(struct image_web_call *c)
{
    if (c->http)
        http_call_cancel(c->http);
    call_free(c);
}

/* --- the answer --- */

static void on_silence(struct loop_timer *t)
{
    struct image_web_call *c = container_of(t, struct image_web_call, timer);
    struct err e;

    err_set(&e, ETIMEDOUT, "it sent nothing for %u s", c->web->conf.stall_ms / 1000);
    http_call_cancel(c->http);
    call_end(c, ETIMEDOUT, &e);
}

static void watch_silence(struct image_web_call *c)
{
    loop_timer_after(loop_of(c), &c->timer, c->web->conf.stall_ms, on_silence);
}

static void on_head(struct http_call *http)
{
    struct image_web_call *c = http->user;

    c->head_seen = true;
    watch_silence(c);
    if (c->ops->on_head)
        c->ops->on_head(c);
}

static ssize_t on_body(struct http_call *http, struct str piece)
{
    struct image_web_call *c = http->user;
    struct loop *loop = loop_of(c);
    struct loop_timer *timer = &c->timer;
    ssize_t n;

    watch_silence(c);
    n = c->ops->on_body(c, piece);
    if (http->ended) /* cancelled: c is gone */
        return n;
    if (n >= 0 && (size_t)n < piece.n)
        loop_timer_stop(loop, timer); /* we are the slow side */
    return n;
}

/* Whether another address of the same name may do better. */
static bool is_worth_another(const struct image_web_call *c, int error)
{
    return !c->head_seen && !c->written && c->addr_at < c->addr_count &&
           (error == ECONNREFUSED || error == ENETUNREACH || error == EHOSTUNREACH ||
            error == ETIMEDOUT);
}

static void on_failed(struct image_web_call *c, int error, struct err *e)
{
    c->http = NULL;
    if (is_worth_another(c, error)) {
        int r = connect_next(c, e);

        if (r == 0)
            return;
        error = -r;
    }
    call_end(c, error, e);
}

static void on_end(struct http_call *http, int error)
{
    struct image_web_call *c = http->user;
    struct err e = http->err;

    if (error)
        on_failed(c, error, &e);
    else
        call_end(c, 0, NULL);
}

static const struct http_call_ops call_ops = {
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
};

/* --- the way through a proxy to https --- */

static void on_tunnel_upgrade(struct http_call *http, struct stream_parts *parts)
{
    struct image_web_call *c = http->user;

    if (parts->in.n == 0) /* TLS begins with our word: anything before is not it */
        c->tunnel_fd = take_fd(&parts->fd);
}

static void on_tunnel_end(struct http_call *http, int error)
{
    struct image_web_call *c = http->user;
    struct err e = http->err;
    int r = 0;

    c->http = NULL;
    if (!error && c->tunnel_fd < 0) {
        error = http->head.status == 407 ? EACCES : EHOSTUNREACH;
        err_set(&e, error, "the proxy %.*s:%u answered %d", STR_ARG(c->proxy.host), c->proxy.port,
                http->head.status);
    }
    if (!error) {
        c->spec.fd = &c->tunnel_fd;
        r = http_call_start(c->web->client, &c->spec, &c->http, &e);
        if (r == 0)
            return;
        error = -r;
    }
    on_failed(c, error, &e);
}

static const struct http_call_ops tunnel_ops = {
    .on_upgrade = on_tunnel_upgrade,
    .on_end = on_tunnel_end,
};

static int open_tunnel(struct image_web_call *c, struct err *e)
{
    struct http_header auth = {STR("Proxy-Authorization"), c->proxy.auth};
    struct http_call_spec spec = {
        .addr = c->spec.addr,
        .method = HTTP_CONNECT,
        .target = str_of(c->host),
        .host = str_of(c->host),
        .headers = &auth,
        .header_count = c->proxy.auth.p ? 1 : 0,
        .upgrade = true,
        .head_ms = c->web->conf.head_ms,
        .ops = &tunnel_ops,
        .user = c,
    };

    fd_close(take_fd(&c->tunnel_fd));
    return http_call_start(c->web->client, &spec, &c->http, e);
}

/* --- the way there --- */

/* Tries addresses until a connection is under way. */
static int connect_next(struct image_web_call *c, struct err *e)
{
    int r = -EHOSTUNREACH;

    while (c->addr_at < c->addr_count) {
        c->spec.addr = &c->addrs[c->addr_at++];
        r = needs_tunnel(c) ? open_tunnel(c, e)
                            : http_call_start(c->web->client, &c->spec, &c->http, e);
        if (r == 0)
            return 0;
    }
    return r;
}

static void lookup_work(struct pool_job *job)
{
    struct lookup *l = container_of(job, struct lookup, job);

    l->result = sock_resolve_all(l->host, l->port, l->addrs, ADDRS_MAX, &l->err);
}

static void lookup_done(struct pool_job *job, int error)
{
    struct lookup *l = container_of(job, struct lookup, job);
    struct image_web_call *c = l->call;
    struct err e = l->err;
    int r = error ? err_sys(&e, error, "look up '%s'", l->host) : l->result;

    if (r == -EHOSTUNREACH) /* the resolver is sure: asking again does not help */
        r = -(e.code = IMAGE_NO_HOST);
    if (c) {
        c->lookup = NULL;
        loop_timer_stop(loop_of(c), &c->timer);
        if (r > 0) {
            memcpy(c->addrs, l->addrs, sizeof(c->addrs));
            c->addr_count = r;
            r = connect_next(c, &e);
        }
        if (r < 0)
            call_end(c, -r, &e);
    }
    free(l);
}

static void on_lookup_late(struct loop_timer *t)
{
    struct image_web_call *c = container_of(t, struct image_web_call, timer);
    struct err e;

    err_set(&e, ETIMEDOUT, "its name was not found within %u s", c->web->conf.lookup_ms / 1000);
    call_end(c, ETIMEDOUT, &e);
}

static int look_up(struct image_web_call *c, struct str host, uint16_t port, struct err *e)
{
    struct lookup *l = mem_new(struct lookup);
    int r = str_copy(l->host, sizeof(l->host), host);

    l->port = port;
    l->call = c;
    if (r == 0)
        r = pool_submit(c->web->conf.pool, &l->job, loop_of(c), lookup_work, lookup_done, 0);
    if (r < 0) {
        free(l);
        return err_sys(e, -r, "look up '%.*s'", STR_ARG(host));
    }
    c->lookup = l;
    loop_timer_after(loop_of(c), &c->timer, c->web->conf.lookup_ms, on_lookup_late);
    return 0;
}

/* --- the request --- */

static int copy_headers(struct image_web_call *c, const struct image_web_spec *spec)
{
    size_t n = spec->header_count;
    struct http_header *rows = arena_new_array(&c->arena, struct http_header, n + 1);

    if (!rows)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        rows[i].name = arena_str(&c->arena, spec->headers[i].name);
        rows[i].value = arena_str(&c->arena, spec->headers[i].value);
        if (!rows[i].name.p || !rows[i].value.p)
            return -ENOMEM;
    }
    if (c->proxy.auth.p && !needs_tunnel(c))
        rows[n++] = (struct http_header){STR("Proxy-Authorization"), c->proxy.auth};
    c->spec.headers = rows;
    c->spec.header_count = n;
    return 0;
}

static int write_target(struct image_web_call *c)
{
    const struct url *u = &c->url;
    bool whole = c->proxy.host.p && u->scheme == URL_HTTP;
    const char *text = arena_printf(&c->arena, "%s%.*s%.*s%s%.*s", whole ? "http://" : "",
                                    STR_ARG(whole ? c->spec.host : STR("")),
                                    STR_ARG(u->path.n ? u->path : STR("/")), u->query.p ? "?" : "",
                                    STR_ARG(u->query.p ? u->query : STR("")));

    c->spec.target = str_of(text);
    return text ? 0 : -ENOMEM;
}

static int prepare(struct image_web_call *c, const struct image_web_spec *spec, struct err *e)
{
    struct str url = arena_str(&c->arena, spec->url);
    int r = url.p ? url_split(url, &c->url, e) : err_set(e, ENOMEM, "the address is too long");

    if (r == 0 && c->url.scheme != URL_HTTP && c->url.scheme != URL_HTTPS)
        r = err_set(e, EINVAL, "expected an address of http or https");
    if (r < 0)
        return r;
    assert(c->url.scheme == URL_HTTP || spec->tls);
    snprintf(c->host, sizeof(c->host), c->url.host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u",
             STR_ARG(c->url.host), c->url.port);
    r = image_proxy_for(&c->web->conf.proxy, &c->url, &c->arena, &c->proxy, e);
    if (r < 0)
        return r;
    c->spec = (struct http_call_spec){
        .tls = c->url.scheme == URL_HTTPS ? spec->tls : NULL,
        .tls_host = c->url.host,
        .method = spec->method,
        .host = str_of(c->host),
        .body = arena_str(&c->arena, spec->body),
        .streams_body = spec->streams_body,
        .body_length = spec->body_length,
        .head_ms = c->web->conf.head_ms,
        .ops = &call_ops,
        .user = c,
    };
    if (c->url.port == (c->url.scheme == URL_HTTPS ? 443 : 80))
        c->spec.host = str_of(
            arena_printf(&c->arena, "%.*s", (int)(strrchr(c->host, ':') - c->host), c->host));
    r = c->spec.host.p && c->spec.body.p ? write_target(c) : -ENOMEM;
    if (r == 0)
        r = copy_headers(c, spec);
    return r < 0 ? err_set(e, ENOMEM, "the request is too long") : 0;
}

/* Connects to an address that is written in numbers; looks up a name first. */
static int begin(struct image_web_call *c, struct err *e)
{
    struct str host = c->proxy.host.p ? c->proxy.host : c->url.host;
    uint16_t port = c->proxy.host.p ? c->proxy.port : c->url.port;
    bool v6 = str_find(host, ':') < host.n;
    const char *text = arena_printf(&c->arena, v6 ? "[%.*s]:%u" : "%.*s:%u", STR_ARG(host), port);

    if (!text)
        return err_set(e, ENOMEM, "the request is too long");
    if (sock_addr_parse(str_of(text), &c->addrs[0], NULL) < 0)
        return look_up(c, host, port, e);
    c->addr_count = 1;
    return connect_next(c, e);
}

int image_web_start(struct image_web *w, const struct image_web_spec *spec,
                    struct image_web_call **ret, struct err *e)
{
    struct image_web_call *c;
    struct arena a;
    int r;

    arena_init(&a, CALL_ARENA_BYTES_MAX);
    c = arena_new(&a, struct image_web_call);
    if (!c)
        return err_set(e, ENOMEM, "out of memory");
    c->arena = a;
    c->web = w;
    c->ops = spec->ops;
    c->user = spec->user;
    c->tunnel_fd = -EBADF;
    r = prepare(c, spec, e);
    if (r == 0) {
        r = begin(c, e);
        if (r < 0)
            r = err_wrap(e, -image_problem_of(-r), "%s", c->host);
    }
    if (r < 0) {
        if (e)
            e->code = -r;
        call_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

void image_web_resume(struct image_web_call *c)
{
    if (!c->http)
        return;
    watch_silence(c);
    http_call_resume(c->http);
}

ssize_t image_web_write(struct image_web_call *c, struct str data)
{
    ssize_t n;

    /* Before there is a connection what is written would only be kept. */
    if (!c->http || !c->spec.streams_body || !http_call_has_sent(c->http))
        return 0;
    n = http_call_write(c->http, data);
    c->written |= n > 0;
    return n;
}

void image_web_write_end(struct image_web_call *c)
{
    if (c->http)
        http_call_write_end(c->http);
}

void *image_web_user(const struct image_web_call *c)
{
    return c->user;
}

const struct h1_response *image_web_head(const struct image_web_call *c)
{
    assert(c->http);
    return &c->http->head;
}

const struct h1_framing *image_web_framing(const struct image_web_call *c)
{
    assert(c->http);
    return &c->http->framing;
}

const char *image_web_host(const struct image_web_call *c)
{
    return c->host;
}

/* --- the web --- */

static uint32_t or_default(uint32_t ms, uint32_t usual_ms)
{
    return ms ? ms : usual_ms;
}

int image_web_new(const struct image_web_conf *conf, struct image_web **ret, struct err *e)
{
    struct image_web *w = mem_new(struct image_web);
    struct http_client_conf client = {0};
    int r;

    w->conf = *conf;
    w->conf.lookup_ms = or_default(conf->lookup_ms, 15 * 1000);
    w->conf.connect_ms = or_default(conf->connect_ms, 10 * 1000);
    w->conf.head_ms = or_default(conf->head_ms, 30 * 1000);
    w->conf.stall_ms = or_default(conf->stall_ms, 30 * 1000);
    client.connect_ms = w->conf.connect_ms;
    r = http_client_new(conf->loop, &client, &w->client, e);
    if (r < 0) {
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

void image_web_free(struct image_web *w)
{
    if (!w)
        return;
    http_client_free(w->client);
    free(w);
}
