/* gatewayd.c - guard and gateway in front of a fixed table of sandboxes, for tests and benchmarks.
 *
 *   usage: gatewayd ADDRESS [--key KEY] [--sandbox ID=ADDRESS] [--token TOKEN] [--refusal TEXT]
 *                   [--secure 1] [--open 1] [--deadlines MS] [--domain NAME]
 *
 * --token, --refusal and --secure apply to the preceding --sandbox. A signed route is
 * "signed-ID-PORT" here. GET /stats returns counters. Prints the address it listens on, then serves
 * until SIGTERM, which drains. */
#include <errno.h>
#include <stdio.h>

#include "server/gateway/gateway.h"
#include "server/gateway/host_route.h"
#include "server/http/guard.h"

enum { SANDBOXES_MAX = 512 };

struct fake_sandbox {
    struct str id, token;
    const char *refusal;
    bool secure;
    struct sock_addr addr;
    uint64_t accesses;
};

struct gatewayd {
    struct guard guard;
    struct loop *loop;
    struct http_server *server;
    struct gateway *gateway;
    struct loop_signals signals;
    struct fake_sandbox sandboxes[SANDBOXES_MAX];
    size_t sandbox_count;
    bool open;
    const char *domain;
};

/* --- callbacks of the gateway --- */

static const struct principal *find_api_key(void *user, struct str key)
{
    const struct gatewayd *d = user;

    return guard_find_key(&d->guard, key);
}

static bool holds_api_key(void *user, struct str text)
{
    const struct gatewayd *d = user;

    return guard_holds_key(&d->guard, text);
}

static bool is_signed(void *user UNUSED, struct str id, uint16_t port, struct str token)
{
    AUTO_BUF(right, 256);

    return buf_addf(&right, "signed-%.*s-%u", STR_ARG(id), port) == 0 &&
           str_eq_secret(token, buf_str(&right));
}

static struct fake_sandbox *find_sandbox(struct gatewayd *d, struct str id)
{
    for (size_t i = 0; i < d->sandbox_count; i++)
        if (str_eq(d->sandboxes[i].id, id))
            return &d->sandboxes[i];
    return NULL;
}

static bool find(void *user, struct str id, struct gateway_target *ret)
{
    const struct fake_sandbox *s = find_sandbox(user, id);

    if (s)
        *ret = (struct gateway_target){
            .addr = s->addr, .token = s->token, .secure = s->secure, .refusal = s->refusal};
    return s != NULL;
}

/* "ticket-8000" opens that port of the first sandbox. */
static bool find_preview(void *user, struct str ticket, struct str *ret_sandbox_id,
                         uint16_t *ret_port)
{
    const struct gatewayd *d = user;
    const struct str prefix = STR("ticket-");

    *ret_sandbox_id = d->sandboxes[0].id;
    return str_starts(ticket, prefix) && str_to_u16(str_skip(ticket, prefix.n), ret_port) == 0;
}

static void on_access(void *user, struct str id)
{
    find_sandbox(user, id)->accesses++;
}

/* --- routes --- */

static bool on_request(struct http_req *req)
{
    const struct gatewayd *d = req->server_user;

    return host_route_apply(req, gateway_domain(d->gateway)) == 0 && guard_admit(&d->guard, req);
}

static void any_proxy(struct http_req *req)
{
    const struct gatewayd *d = req->server_user;

    gateway_serve(d->gateway, req);
}

static void get_health(struct http_req *req)
{
    http_reply(req, 200, STR("application/json"), STR("{\"status\":\"healthy\"}"));
}

static void get_stats(struct http_req *req)
{
    const struct gatewayd *d = req->server_user;
    struct gateway_stats s;
    AUTO_BUF(out, 256);

    gateway_stats(d->gateway, &s);
    (void)buf_addf(
        &out,
        "{\"forwarded\":%llu,\"refused\":%llu,\"failed\":%llu,\"accesses\":%llu,\"tunnels\":%zu}",
        (unsigned long long)s.forwarded, (unsigned long long)s.refused,
        (unsigned long long)s.failed, (unsigned long long)d->sandboxes[0].accesses, s.tunnels);
    http_reply(req, 200, STR("application/json"), buf_str(&out));
}

#define PROXY_ROW(path)                                                                            \
    {                                                                                              \
        HTTP_ANY_METHOD, path, ROUTE_STREAM_BODY, any_proxy, 0                                     \
    }

static const struct http_route routes[] = {
    PROXY_ROW("/sandboxes/{sandboxId}/proxy/{port}"),
    PROXY_ROW("/sandboxes/{sandboxId}/proxy/{port}/*"),
    PROXY_ROW("/v1/sandboxes/{sandboxId}/proxy/{port}"),
    PROXY_ROW("/v1/sandboxes/{sandboxId}/proxy/{port}/*"),
    PROXY_ROW("/preview/{ticket}"),
    PROXY_ROW("/preview/{ticket}/*"),
    {HTTP_BIT(HTTP_GET), "/health", 0, get_health, 0},
    {HTTP_BIT(HTTP_GET), "/stats",  0, get_stats,  0},
};

/* --- the program --- */

static void on_drained(void *user)
{
    loop_stop(((struct gatewayd *)user)->loop);
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    struct gatewayd *d = container_of(s, struct gatewayd, signals);

    http_server_drain(d->server, 1000, on_drained, d);
}

static int add_sandbox(struct gatewayd *d, struct str text, struct err *e)
{
    struct str id = STR_NONE;

    if (d->sandbox_count == SANDBOXES_MAX)
        return err_set(e, ENOSPC, "more than %d sandboxes", SANDBOXES_MAX);
    str_cut(&text, '=', &id);
    d->sandboxes[d->sandbox_count].id = id;
    return sock_addr_parse(text, &d->sandboxes[d->sandbox_count++].addr, e);
}

static int take_option(struct gatewayd *d, struct http_server_conf *conf, struct str option,
                       const char *value, struct err *e)
{
    struct fake_sandbox *last = &d->sandboxes[d->sandbox_count ? d->sandbox_count - 1 : 0];
    uint32_t ms;

    if (str_eq(option, STR("--key")) && d->guard.key_count < GUARD_KEYS_MAX)
        guard_add_key(&d->guard, str_of(value));
    else if (str_eq(option, STR("--sandbox")))
        return add_sandbox(d, str_of(value), e);
    else if (str_eq(option, STR("--token")))
        last->token = str_of(value);
    else if (str_eq(option, STR("--refusal")))
        last->refusal = value;
    else if (str_eq(option, STR("--secure")))
        last->secure = true;
    else if (str_eq(option, STR("--domain")))
        d->domain = value;
    else if (str_eq(option, STR("--open")))
        d->open = true;
    else if (str_eq(option, STR("--deadlines")) && str_to_u32(str_of(value), &ms) == 0)
        conf->body_ms = conf->idle_ms = conf->stall_ms = ms;
    else
        return err_set(e, EINVAL, "what is %.*s %s?", STR_ARG(option), value);
    return 0;
}

static int gatewayd_listen(struct gatewayd *d, const struct sock_addr *addr, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr local;
    int fd = sock_listen(addr, 4096, e);
    int r = fd < 0 ? fd : sock_local_addr(fd, &local);

    if (r == 0)
        r = http_server_listen(d->server, fd, e);
    if (r < 0)
        return r;
    sock_addr_format(&local, text);
    printf("%s\n", text);
    fflush(stdout);
    return 0;
}

static int gatewayd_start(struct gatewayd *d, const struct http_server_conf *conf, struct err *e)
{
    struct gateway_conf gate = {
        .open = d->open,
        .find_api_key = find_api_key,
        .holds_api_key = holds_api_key,
        .is_signed = is_signed,
        .find_preview = find_preview,
        .find = find,
        .on_access = on_access,
        .domain = d->domain,
        .user = d,
    };
    sigset_t set;
    int r = loop_new(&d->loop, e);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    gate.loop = d->loop;
    if (r == 0)
        r = loop_signals_start(d->loop, &d->signals, &set, on_signal, e);
    if (r == 0)
        r = gateway_new(&gate, &d->gateway, e);
    if (r == 0)
        r = http_server_new(d->loop, conf, &d->server, e);
    return r;
}

int main(int argc, char **argv)
{
    static struct gatewayd d;
    struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = &d,
        .on_request = on_request,
        .on_refuse = guard_refuse,
        .connections_max = 20000,
        .head_ms = 120 * 1000, /* tests do not cover clients that stall before a request */
    };
    struct sock_addr addr;
    struct err e = {0};
    int r = argc < 2 ? err_set(&e, EINVAL, "usage: gatewayd ADDRESS [--key KEY] ...")
                     : sock_addr_parse(str_of(argv[1]), &addr, &e);

    for (int i = 2; r == 0 && i + 1 < argc; i += 2)
        r = take_option(&d, &conf, str_of(argv[i]), argv[i + 1], &e);
    if (r == 0)
        r = gatewayd_start(&d, &conf, &e);
    if (r == 0)
        r = gatewayd_listen(&d, &addr, &e);
    if (r == 0)
        r = loop_run(d.loop, &e);
    if (r < 0)
        fprintf(stderr, "gatewayd: %s\n", e.msg);
    http_server_free(d.server);
    gateway_free(d.gateway);
    if (d.signals.loop)
        loop_signals_stop(&d.signals);
    loop_free(d.loop);
    return r < 0;
}
