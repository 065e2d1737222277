#include "net/http_server.h"

#include <assert.h>
#include <errno.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/http_server_internal.h"

enum { EVICTION_LOOKS_MAX = 16 };

static void server_on_make_room(struct loop_yield *y);

struct http_listener {
    struct sock_listener sock;
    struct http_server *server;
    struct list link;
    void (*on_note)(void *user, struct str note); /* of a channel */
};

static const struct http_server_conf conf_defaults = {
    .head = {H1_HEAD_BYTES_MAX, H1_TARGET_BYTES_MAX, H1_HEADERS_MAX},
    .body_bytes_max = 1 << 20,
    .held_bytes_max = 64 << 20,
    .connections_max = 10000,
    .head_ms = 10 * 1000,
    .body_ms = 30 * 1000,
    .idle_ms = 30 * 1000,
    .stall_ms = 30 * 1000,
};

#define DEFAULT(field) conf.field = conf.field ? conf.field : conf_defaults.field

static struct http_server_conf conf_complete(struct http_server_conf conf)
{
    DEFAULT(head.head_bytes_max);
    DEFAULT(head.target_bytes_max);
    DEFAULT(head.headers_max);
    DEFAULT(body_bytes_max);
    DEFAULT(held_bytes_max);
    DEFAULT(connections_max);
    DEFAULT(head_ms);
    DEFAULT(body_ms);
    DEFAULT(idle_ms);
    DEFAULT(stall_ms);
    /* A complete head, and input received with it, must fit into what a stream keeps. */
    conf.head.head_bytes_max = min_size(conf.head.head_bytes_max, STREAM_IN_BYTES_MAX / 2);
    return conf;
}

int http_server_new(struct loop *loop, const struct http_server_conf *conf,
                    struct http_server **ret_server, struct err *e)
{
    struct http_server *s = mem_new(struct http_server);
    int r = router_new(conf->routes, conf->route_count, &s->router, e);

    if (r < 0) {
        free(s);
        return r;
    }
    s->loop = loop;
    s->conf = conf_complete(*conf);
    s->listening = true;
    list_init(&s->listeners);
    list_init(&s->idle);
    list_init(&s->busy);
    *ret_server = s;
    return 0;
}

/* --- connections --- */

/* Listens while there is room, or an idle connection that can be closed. One connection above the
 * limit is allowed: it replaces one that is closed but not yet freed. */
static void server_update_listening(struct http_server *s)
{
    uint32_t max = s->conf.connections_max;
    bool listening = s->connections < max || (s->connections == max && s->idle_count > 0);

    if (listening == s->listening)
        return;
    s->listening = listening;
    LIST_EACH(&s->listeners, at)
    {
        struct sock_listener *l = &container_of(at, struct http_listener, link)->sock;

        if (listening)
            sock_listener_resume(l);
        else
            sock_listener_pause(l);
    }
}

static void server_on_drain_task(struct loop_task *t)
{
    struct http_server *s = container_of(t, struct http_server, drain_task);
    void (*on_drained)(void *) = s->on_drained;

    loop_timer_stop(s->loop, &s->drain_timer);
    loop_timer_stop(s->loop, &s->linger_timer);
    s->on_drained = NULL;
    if (on_drained)
        on_drained(s->drained_user);
}

void http_conn_deadline(struct http_conn *c, uint32_t ms)
{
    struct loop *loop = c->server->loop;
    uint64_t due = ms ? loop_now_ns(loop) + (uint64_t)ms * 1000000 : UINT64_MAX;

    loop_timer_set(loop, &c->timer, due, c->timer.on_due);
}

void http_conn_mark_idle(struct http_conn *c, bool idle)
{
    struct http_server *s = c->server;

    s->idle_count += (size_t)idle - (size_t)c->idle;
    c->idle = idle;
    list_move(idle ? &s->idle : &s->busy, &c->link);
    if (idle && s->draining)
        stream_finish(&c->stream, false);
    if (idle && s->connections > s->conf.connections_max)
        loop_yield(s->loop, &s->make_room, server_on_make_room);
    server_update_listening(s);
}

void http_conn_gone(struct http_conn *c)
{
    struct http_server *s = c->server;

    loop_timer_stop(s->loop, &c->timer);
    list_remove(&c->link);
    s->idle_count -= c->idle;
    if (c->on_gone)
        c->on_gone(c->user);
    free(c);
    s->connections--;
    server_update_listening(s);
    if (s->draining && s->connections == 0)
        loop_defer(s->loop, &s->drain_task, server_on_drain_task);
}

/* Not a connection whose next request has already arrived, if it sends one request at a time and
 * reads the answers, as most clients do. */
static bool conn_is_evictable(const struct http_conn *c)
{
    return c->req || c->head_begun || c->stream.yield.queued || c->stream.paused ||
           !stream_is_open(&c->stream) || !stream_has_unread(&c->stream);
}

static bool server_evict_one(struct http_server *s)
{
    int looks = 0;

    LIST_EACH(&s->idle, at)
    {
        struct http_conn *c = container_of(at, struct http_conn, link);

        if (looks++ == EVICTION_LOOKS_MAX)
            break;
        if (!conn_is_evictable(c))
            continue;
        http_conn_mark_idle(c, false);
        stream_close(&c->stream, 0);
        return true;
    }
    return false;
}

/* Above the limit, closes the connection that has been without a request for longest. If all that
 * are checked have unread input, checks again after it was read. */
static void server_make_room(struct http_server *s)
{
    if (s->connections > s->conf.connections_max && s->idle_count > 0 && !server_evict_one(s))
        loop_yield(s->loop, &s->make_room, server_on_make_room);
}

static void server_on_make_room(struct loop_yield *y)
{
    server_make_room(container_of(y, struct http_server, make_room));
}

int http_server_adopt(struct http_server *s, int fd, const struct http_server_guest *guest,
                      struct err *e)
{
    struct http_conn *c = mem_new(struct http_conn);
    int r;

    c->server = s;
    c->peer = guest->peer;
    r = http_conn_start(c, fd, guest->tls, guest->tls_host, e);
    if (r < 0) {
        fd_close(fd);
        free(c);
        return r;
    }
    c->user = guest->user;
    c->on_gone = guest->on_gone;
    s->accepted++;
    s->connections++;
    s->idle_count++;
    c->idle = true; /* until it sends something: silent connections must not block others */
    list_push(&s->idle, &c->link);
    c->stream.stall_ms = s->conf.stall_ms;
    http_conn_deadline(c, s->conf.head_ms); /* a new connection must send a request */
    server_make_room(s);
    server_update_listening(s);
    return 0;
}

static void server_on_accept(struct sock_listener *l, int fd, const struct sock_addr *peer)
{
    struct http_server *s = container_of(l, struct http_listener, sock)->server;
    struct http_server_guest guest = {.tls = s->conf.tls, .peer = *peer};

    if (s->conf.peer_pid && sock_peer_pid(fd) != s->conf.peer_pid)
        fd_close(fd);
    else
        (void)http_server_adopt(s, fd, &guest, NULL);
}

static void server_on_note(struct sock_listener *sock, struct str note)
{
    struct http_listener *l = container_of(sock, struct http_listener, sock);

    l->on_note(l->server->conf.user, note);
}

static int server_listen(struct http_server *s, int fd,
                         void (*on_note)(void *user, struct str note), struct err *e)
{
    struct http_listener *l = mem_new(struct http_listener);
    int r = on_note ? sock_channel_start(&l->sock, s->loop, fd, server_on_accept, server_on_note, e)
                    : sock_listener_start(&l->sock, s->loop, fd, server_on_accept, e);

    l->on_note = on_note;
    if (r < 0) {
        fd_close(fd);
        free(l);
        return r;
    }
    l->server = s;
    list_push(&s->listeners, &l->link);
    return 0;
}

int http_server_listen(struct http_server *s, int fd, struct err *e)
{
    return server_listen(s, fd, NULL, e);
}

int http_server_listen_channel(struct http_server *s, int fd,
                               void (*on_note)(void *user, struct str note), struct err *e)
{
    return server_listen(s, fd, on_note, e);
}

static void server_stop_listening(struct http_server *s)
{
    LIST_EACH(&s->listeners, at)
    {
        struct http_listener *l = container_of(at, struct http_listener, link);

        sock_listener_stop(&l->sock);
        list_remove(&l->link);
        free(l);
    }
}

static void server_close_all(struct http_server *s, struct list *connections, int error)
{
    (void)s;
    LIST_EACH(connections, at)
    stream_close(&container_of(at, struct http_conn, link)->stream, error);
}

static void cut_list(struct list *connections, bool (*which)(void *conn_user, void *user),
                     void *user)
{
    LIST_EACH(connections, at)
    {
        struct http_conn *c = container_of(at, struct http_conn, link);

        if (c->user && which(c->user, user))
            stream_close(&c->stream, ECANCELED);
    }
}

void http_server_cut(struct http_server *s, bool (*which)(void *conn_user, void *user), void *user)
{
    cut_list(&s->idle, which, user);
    cut_list(&s->busy, which, user);
}

void http_server_cut_all(struct http_server *s)
{
    server_close_all(s, &s->idle, ECANCELED);
    server_close_all(s, &s->busy, ECANCELED);
}

/* --- the end --- */

static void server_on_drain_due(struct loop_timer *t)
{
    struct http_server *s = container_of(t, struct http_server, drain_timer);

    server_close_all(s, &s->idle, ETIMEDOUT);
    server_close_all(s, &s->busy, ETIMEDOUT);
}

/* Ends the connections without a request. */
static void server_finish_silent(struct list *connections)
{
    LIST_EACH(connections, at)
    {
        struct http_conn *c = container_of(at, struct http_conn, link);

        if (!c->req && !c->head_begun)
            stream_finish(&c->stream, false);
    }
}

static void server_on_linger_due(struct loop_timer *t)
{
    struct http_server *s = container_of(t, struct http_server, linger_timer);

    server_finish_silent(&s->idle);
    server_finish_silent(&s->busy);
}

/* Those of the backlog, whose clients are connected already. */
static void server_take_last(struct http_server *s)
{
    LIST_EACH(&s->listeners, at)
    sock_listener_take(&container_of(at, struct http_listener, link)->sock);
}

void http_server_drain(struct http_server *s, uint32_t grace_ms, void (*on_drained)(void *),
                       void *user)
{
    s->draining = true;
    s->on_drained = on_drained;
    s->drained_user = user;
    if (s->conf.linger_ms)
        server_take_last(s);
    server_stop_listening(s);
    if (s->conf.linger_ms)
        loop_timer_after(s->loop, &s->linger_timer, s->conf.linger_ms, server_on_linger_due);
    else
        server_on_linger_due(&s->linger_timer);
    if (s->connections == 0)
        loop_defer(s->loop, &s->drain_task, server_on_drain_task);
    else
        loop_timer_after(s->loop, &s->drain_timer, grace_ms, server_on_drain_due);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    server_stop_listening(s);
    s->on_drained = NULL;
    s->draining = true;
    server_close_all(s, &s->idle, ECANCELED);
    server_close_all(s, &s->busy, ECANCELED);
    loop_settle(s->loop); /* runs on_close of all connections */
    assert(s->connections == 0);
    loop_timer_stop(s->loop, &s->drain_timer);
    loop_timer_stop(s->loop, &s->linger_timer);
    loop_yield_stop(s->loop, &s->make_room);
    while (s->spare_count > 0)
        arena_done(&s->spare[--s->spare_count]);
    router_free(s->router);
    free(s);
}

void http_server_stats(const struct http_server *s, struct http_server_stats *ret)
{
    *ret = (struct http_server_stats){
        .accepted = s->accepted,
        .requests = s->requests,
        .connections = s->connections,
        .idle = s->idle_count,
        .admitted = s->admitted,
    };
}

/* --- arenas of requests, reused --- */

struct arena http_arena_take(struct http_server *s)
{
    struct arena a;

    if (s->spare_count > 0)
        return s->spare[--s->spare_count];
    arena_init(&a, HTTP_ARENA_BYTES_MAX);
    return a;
}

void http_arena_give(struct http_server *s, struct arena *a)
{
    arena_reset(a);
    if (s->spare_count == HTTP_SPARE_ARENAS || a->used > HTTP_SPARE_ARENA_BYTES_MAX)
        arena_done(a);
    else
        s->spare[s->spare_count++] = *a;
}
