/* cmd_forward.c - osb port-forward: a local port that leads to one of a sandbox.
 *
 * The way into a sandbox is HTTP, and so is what is forwarded: requests and WebSockets. */
#include "osb/commands.h"

#include <errno.h>
#include <signal.h>

#include "net/http_proxy.h"
#include "net/loop.h"
#include "net/sock.h"
#include "net/tls.h"

enum { HEADERS_MAX = 16, CONNECTIONS_MAX = 1000, DRAIN_MS = 1000 };

struct forward {
    struct loop *loop;
    struct http_server *server;
    struct http_client *client;
    struct http_tunnels tunnels;
    struct loop_signals signals;
    struct tls_client *tls;     /* NULL = http */
    struct sock_addr addr;      /* of the endpoint */
    struct str authority, name; /* of it: with its port, and without port and brackets */
    struct str prefix;          /* of its paths, without a slash at the end */
    struct http_header headers[HEADERS_MAX];
    size_t header_count;
};

static void any_request(struct http_req *req)
{
    struct forward *f = req->server_user;
    char *target =
        arena_printf(&req->arena, "%.*s%.*s", STR_ARG(f->prefix), STR_ARG(req->head.target));
    /* What is behind TLS, or has no path to be known by, is often known by its name. Otherwise the
     * program inside sees the address that the user wrote. */
    bool by_name = f->tls || f->prefix.n == 0;
    struct http_proxy_target to = {
        .addr = &f->addr,
        .tls = f->tls ? tls_client_security(f->tls) : NULL,
        .tls_host = f->name,
        .host = by_name ? f->authority : STR_NONE,
        .target = str_of(target),
        .headers = f->headers,
        .header_count = f->header_count,
        .tunnels = &f->tunnels,
    };

    http_proxy_forward(req, f->client, &to);
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD, "/",  ROUTE_STREAM_BODY, any_request, 0},
    {HTTP_ANY_METHOD, "/*", ROUTE_STREAM_BODY, any_request, 0},
};

static void on_drained(void *user)
{
    struct forward *f = user;

    http_tunnels_cut(&f->tunnels);
    loop_stop(f->loop);
}

static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    struct forward *f = container_of(s, struct forward, signals);

    http_server_drain(f->server, DRAIN_MS, on_drained, f);
}

static bool is_https(struct cli *cli)
{
    return str_starts(str_of(osb_client_base_url(cli->client)), STR("https:"));
}

/* Looks the address of the endpoint up: "host", "host:port", "[::1]:port". */
static int find_address(struct cli *cli, struct forward *f)
{
    struct str host = f->authority, number = STR_NONE;
    size_t bracket = str_find(host, ']'), from = bracket < host.n ? bracket : 0;
    size_t colon = from + str_find(str_skip(host, from), ':');
    uint16_t port = is_https(cli) ? 443 : 80;
    struct err e = {0};

    if (colon < host.n) {
        number = str_skip(host, colon + 1);
        host.n = colon;
    }
    if (str_starts(host, STR("[")) && str_ends(host, STR("]")))
        host = str_make(host.p + 1, host.n - 2);
    f->name = str_of(arena_strdup(&cli->arena, host));
    if ((number.p && str_to_u16(number, &port) < 0) ||
        sock_resolve(f->name.p, port, &f->addr, &e) < 0)
        return cli_error(cli, "Endpoint", "%.*s: %s", STR_ARG(f->authority),
                         e.msg[0] ? e.msg : "its port is no number");
    return 0;
}

/* "host:port/path" and the headers that requests must carry. */
static int read_endpoint(struct cli *cli, struct forward *f, uint16_t port)
{
    struct osb_answer *answer = NULL;
    struct str rest;
    const char *text;

    if (osb_endpoint_get(cli->client, cli_argument(cli, 0), port, &answer) < 0)
        return cli_failed(cli);
    text = osb_answer_text(answer, "endpoint");
    rest = str_of(arena_strdup(&cli->arena, str_of(text ? text : "")));
    str_cut(&rest, '/', &f->authority);
    if (rest.p)
        f->prefix = str_make(rest.p - 1, rest.n + 1);
    for (size_t i = 0; i < osb_answer_count(answer, "headers") && i < HEADERS_MAX; i++) {
        const char *name = osb_answer_key(answer, "headers", i);
        const char *path = arena_printf(&cli->arena, "headers.\"%s\"", name);

        f->headers[f->header_count++] = (struct http_header){
            .name = str_of(arena_strdup(&cli->arena, str_of(name))),
            .value = str_of(arena_strdup(&cli->arena, str_of(osb_answer_text(answer, path)))),
        };
    }
    osb_answer_free(answer);
    return find_address(cli, f);
}

static int listen_on(struct cli *cli, struct forward *f, uint16_t local, uint16_t remote)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr addr;
    struct err e = {0};
    const char *wanted = arena_printf(&cli->arena, "127.0.0.1:%u", local);
    int fd, r = sock_addr_parse(str_of(wanted), &addr, &e);

    fd = r < 0 ? r : sock_listen(&addr, 128, &e);
    r = fd < 0 ? fd : sock_local_addr(fd, &addr);
    if (r == 0)
        r = http_server_listen(f->server, fd, &e);
    if (r < 0)
        return cli_error(cli, "Port", "%s", e.msg);
    sock_addr_format(&addr, text);
    printf("http://%s -> port %u of %s\n", text, remote, cli_argument(cli, 0));
    (void)fflush(stdout);
    return 0;
}

static int serve(struct cli *cli, struct forward *f, uint16_t local, uint16_t remote)
{
    struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = f,
        .connections_max = CONNECTIONS_MAX,
    };
    struct http_client_conf client = {0};
    struct tls_client_conf tls = {.and_system = true};
    struct err e = {0};
    sigset_t set;
    int r = loop_new(&f->loop, &e);

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    http_tunnels_init(&f->tunnels);
    if (r == 0)
        r = loop_signals_start(f->loop, &f->signals, &set, on_signal, &e);
    if (r == 0 && is_https(cli))
        r = tls_client_new(&tls, &f->tls, &e);
    if (r == 0)
        r = http_client_new(f->loop, &client, &f->client, &e);
    if (r == 0)
        r = http_server_new(f->loop, &conf, &f->server, &e);
    if (r < 0)
        return cli_error(cli, "Port", "%s", e.msg);
    r = listen_on(cli, f, local, remote);
    if (r)
        return r;
    return loop_run(f->loop, &e) < 0 ? cli_error(cli, "Port", "%s", e.msg) : EXIT_OK;
}

int port_forward(struct cli *cli)
{
    struct str rest = str_of(cli_argument(cli, 1)), first;
    struct forward f = {.prefix = STR("")};
    uint16_t local, remote;
    int r;

    str_cut(&rest, ':', &first);
    if (str_to_u16(first, &local) < 0 || str_to_u16(rest.p ? rest : first, &remote) < 0 ||
        remote == 0) {
        cli_error(cli, "Usage", "'%s' is no port. Write 8000, or LOCAL:REMOTE, 0:8000 for any.",
                  cli_argument(cli, 1));
        return EXIT_USAGE;
    }
    r = read_endpoint(cli, &f, remote);
    if (r == 0)
        r = serve(cli, &f, local, remote);
    http_server_free(f.server);
    http_client_free(f.client);
    tls_client_free(f.tls);
    if (f.signals.loop)
        loop_signals_stop(&f.signals);
    loop_free(f.loop);
    return r;
}
