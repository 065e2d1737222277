/* httpd.c - the HTTP engine with a route for each of its features, for tests and benchmarks.
 *
 *   usage: httpd ADDRESS [--file PATH] [--backend ADDRESS] [--deadlines MS] [--connections N]
 *                [--ping MS] [--pong MS] [--stall MS] [--held BYTES] [--tls NAME]
 *
 * --tls serves https with the certificate NAME.pem and its key NAME.key; not in static builds.
 * Prints the address it listens on, then serves until SIGTERM, which drains. Without --deadlines
 * the timeouts are long: a test that stalls for a while is not a bad client. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "httpd_uploads.h"
#include "httpd_ws.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#ifdef HTTPD_TLS
#include "net/tls.h"
#endif

enum { PATIENCE_MS = 600 * 1000, DRAIN_MS = 30 * 1000 };

struct httpd {
    struct httpd_ws ws; /* first: its handlers cast to it */
    struct loop *loop;
    struct http_server *server;
    struct loop_signals signals;
    const char *file;
    struct tls_server *tls; /* NULL = plain */
    struct http_client *client;
    struct sock_addr backend; /* of /proxy */
    uint32_t deadline_ms;     /* for it to reply */
    int parts;                /* that have not ended yet */
};

/* --- routes --- */

static void get_json(struct http_req *req)
{
    http_reply(req, 200, STR("application/json"), STR("{\"status\":\"ok\",\"count\":42}"));
}

/* The number of requests the server has read so far, including this one. */
static void get_served(struct http_req *req)
{
    const struct httpd *h = req->server_user;
    struct http_server_stats stats;
    AUTO_BUF(out, 64);

    http_server_stats(h->server, &stats);
    (void)buf_addf(&out, "%llu\n", (unsigned long long)stats.requests);
    http_reply(req, 200, STR("text/plain"), buf_str(&out));
}

static void post_echo(struct http_req *req)
{
    http_reply(req, 200, STR("application/octet-stream"), req->body);
}

static void get_params(struct http_req *req)
{
    struct str a = http_req_param(req, "a"), rest = http_req_param(req, "*");
    AUTO_BUF(out, 64 * 1024);

    (void)buf_addf(&out, "%.*s|%.*s|%.*s\n", STR_ARG(a), STR_ARG(rest), STR_ARG(req->head.query));
    http_reply(req, 200, STR("text/plain"), buf_str(&out));
}

static void get_file(struct http_req *req)
{
    const struct httpd *h = req->server_user;
    int fd = h->file ? fd_open_at(AT_FDCWD, h->file, O_RDONLY, 0, PATH_FREE, NULL) : -ENOENT;

    if (fd < 0)
        http_reply_error(req, 404, NULL, "no file");
    else
        http_reply_file(req, fd, STR("application/octet-stream"));
}

/* Sends `bytes` (query) of zeros as a stream, as fast as the client reads. */
struct flood {
    uint64_t left;
};

static void flood_more(struct http_req *req)
{
    static const char zeros[64 * 1024];
    struct flood *f = req->user;

    while (f->left > 0) {
        ssize_t n = http_reply_write(req, str_make(zeros, min_size(f->left, sizeof(zeros))));

        if (n <= 0)
            return;
        f->left -= (uint64_t)n;
    }
    http_reply_end(req, 0);
}

static const struct http_req_ops flood_ops = {.on_drain = flood_more};

static void get_flood(struct http_req *req)
{
    struct flood *f = arena_new(&req->arena, struct flood);

    if (str_to_u64(req->head.query, &f->left) < 0) {
        http_reply_error(req, 400, NULL, "expected /flood?BYTES");
        return;
    }
    req->user = f;
    req->ops = &flood_ops;
    http_reply_begin(req, 200, STR("application/octet-stream"), HTTP_UNKNOWN_LENGTH);
    flood_more(req);
}

/* Answers after `ms` (query) milliseconds. */
struct nap {
    struct loop_timer timer;
    struct http_req *req;
    struct loop *loop;
};

static void nap_over(struct loop_timer *t)
{
    struct nap *nap = container_of(t, struct nap, timer);

    http_reply(nap->req, 200, STR("text/plain"), STR("slept\n"));
}

static void nap_close(struct http_req *req, int error UNUSED)
{
    struct nap *nap = req->user;

    loop_timer_stop(nap->loop, &nap->timer);
}

static const struct http_req_ops nap_ops = {.on_close = nap_close};

static void get_nap(struct http_req *req)
{
    const struct httpd *h = req->server_user;
    struct nap *nap = arena_new(&req->arena, struct nap);
    uint64_t ms = 0;

    if (str_to_u64_range(req->head.query, 0, 60000, &ms) < 0) {
        http_reply_error(req, 400, NULL, "expected /nap?MILLISECONDS, at most 60000");
        return;
    }
    nap->req = req;
    nap->loop = h->loop;
    req->user = nap;
    req->ops = &nap_ops;
    loop_timer_set(h->loop, &nap->timer, loop_now_ns(h->loop) + ms * 1000000, nap_over);
}

/* Ends in the middle of a promised body. */
static void get_broken(struct http_req *req)
{
    http_reply_begin(req, 200, STR("text/plain"), 1000);
    (void)http_reply_write(req, STR("only this"));
    http_reply_end(req, 0);
}

/* Forwards to --backend, without the /proxy in front. */
static void any_proxy(struct http_req *req)
{
    const struct httpd *h = req->server_user;
    struct http_proxy_target target = {
        .addr = &h->backend,
        .target = str_skip(req->head.target, STR("/proxy").n),
        .head_ms = h->deadline_ms,
    };

    http_proxy_forward(req, h->client, &target);
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD,                          "/proxy/*",      ROUTE_STREAM_BODY, any_proxy,      0   },
    {HTTP_BIT(HTTP_GET),                       "/json",         0,                 get_json,       0   },
    {HTTP_BIT(HTTP_GET),                       "/served",       0,                 get_served,     0   },
    {HTTP_BIT(HTTP_POST) | HTTP_BIT(HTTP_PUT), "/echo",         0,                 post_echo,      0   },
    {HTTP_BIT(HTTP_POST),                      "/small",        0,                 post_echo,      1024},
    {HTTP_BIT(HTTP_GET),                       "/params/{a}/*", 0,                 get_params,     0   },
    {HTTP_BIT(HTTP_GET),                       "/file",         0,                 get_file,       0   },
    {HTTP_BIT(HTTP_POST) | HTTP_BIT(HTTP_PUT), "/upload",       ROUTE_STREAM_BODY, httpd_count,    0   },
    {HTTP_BIT(HTTP_POST),                      "/limited",      ROUTE_STREAM_BODY, httpd_count,    1024},
    {HTTP_BIT(HTTP_POST),                      "/refuse",       ROUTE_STREAM_BODY, httpd_refuse,   0   },
    {HTTP_BIT(HTTP_POST),                      "/early",        ROUTE_STREAM_BODY, httpd_early,    0   },
    {HTTP_BIT(HTTP_POST),                      "/sip",          ROUTE_STREAM_BODY, httpd_sip,      0   },
    {HTTP_BIT(HTTP_POST),                      "/form",         ROUTE_STREAM_BODY, httpd_form,     0   },
    {HTTP_BIT(HTTP_GET),                       "/flood",        0,                 get_flood,      0   },
    {HTTP_BIT(HTTP_GET),                       "/nap",          0,                 get_nap,        0   },
    {HTTP_BIT(HTTP_GET),                       "/broken",       0,                 get_broken,     0   },
    {HTTP_BIT(HTTP_GET),                       "/ws/echo",      0,                 httpd_ws_echo,  0   },
    {HTTP_BIT(HTTP_GET),                       "/ws/flood",     0,                 httpd_ws_flood, 0   },
    {HTTP_BIT(HTTP_GET),                       "/ws/sink",      0,                 httpd_ws_sink,  0   },
    {HTTP_BIT(HTTP_GET),                       "/ws/close",     0,                 httpd_ws_close, 0   },
    {HTTP_BIT(HTTP_GET),                       "/ws/dial",      0,                 httpd_ws_dial,  0   },
};

/* --- the program --- */

/* Requests and WebSockets are both finished before the program ends. */
static void httpd_part_ended(struct httpd *h)
{
    if (--h->parts == 0)
        loop_stop(h->loop);
}

static void on_drained(void *user)
{
    httpd_part_ended(user);
}

static void on_ws_closed(struct httpd_ws *w)
{
    httpd_part_ended(container_of(w, struct httpd, ws));
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    struct httpd *h = container_of(s, struct httpd, signals);

    if (h->parts) /* already ending */
        return;
    h->parts = 2;
    http_server_drain(h->server, DRAIN_MS, on_drained, h);
    httpd_ws_close_all(&h->ws, on_ws_closed);
}

static int httpd_use_tls(struct httpd *h, const char *name, struct http_server_conf *conf,
                         struct err *e)
{
#ifdef HTTPD_TLS
    char cert[PATH_MAX], key[PATH_MAX];
    int r;

    (void)snprintf(cert, sizeof(cert), "%s.pem", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    r = tls_server_new(&(struct tls_server_conf){cert, key, NULL}, &h->tls, e);
    if (r == 0)
        conf->tls = tls_server_security(h->tls);
    return r;
#else
    (void)h, (void)name, (void)conf;
    return err_set(e, ENOTSUP, "--tls: built without TLS");
#endif
}

static void httpd_tls_done(struct httpd *h UNUSED)
{
#ifdef HTTPD_TLS
    tls_server_free(h->tls);
#endif
}

static int httpd_parse(int argc, char **argv, struct httpd *h, struct http_server_conf *conf,
                       struct sock_addr *addr, struct err *e)
{
    uint32_t n;

    if (argc < 2 || sock_addr_parse(str_of(argv[1]), addr, e) < 0)
        return err_set(e, EINVAL, "usage: httpd ADDRESS [--file PATH] [--deadlines MS] ...");
    for (int i = 2; i + 1 < argc; i += 2) {
        struct str option = str_of(argv[i]);

        if (str_eq(option, STR("--file")))
            h->file = argv[i + 1];
        else if (str_eq(option, STR("--tls"))) {
            if (httpd_use_tls(h, argv[i + 1], conf, e) < 0)
                return -EINVAL;
        } else if (str_eq(option, STR("--backend"))) {
            if (sock_addr_parse(str_of(argv[i + 1]), &h->backend, e) < 0)
                return -EINVAL;
        } else if (str_to_u32(str_of(argv[i + 1]), &n) < 0)
            return err_set(e, EINVAL, "%s: not a number: %s", argv[i], argv[i + 1]);
        else if (str_eq(option, STR("--deadlines")))
            conf->head_ms = conf->body_ms = conf->idle_ms = conf->stall_ms = h->deadline_ms = n;
        else if (str_eq(option, STR("--stall")))
            h->ws.conf.stall_ms = n;
        else if (str_eq(option, STR("--ping")))
            h->ws.conf.ping_ms = n;
        else if (str_eq(option, STR("--pong")))
            h->ws.conf.pong_ms = n;
        else if (str_eq(option, STR("--connections")))
            conf->connections_max = n;
        else if (str_eq(option, STR("--held")))
            conf->held_bytes_max = n;
        else
            return err_set(e, EINVAL, "unknown option %s", argv[i]);
    }
    return 0;
}

static int httpd_start(struct httpd *h, const struct http_server_conf *conf,
                       const struct sock_addr *addr, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr local;
    sigset_t set;
    int fd, r;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    r = loop_new(&h->loop, e);
    if (r == 0)
        r = loop_signals_start(h->loop, &h->signals, &set, on_signal, e);
    if (r == 0)
        r = http_client_new(h->loop, &(struct http_client_conf){0}, &h->client, e);
    h->ws.client = h->client;
    if (r == 0)
        r = http_server_new(h->loop, conf, &h->server, e);
    if (r < 0)
        return r;
    fd = sock_listen(addr, 4096, e);
    if (fd < 0)
        return fd;
    r = sock_local_addr(fd, &local);
    if (r == 0)
        r = http_server_listen(h->server, fd, e);
    if (r < 0)
        return r;
    sock_addr_format(&local, text);
    printf("%s\n", text);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct httpd h = {0};
    struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = &h,
        .connections_max = 20000,
        .head_ms = PATIENCE_MS,
        .body_ms = PATIENCE_MS,
        .idle_ms = PATIENCE_MS,
        .stall_ms = PATIENCE_MS,
    };
    struct sock_addr addr;
    struct err e = {0};
    int r;

    httpd_ws_init(&h.ws);
    r = httpd_parse(argc, argv, &h, &conf, &addr, &e);

    if (r == 0)
        r = httpd_start(&h, &conf, &addr, &e);
    if (r == 0)
        r = loop_run(h.loop, &e);
    if (r < 0)
        fprintf(stderr, "httpd: %s\n", e.msg);
    if (h.loop)
        httpd_ws_done(&h.ws, h.loop);
    http_server_free(h.server);
    http_client_free(h.client);
    httpd_tls_done(&h);
    if (h.signals.loop)
        loop_signals_stop(&h.signals);
    loop_free(h.loop);
    return r < 0;
}
