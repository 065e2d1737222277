/* intercept.c - finds out what a redirected connection carries, whether the policy allows it, and
 * hands it to the HTTP server or to a tunnel.
 *
 *   accepted --> first bytes (peeked at, not read) --> TLS, HTTP --> HTTP server --> flow.c
 *                                               `--> passes     --> tunnel
 *
 * The bytes stay in the socket, so whatever serves the connection begins at its beginning. */
#include "egress/intercept/intercept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "egress/intercept/intercept_internal.h"
#include "net/relay.h"

enum {
    FIRST_BYTES_MS = 10 * 1000, /* to know what a connection is */
    CONNECT_MS = 10 * 1000,
    HEAD_MS = 10 * 60 * 1000, /* a model may think for minutes */
    SWEEP_MS = 20,
    KEPT_MAX = 1024,
};

/* --- events --- */

void icpt_event(struct intercept_box *b, const struct intercept_event *event)
{
    const struct intercept_conf *conf = &b->intercept->conf;

    if (conf->event && !b->detached)
        conf->event(conf->user, b->sandbox, event);
}

void icpt_deny(struct intercept_box *b, struct str host, struct str method, struct str path,
               const char *reason)
{
    b->stats.denied++;
    icpt_event(
        b,
        &(struct intercept_event){
            .kind = "egress.deny", .host = host, .method = method, .path = path, .reason = reason});
}

/* --- connections --- */

static void conn_free(struct icpt_conn *c)
{
    struct loop *loop = c->box->intercept->conf.loop;

    loop_timer_stop(loop, &c->deadline);
    if (c->io.fd >= 0)
        loop_io_stop(loop, &c->io);
    fd_close(c->fd);
    fd_close(c->upstream);
    list_remove(&c->link);
    c->box->stats.open--;
    free(c);
}

/* The client sees a reset: nothing was said to it. */
static void conn_refuse(struct icpt_conn *c)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    conn_free(c);
}

static void conn_on_deadline(struct loop_timer *t)
{
    conn_refuse(container_of(t, struct icpt_conn, deadline));
}

static void conn_on_gone(void *user)
{
    conn_free(user);
}

/* --- tunnels --- */

static void tunnel_on_done(void *user, const struct relay_result *result UNUSED)
{
    conn_free(user);
}

static struct stream_parts plain_parts(int fd)
{
    struct stream_parts parts = {.fd = fd, .transport = &stream_plain};

    buf_init(&parts.in, 0);
    buf_init(&parts.out, 0);
    return parts;
}

static void tunnel_on_connected(struct loop_io *io, uint32_t events UNUSED)
{
    struct icpt_conn *c = container_of(io, struct icpt_conn, io);
    struct loop *loop = c->box->intercept->conf.loop;
    struct relay_conf conf = {.on_done = tunnel_on_done, .user = c};
    struct stream_parts client, server;

    loop_io_stop(loop, &c->io);
    loop_timer_stop(loop, &c->deadline);
    if (sock_connect_result(c->upstream) < 0) {
        conn_refuse(c);
        return;
    }
    client = plain_parts(take_fd(&c->fd));
    server = plain_parts(take_fd(&c->upstream));
    if (relay_start(loop, &client, &server, &conf, &c->relay, NULL) < 0) {
        stream_parts_done(&client);
        stream_parts_done(&server);
        conn_free(c);
    }
}

static void conn_tunnel(struct icpt_conn *c)
{
    const struct intercept_conf *conf = &c->box->intercept->conf;

    c->upstream = sock_connect_start_as(&c->original, conf->on_socket, conf->user, NULL);
    if (c->upstream < 0 ||
        loop_io_start(conf->loop, &c->io, c->upstream, EPOLLOUT, tunnel_on_connected, NULL) < 0) {
        conn_refuse(c);
        return;
    }
    loop_timer_after(conf->loop, &c->deadline, CONNECT_MS, conn_on_deadline);
}

/* --- the first bytes --- */

static void address_text(const struct sock_addr *a, char *out, size_t size)
{
    const void *ip = a->any.sa_family == AF_INET ? (const void *)&a->v4.sin_addr
                                                 : (const void *)&a->v6.sin6_addr;

    if (!inet_ntop(a->any.sa_family, ip, out, (socklen_t)size))
        out[0] = '\0';
}

static void conn_serve(struct icpt_conn *c)
{
    struct intercept *i = c->box->intercept;
    struct http_server_guest guest = {
        .tls = c->tls ? tls_mint_security(c->box->mint) : NULL,
        .tls_host = str_of(c->name),
        .peer = c->original,
        .user = c,
        .on_gone = conn_on_gone,
    };

    c->served = true;
    if (http_server_adopt(i->server, take_fd(&c->fd), &guest, NULL) < 0)
        conn_free(c);
}

static void conn_decide(struct icpt_conn *c, enum hello_kind kind, const struct hello *hello)
{
    const struct intercept_conf *conf = &c->box->intercept->conf;
    struct str name = STR("");
    struct err e = {0};

    if (kind == HELLO_TLS) {
        c->tls = true;
        c->named = hello->name[0];
        if (c->named)
            memcpy(c->name, hello->name, sizeof(c->name));
        else
            address_text(&c->original, c->name, sizeof(c->name));
        name = c->named ? str_of(c->name) : STR("");
    }
    if (kind == HELLO_HTTP) { /* each of its requests is judged */
        conn_serve(c);
        return;
    }
    if (kind == HELLO_BAD) {
        icpt_deny(c->box, name, STR_NONE, STR_NONE, "malformed TLS hello");
        conn_refuse(c);
        return;
    }
    if (conf->may_connect(conf->user, c->box->sandbox, name, &c->original, &e) < 0) {
        c->box->stats.denied++; /* may_connect recorded it */
        conn_refuse(c);
    } else if (conf->passes && conf->passes(conf->user, c->box->sandbox, name)) {
        conn_tunnel(c);
    } else if (kind == HELLO_TLS && c->name[0]) {
        conn_serve(c);
    } else {
        icpt_deny(c->box, name, STR_NONE, STR_NONE, "neither TLS nor HTTP");
        conn_refuse(c);
    }
}

static void conn_wake_at(const struct icpt_conn *c, size_t bytes)
{
    int low = (int)bytes;

    (void)setsockopt(c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static void conn_on_first_bytes(struct loop_io *io, uint32_t events)
{
    struct icpt_conn *c = container_of(io, struct icpt_conn, io);
    struct loop *loop = c->box->intercept->conf.loop;
    char *p = loop_scratch(loop);
    ssize_t n = recv(c->fd, p, HELLO_INPUT_MAX, MSG_PEEK | MSG_DONTWAIT);
    struct hello hello = {0};
    enum hello_kind kind;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        conn_free(c);
        return;
    }
    kind = hello_read(str_make(p, (size_t)n), &hello);
    if (kind == HELLO_AGAIN && n < HELLO_INPUT_MAX && !(events & (EPOLLRDHUP | EPOLLHUP))) {
        conn_wake_at(c, (size_t)n + 1);
        return;
    }
    conn_wake_at(c, 1);
    loop_io_stop(loop, &c->io);
    loop_timer_stop(loop, &c->deadline);
    conn_decide(c, kind == HELLO_AGAIN ? HELLO_BAD : kind, &hello);
}

/* ::ffff:198.51.100.7 is the IPv4 address in it. */
static struct sock_addr unmapped(const struct sock_addr *a)
{
    struct sock_addr v4 = {.size = sizeof(v4.v4)};

    if (a->any.sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr))
        return *a;
    v4.v4.sin_family = AF_INET;
    v4.v4.sin_port = a->v6.sin6_port;
    memcpy(&v4.v4.sin_addr, &a->v6.sin6_addr.s6_addr[12], sizeof(v4.v4.sin_addr));
    return v4;
}

int intercept_accept(struct intercept_box *b, int fd, const struct sock_addr *original)
{
    struct loop *loop = b->intercept->conf.loop;
    struct icpt_conn *c;
    int r;

    if (b->detached || b->stats.open >= INTERCEPT_CONNS_MAX) {
        fd_close(fd);
        return -EBUSY;
    }
    c = mem_new(struct icpt_conn);
    c->box = b;
    c->fd = fd;
    c->upstream = -EBADF;
    c->original = unmapped(original);
    list_push(&b->conns, &c->link);
    b->stats.connections++;
    b->stats.open++;
    r = loop_io_start(loop, &c->io, fd, EPOLLIN | EPOLLRDHUP, conn_on_first_bytes, NULL);
    if (r < 0) {
        conn_free(c);
        return r;
    }
    loop_timer_after(loop, &c->deadline, FIRST_BYTES_MS, conn_on_deadline);
    return 0;
}

/* --- boxes --- */

int intercept_attach(struct intercept *i, const struct intercept_box_conf *conf,
                     struct intercept_box **ret, struct err *e)
{
    struct intercept_box *b = mem_new(struct intercept_box);
    AUTO_BUF(name, 256);
    int r = buf_addf(&name, "OpenSandbox %.*s", (int)min_size(conf->id.n, 48), conf->id.p);

    if (r == 0)
        r = tls_mint_new(name.p, conf->ca_keys, &b->mint, e);
    if (r < 0) {
        free(b);
        return r;
    }
    b->intercept = i;
    b->sandbox = conf->sandbox;
    b->vault = conf->vault;
    b->group = ++i->next_group;
    list_init(&b->conns);
    http_tunnels_init(&b->tunnels);
    list_push(&i->boxes, &b->link);
    *ret = b;
    return 0;
}

static bool conn_is_of(void *conn_user, void *user)
{
    const struct icpt_conn *c = conn_user;

    return c->box == user;
}

void intercept_cut(struct intercept_box *b)
{
    http_server_cut(b->intercept->server, conn_is_of, b);
    http_tunnels_cut(&b->tunnels);
    LIST_EACH(&b->conns, at)
    {
        struct icpt_conn *c = container_of(at, struct icpt_conn, link);

        if (c->relay)
            relay_stop(c->relay, ECANCELED);
        else if (!c->served)
            conn_refuse(c);
    }
}

static void box_free(struct intercept_box *b)
{
    loop_timer_stop(b->intercept->conf.loop, &b->sweep);
    list_remove(&b->link);
    tls_mint_free(b->mint);
    free(b);
}

/* Connections that were cut report their end at the end of the turn. */
static void box_on_sweep(struct loop_timer *t)
{
    struct intercept_box *b = container_of(t, struct intercept_box, sweep);

    if (b->stats.open == 0 && b->tunnels.count == 0)
        box_free(b);
    else
        loop_timer_after(b->intercept->conf.loop, t, SWEEP_MS, box_on_sweep);
}

void intercept_detach(struct intercept_box *b)
{
    if (!b)
        return;
    b->detached = true;
    b->vault = NULL;
    intercept_cut(b);
    loop_timer_after(b->intercept->conf.loop, &b->sweep, 0, box_on_sweep);
}

struct str intercept_ca_certificate(const struct intercept_box *b)
{
    return tls_mint_certificate(b->mint);
}

struct str intercept_ca_keys(const struct intercept_box *b)
{
    return tls_mint_keys(b->mint);
}

void intercept_stats(const struct intercept_box *b, struct intercept_stats *ret)
{
    *ret = b->stats;
}

/* --- the whole --- */

static void serve_unrouted(struct http_req *req, unsigned allowed UNUSED)
{
    http_req_close_after(req);
    http_reply(req, req->head.form == H1_AUTHORITY_FORM ? 405 : 400,
               STR("text/plain; charset=utf-8"), STR("not a request for a path\n"));
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD, "/*", ROUTE_STREAM_BODY, icpt_serve, 0},
};

int intercept_new(const struct intercept_conf *conf, struct intercept **ret, struct err *e)
{
    struct intercept *i = mem_new(struct intercept);
    struct http_server_conf server = {
        .routes = routes, .route_count = ARRAY_LEN(routes), .on_unrouted = serve_unrouted};
    struct http_client_conf client = {
        .on_socket = conf->on_socket, .user = conf->user, .kept_max = KEPT_MAX};
    struct tls_client_conf tls = {.ca_file = conf->trust_file,
                                  .ca_dir = conf->trust_dir,
                                  .and_system = !conf->trust_dir,
                                  .secret = true,
                                  .insecure_skip_verification = conf->insecure};
    int r;

    i->conf = *conf;
    i->conf.head_ms = conf->head_ms ? conf->head_ms : HEAD_MS;
    list_init(&i->boxes);
    r = tls_client_new(&tls, &i->tls, e);
    if (r == 0)
        r = http_client_new(conf->loop, &client, &i->client, e);
    if (r == 0)
        r = http_server_new(conf->loop, &server, &i->server, e);
    if (r < 0) {
        intercept_free(i);
        return r;
    }
    *ret = i;
    return 0;
}

void intercept_free(struct intercept *i)
{
    if (!i)
        return;
    LIST_EACH(&i->boxes, at)
    {
        struct intercept_box *b = container_of(at, struct intercept_box, link);

        intercept_detach(b);
    }
    http_server_free(i->server);
    http_client_free(i->client);
    loop_settle(i->conf.loop);
    LIST_EACH(&i->boxes, at)
    box_free(container_of(at, struct intercept_box, link));
    tls_client_free(i->tls);
    free(i);
}
