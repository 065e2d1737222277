/* admin.c - /metrics, /healthz and /readyz, at an address of their own. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "ingress/ingress.h"

enum { METRICS_BYTES_MAX = 1 << 20, LAG_MAX_S = 60, CONNECTIONS_MAX = 64 };

struct admin {
    struct http_server *server;
};

static uint64_t resident_bytes(void)
{
    AUTO_BUF(text, 256);
    struct str rest, field;
    uint64_t pages = 0;

    if (io_read_file(AT_FDCWD, "/proc/self/statm", 256, &text, NULL) < 0)
        return 0;
    rest = buf_str(&text);
    (void)str_cut(&rest, ' ', &field);
    (void)str_cut(&rest, ' ', &field);
    (void)str_to_u64(field, &pages);
    return pages * 4096;
}

static void handle_metrics(struct http_req *req)
{
    struct ingress *g = req->server_user;
    struct metrics **all = mem_new_array(struct metrics *, g->worker_count);
    struct intents_stats intents = {0};
    struct rusage usage = {0};
    struct metrics_rest rest = {
        .sandboxes = places_count(&g->places),
        .watch_lag_s = watch_lag_s(g->watch),
        .memory_bytes = resident_bytes(),
        .draining = atomic_load(&g->draining),
    };
    AUTO_BUF(text, METRICS_BYTES_MAX);

    (void)getrusage(RUSAGE_SELF, &usage);
    rest.cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    if (g->intents) {
        intents_stats(g->intents, &intents);
        rest.intents = &intents;
    }
    for (size_t i = 0; i < g->worker_count; i++)
        all[i] = &g->workers[i].metrics;
    if (metrics_write(&text, all, g->worker_count, &rest) < 0)
        http_reply_error(req, 503, NULL, "out of memory for this request");
    else
        http_reply(req, 200, STR("text/plain; version=0.0.4; charset=utf-8"), buf_str(&text));
    free(all);
}

static void handle_health(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain"), STR("ok\n"));
}

static void handle_ready(struct http_req *req)
{
    struct ingress *g = req->server_user;

    if (atomic_load(&g->draining))
        http_reply(req, 503, STR("text/plain"), STR("it ends\n"));
    else if (g->watch && !watch_is_synced(g->watch))
        http_reply(req, 503, STR("text/plain"),
                   STR("the first list of sandboxes is not complete\n"));
    else if (watch_lag_s(g->watch) > LAG_MAX_S)
        http_reply(req, 503, STR("text/plain"), STR("the watch of sandboxes is out of step\n"));
    else
        http_reply(req, 200, STR("text/plain"), STR("ok\n"));
}

static const struct http_route routes[] = {
    {HTTP_BIT(HTTP_GET), "/metrics", 0, handle_metrics},
    {HTTP_BIT(HTTP_GET), "/healthz", 0, handle_health },
    {HTTP_BIT(HTTP_GET), "/readyz",  0, handle_ready  },
};

int admin_start(struct ingress *g, struct admin **ret, struct sock_addr *ret_addr, struct err *e)
{
    struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = g,
        .connections_max = CONNECTIONS_MAX,
    };
    struct admin *a = mem_new(struct admin);
    struct sock_addr addr;
    int fd, r = sock_addr_parse(str_of(g->options.metrics_address), &addr, e);

    if (r == 0)
        r = http_server_new(g->loop, &conf, &a->server, e);
    fd = r < 0 ? r : sock_listen(&addr, CONNECTIONS_MAX, e);
    if (fd >= 0) {
        (void)sock_local_addr(fd, ret_addr);
        r = http_server_listen(a->server, fd, e);
    }
    if (fd < 0 || r < 0) {
        admin_stop(a);
        return fd < 0 ? fd : r;
    }
    *ret = a;
    return 0;
}

void admin_stop(struct admin *a)
{
    if (!a)
        return;
    http_server_free(a->server);
    free(a);
}
