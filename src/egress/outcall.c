#include "egress/outcall.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/url.h"
#include "egress/dns/message.h"
#include "net/http_client.h"
#include "net/tls.h"

enum { TEXT_BYTES_MAX = 16 * 1024, BODY_BYTES_MAX = 4 << 20, QUERY_MAX = 512 };

struct outcall {
    struct outcall_conf conf;
    struct arena arena;
    struct url url;
    struct str target, host;
    bool is_numeric;
    struct http_client *client;
    struct tls_client *tls;
    struct sock_addr addr; /* size 0: not known */
    struct loop_timer timer;
    struct loop_task task;
    struct buf body;
    struct dns_query asked;
    struct dns_ask *ask;
    struct http_call *call;
    outcall_done_fn *done; /* NULL: no request is under way */
    void *user;
    int family, status;
};

static void finish_now(struct loop_task *task)
{
    struct outcall *c = container_of(task, struct outcall, task);
    outcall_done_fn *done = c->done;

    c->done = NULL;
    buf_clear(&c->body);
    if (done)
        done(c->user, c->status);
}

static void finish(struct outcall *c, int status)
{
    loop_timer_stop(c->conf.loop, &c->timer);
    c->status = status;
    if (status < 0 && !c->is_numeric)
        c->addr.size = 0; /* another address may answer */
    loop_defer(c->conf.loop, &c->task, finish_now);
}

/* --- the request --- */

static ssize_t on_body(struct http_call *call UNUSED, struct str piece)
{
    return (ssize_t)piece.n;
}

static void on_end(struct http_call *call, int error)
{
    struct outcall *c = call->user;

    c->call = NULL;
    finish(c, error ? -error : call->head.status);
}

static void send_now(struct outcall *c)
{
    static const struct http_call_ops ops = {.on_body = on_body, .on_end = on_end};
    const struct http_header headers[] = {
        {STR("Content-Type"), c->conf.type             },
        {STR("User-Agent"),   STR("opensandbox-egress")},
    };
    const struct http_call_spec spec = {
        .addr = &c->addr,
        .tls = c->tls ? tls_client_security(c->tls) : NULL,
        .tls_host = c->url.host,
        .method = HTTP_POST,
        .target = c->target,
        .host = c->host,
        .headers = headers,
        .header_count = ARRAY_LEN(headers),
        .body = buf_str(&c->body),
        .head_ms = c->conf.timeout_ms,
        .ops = &ops,
        .user = c,
    };
    struct err e = {0};
    int r = http_call_start(c->client, &spec, &c->call, &e);

    if (r < 0)
        finish(c, r);
}

/* --- the name --- */

static int take_record(void *user, const struct dns_record *record)
{
    struct outcall *c = user;

    if (record->family != c->family || c->addr.size)
        return 0;
    if (record->family == AF_INET) {
        c->addr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(c->url.port)};
        memcpy(&c->addr.v4.sin_addr, record->addr, 4);
        c->addr.size = sizeof(c->addr.v4);
    } else {
        c->addr.v6 =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(c->url.port)};
        memcpy(&c->addr.v6.sin6_addr, record->addr, 16);
        c->addr.size = sizeof(c->addr.v6);
    }
    return 0;
}

static void look_up(struct outcall *c, int family);

static void on_answer(void *user, struct str answer)
{
    struct outcall *c = user;

    c->ask = NULL;
    if (answer.p)
        (void)dns_answer_read(answer, answer, &c->asked, take_record, c);
    if (c->addr.size)
        send_now(c);
    else if (c->family == AF_INET)
        look_up(c, AF_INET6);
    else
        finish(c, -EHOSTUNREACH);
}

static void look_up(struct outcall *c, int family)
{
    char query[QUERY_MAX];
    size_t n =
        dns_query_write(c->url.host, family == AF_INET ? DNS_A : DNS_AAAA, query, sizeof(query));

    c->family = family;
    if (n && dns_query_read(str_make(query, n), &c->asked) == 0)
        c->ask = dns_forward_ask(c->conf.forward, str_make(query, n), false, on_answer, c);
    if (!c->ask)
        finish(c, -EHOSTUNREACH);
}

static void on_timeout(struct loop_timer *timer)
{
    struct outcall *c = container_of(timer, struct outcall, timer);

    if (c->ask)
        dns_ask_cancel(c->ask);
    if (c->call)
        http_call_cancel(c->call);
    c->ask = NULL;
    c->call = NULL;
    finish(c, -ETIMEDOUT);
}

int outcall_post(struct outcall *c, struct str body, outcall_done_fn *done, void *user)
{
    int r;

    if (c->done)
        return -EBUSY;
    r = buf_add(&c->body, body);
    if (r < 0)
        return r;
    c->done = done;
    c->user = user;
    loop_timer_after(c->conf.loop, &c->timer, c->conf.timeout_ms, on_timeout);
    if (c->addr.size)
        send_now(c);
    else
        look_up(c, AF_INET);
    return 0;
}

/* --- life --- */

static int read_url(struct outcall *c, const struct outcall_conf *conf, struct err *e)
{
    char *copy = arena_strdup(&c->arena, conf->url);
    struct str path;
    int r = copy ? url_split(str_of(copy), &c->url, e) : -ENOMEM;

    if (r < 0)
        return r;
    if (c->url.scheme != URL_HTTP && c->url.scheme != URL_HTTPS)
        return err_set(e, EINVAL, "it is not an http or https URL");
    path = c->url.path;
    if (conf->more_path.n && str_ends(path, STR("/")))
        path.n--;
    c->target =
        str_of(arena_printf(&c->arena, "%.*s%.*s%s%s%.*s", STR_ARG(path), STR_ARG(conf->more_path),
                            path.n == 0 && conf->more_path.n == 0 ? "/" : "",
                            c->url.query.p ? "?" : "", STR_ARG(c->url.query)));
    c->host = str_of(arena_printf(&c->arena, c->url.host_is_ipv6 ? "[%.*s]:%u" : "%.*s:%u",
                                  STR_ARG(c->url.host), c->url.port));
    c->conf.type = arena_str(&c->arena, conf->type);
    return 0;
}

/* An address needs no lookup. */
static void read_address(struct outcall *c)
{
    struct sock_addr addr;

    if (sock_addr_parse(c->host, &addr, NULL) == 0) {
        c->addr = addr;
        c->is_numeric = true;
    }
}

int outcall_new(const struct outcall_conf *conf, struct outcall **ret, struct err *e)
{
    struct outcall *c = mem_new(struct outcall);
    const struct http_client_conf client = {
        .connect_ms = conf->timeout_ms, .on_socket = conf->on_socket, .user = conf->user};
    const struct tls_client_conf tls = {0};
    int r;

    c->conf = *conf;
    arena_init(&c->arena, TEXT_BYTES_MAX);
    buf_init(&c->body, BODY_BYTES_MAX);
    r = read_url(c, conf, e);
    if (r == 0 && c->url.scheme == URL_HTTPS)
        r = tls_client_new(&tls, &c->tls, e);
    if (r == 0)
        r = http_client_new(conf->loop, &client, &c->client, e);
    if (r < 0) {
        outcall_free(c);
        return r;
    }
    read_address(c);
    *ret = c;
    return 0;
}

void outcall_free(struct outcall *c)
{
    if (!c)
        return;
    c->done = NULL;
    loop_timer_stop(c->conf.loop, &c->timer);
    if (c->ask)
        dns_ask_cancel(c->ask);
    if (c->call)
        http_call_cancel(c->call);
    if (c->client)
        http_client_free(c->client);
    loop_settle(c->conf.loop);
    tls_client_free(c->tls);
    buf_done(&c->body);
    arena_done(&c->arena);
    free(c);
}
