#include "net/http_client.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "net/h1_body.h"
#include "net/h1_write.h"

enum {
    CALL_ARENA_BYTES_MAX = 1 << 20,
    SPARE_ARENAS_MAX = 32,
    SPARE_ARENA_BYTES_MAX = 32 * 1024,
    ADDR_BUCKETS = 256,
};

struct http_client {
    struct loop *loop;
    struct http_client_conf conf;
    struct list kept; /* idle connections, the longest idle first */
    struct list busy;
    struct list by_addr[ADDR_BUCKETS]; /* the same connections by hash of their address */
    size_t kept_count;
    struct arena spare[SPARE_ARENAS_MAX];
    size_t spare_count;
};

struct client_conn {
    struct stream stream;
    struct http_client *client;
    struct sock_addr addr;
    struct stream_security *tls; /* NULL = plain */
    char *tls_host;              /* ours; NULL = plain */
    uint64_t group;
    struct list link, addr_link;
    struct loop_timer timer; /* limits the wait for the response's head, or the idle time */
    struct http_call *call;
    struct h1_scan scan;
    struct h1_body_reader body;
    uint64_t bytes_in_before; /* bytes_in when the call began */
    bool kept, reused;
    bool given; /* the caller's socket: only for its call */
};

/* Where to connect. */
struct server_at {
    const struct sock_addr *addr;
    struct stream_security *tls;
    struct str tls_host;
    uint64_t group;
    int *fd; /* connected already; NULL = not */
};

static void conn_deadline(struct client_conn *c, uint32_t ms);
static int call_send_on_new(struct http_call *call, const struct server_at *at, struct err *e);

/* --- calls --- */

static struct http_call *call_new(struct http_client *c)
{
    struct http_call *call;
    struct arena a;

    if (c->spare_count > 0)
        a = c->spare[--c->spare_count];
    else
        arena_init(&a, CALL_ARENA_BYTES_MAX);
    call = arena_new(&a, struct http_call);
    if (!call) {
        arena_done(&a);
        return NULL;
    }
    call->arena = a;
    call->client = c;
    buf_init(&call->held, LOOP_SCRATCH_BYTES);
    return call;
}

static void call_free(struct http_call *call)
{
    struct http_client *c = call->client;
    struct arena a = call->arena;

    buf_done(&call->held);
    if (call->secret) {
        arena_wipe(&a);
        return;
    }
    arena_reset(&a);
    if (c->spare_count == SPARE_ARENAS_MAX || a.used > SPARE_ARENA_BYTES_MAX)
        arena_done(&a);
    else
        c->spare[c->spare_count++] = a;
}

/* Called after a callback; false when it cancelled the call, which is freed now. */
static bool call_left_callback(struct http_call *call)
{
    call->in_callback = false;
    if (!call->ended)
        return true;
    call_free(call);
    return false;
}

static void call_end(struct http_call *call, int error)
{
    call->ended = true;
    if (call->ops->on_end)
        call->ops->on_end(call, error);
    call_free(call);
}

/* --- connections --- */

static void conn_forget_call(struct client_conn *c)
{
    c->call->sent |= http_call_has_sent(c->call); /* a retry does not undo it */
    c->call->conn = NULL;
    c->call = NULL;
}

static struct list *addr_bucket(struct http_client *client, const struct sock_addr *addr)
{
    static const uint64_t no_seed[2]; /* the addresses are trusted */
    struct str bytes = str_make((const char *)&addr->any, addr->size);

    return &client->by_addr[map_hash(no_seed, bytes) % ADDR_BUCKETS];
}

static void conn_keep(struct client_conn *c)
{
    struct http_client *client = c->client;

    if (client->kept_count >= client->conf.kept_max)
        stream_close(&container_of(client->kept.next, struct client_conn, link)->stream, 0);
    c->kept = true;
    client->kept_count++;
    list_move(&client->kept, &c->link);
    list_move(addr_bucket(client, &c->addr), &c->addr_link);
    conn_deadline(c, client->conf.idle_ms);
    stream_resume(&c->stream);
}

static void conn_unkeep(struct client_conn *c)
{
    c->client->kept_count -= c->kept;
    c->kept = false;
    list_move(&c->client->busy, &c->link);
    list_remove(&c->addr_link);
}

/* The response is complete: keep the connection for the next call if both sides agree. */
static void conn_finish_call(struct client_conn *c, bool clean)
{
    struct http_call *call = c->call;

    conn_forget_call(c);
    if (clean && !c->given && call->framing.keep_alive && call->request_done &&
        stream_is_open(&c->stream))
        conn_keep(c);
    else
        stream_close(&c->stream, 0);
    call_end(call, 0);
}

static void conn_fail_call(struct client_conn *c, int code, const char *story)
{
    struct http_call *call = c->call;

    conn_forget_call(c);
    stream_close(&c->stream, code);
    err_sys(&call->err, code, "%s", story);
    call_end(call, code);
}

/* The stream has ended, for the reason TLS gives, if it gives one. */
static void conn_break_call(struct client_conn *c, int code, const char *reason)
{
    struct http_call *call = c->call;

    if (!reason) {
        conn_fail_call(c, code, "the connection broke");
        return;
    }
    conn_forget_call(c);
    err_set(&call->err, code, "%s", reason);
    call_end(call, code);
}

static void conn_on_timer(struct loop_timer *t)
{
    struct client_conn *c = container_of(t, struct client_conn, timer);

    if (c->call)
        conn_fail_call(c, ETIMEDOUT, "the server did not answer in time");
    else
        stream_close(&c->stream, 0);
}

static void conn_deadline(struct client_conn *c, uint32_t ms)
{
    struct loop *loop = c->client->loop;
    uint64_t due = ms ? loop_now_ns(loop) + (uint64_t)ms * 1000000 : UINT64_MAX;

    loop_timer_set(loop, &c->timer, due, conn_on_timer);
}

/* --- the response --- */

static enum h1_error conn_parse_head(struct client_conn *c, struct str head)
{
    struct http_call *call = c->call;
    const struct h1_limits *limits = &c->client->conf.head;
    struct http_headers room = {.max = limits->headers_max};
    enum h1_error error;

    head = arena_str(&call->arena, head);
    room.rows = arena_alloc(&call->arena, room.max * sizeof(*room.rows));
    if (!head.p || !room.rows)
        return H1_HEAD_TOO_LARGE;
    error = h1_parse_response(head, limits, &room, &call->head);
    if (error == H1_OK)
        error = h1_response_framing(call->method, &call->head, &call->framing);
    return error;
}

/* A final head arrived. False when the call is freed. */
static bool conn_begin_response(struct client_conn *c)
{
    struct http_call *call = c->call;

    call->head_done = true;
    h1_body_begin(&c->body, &call->framing);
    conn_deadline(c, 0);
    call->in_callback = true;
    if (call->ops->on_head)
        call->ops->on_head(call);
    return call_left_callback(call);
}

/* The connection is the caller's from here on. */
static bool call_is_upgraded(const struct http_call *call)
{
    int status = call->head.status;

    return call->upgrade &&
           (status == 101 || (call->method == HTTP_CONNECT && status >= 200 && status < 300));
}

static size_t conn_take_head(struct client_conn *c, struct str in)
{
    struct str head;
    enum h1_error error = h1_find_head(in, &c->client->conf.head, &c->scan, &head);
    size_t used;
    int status;

    if (error == H1_AGAIN)
        return 0;
    c->scan = (struct h1_scan){0};
    used = error == H1_OK ? (size_t)(head.p + head.n - in.p) : in.n;
    if (error == H1_OK)
        error = conn_parse_head(c, head);
    if (error != H1_OK) {
        conn_fail_call(c, EPROTO, h1_error_text(error).p);
        return used;
    }
    status = c->call->head.status;
    if (call_is_upgraded(c->call)) {
        c->call->head_done = true;
        stream_pause(&c->stream);
        stream_want_drain(
            &c->stream); /* on_drain hands it over, once this input is accounted for */
    } else if (status == 101) {
        conn_fail_call(c, EPROTO, "the server switched protocols unasked");
    } else if (status >= 200 && conn_begin_response(c) && h1_body_ended(&c->body)) {
        conn_finish_call(c, used == in.n);
    }
    return used;
}

/* Delivers a piece and holds back what is not taken. False when the call is freed. */
static bool conn_deliver(struct client_conn *c, struct str piece)
{
    struct http_call *call = c->call;
    ssize_t taken = (ssize_t)piece.n;

    if (call->ops->on_body) {
        call->in_callback = true;
        taken = call->ops->on_body(call, piece);
        if (!call_left_callback(call))
            return false;
    }
    if (taken < 0) {
        conn_fail_call(c, (int)-taken, "the receiver gave up");
        return false;
    }
    if ((size_t)taken < piece.n) {
        stream_pause(&c->stream);
        if (buf_add(&call->held, str_skip(piece, (size_t)taken)) < 0) {
            conn_fail_call(c, ENOMEM, "hold back a body");
            return false;
        }
    }
    return true;
}

static size_t conn_take_body(struct client_conn *c, struct str in)
{
    struct str piece = STR_NONE;
    size_t used = 0;
    enum h1_error error = h1_body_next(&c->body, in, &piece, &used);

    if (error == H1_AGAIN)
        return used;
    if (error != H1_OK) {
        conn_fail_call(c, EPROTO, h1_error_text(error).p);
        return in.n;
    }
    if (piece.n && !conn_deliver(c, piece))
        return used;
    if (h1_body_ended(&c->body) && c->call->held.n == 0)
        conn_finish_call(c, used == in.n);
    return used;
}

static size_t conn_on_data(struct stream *st, char *p, size_t n)
{
    struct client_conn *c = container_of(st, struct client_conn, stream);
    int budget = stream_pieces_max(st);
    size_t used = 0;

    st->stall_ms = c->client->conf.stall_ms; /* input shows that it is connected */
    if (!c->call) {                          /* no call: unexpected input */
        stream_close(st, EPROTO);
        return n;
    }
    while (used < n && c->call && stream_is_open(st) && !st->paused) {
        struct str in = str_make(p + used, n - used);
        size_t k;

        if (budget-- == 0) {
            stream_yield(st);
            break;
        }
        k = c->call->head_done ? conn_take_body(c, in) : conn_take_head(c, in);
        if (k == 0)
            break;
        used += k;
    }
    return used;
}

/* --- other events --- */

static void conn_upgrade(struct client_conn *c)
{
    struct http_call *call = c->call;
    struct stream_parts parts;

    conn_forget_call(c);
    stream_detach(&c->stream, &parts);
    if (call->ops->on_upgrade)
        call->ops->on_upgrade(call, &parts);
    stream_parts_done(&parts);
    call_end(call, 0);
}

static void conn_on_drain(struct stream *st)
{
    struct client_conn *c = container_of(st, struct client_conn, stream);
    struct http_call *call = c->call;

    if (!call)
        return;
    if (call_is_upgraded(call)) {
        conn_upgrade(c);
    } else if (call->ops->on_drain) {
        call->in_callback = true;
        call->ops->on_drain(call);
        (void)call_left_callback(call);
    }
}

static void conn_on_eof(struct stream *st)
{
    struct client_conn *c = container_of(st, struct client_conn, stream);

    if (c->call && c->call->head_done && c->call->framing.body == H1_BODY_CLOSE)
        conn_finish_call(c, false);
    else
        stream_close(st, c->call ? ECONNRESET : 0);
}

/* The server may close a kept connection just when it is used again. If no byte of an answer came
 * and the request may be repeated, retry on a new connection without telling the caller. */
static bool conn_retries_call(struct client_conn *c)
{
    struct http_call *call = c->call;
    struct server_at at = {&c->addr, c->tls, c->tls_host ? str_of(c->tls_host) : STR_NONE, c->group,
                           NULL};
    int r;

    if (!c->reused || !call->request.p || c->stream.bytes_in != c->bytes_in_before)
        return false;
    conn_forget_call(c);
    r = call_send_on_new(call, &at, &call->err);
    if (r < 0)
        call_end(call, -r);
    return true;
}

static void conn_on_close(struct stream *st, int error)
{
    struct client_conn *c = container_of(st, struct client_conn, stream);

    if (c->call && !conn_retries_call(c))
        conn_break_call(c, error ? error : ECONNRESET, stream_problem(st));
    loop_timer_stop(c->client->loop, &c->timer);
    c->client->kept_count -= c->kept;
    list_remove(&c->link);
    list_remove(&c->addr_link);
    free(c->tls_host);
    free(c);
}

static const struct stream_ops conn_ops = {
    .on_data = conn_on_data,
    .on_eof = conn_on_eof,
    .on_drain = conn_on_drain,
    .on_close = conn_on_close,
};

static int conn_open(struct http_client *client, const struct server_at *at,
                     struct client_conn **ret, struct err *e)
{
    auto_fd fd =
        at->fd ? take_fd(at->fd)
               : sock_connect_start_as(at->addr, client->conf.on_socket, client->conf.user, e);
    struct client_conn *c;
    int r;

    if (fd < 0)
        return fd;
    c = mem_new(struct client_conn);
    c->client = client;
    c->addr = *at->addr;
    r = stream_start_secure(&c->stream, client->loop, fd, at->tls, at->tls_host, &conn_ops, e);
    if (r < 0) {
        free(c);
        return r;
    }
    c->given = at->fd != NULL;
    c->tls = at->tls;
    c->group = at->group;
    if (at->tls) {
        c->tls_host = mem_zalloc(at->tls_host.n + 1); /* a name that TLS has taken is short */
        if (at->tls_host.n)
            memcpy(c->tls_host, at->tls_host.p, at->tls_host.n);
    }
    (void)take_fd(&fd);
    c->stream.stall_ms = client->conf.connect_ms; /* nothing is sent before it is connected */
    list_push(&client->busy, &c->link);
    list_init(&c->addr_link);
    *ret = c;
    return 0;
}

static bool conn_leads_to(const struct client_conn *c, const struct server_at *at)
{
    return sock_addr_eq(&c->addr, at->addr) && c->tls == at->tls && c->group == at->group &&
           (!c->tls || str_eq(str_of(c->tls_host), at->tls_host));
}

/* With `for_good`, for a request that cannot be sent twice, the connection must also be without the
 * end that a server which closes it may have sent since the last turn. */
static struct client_conn *conn_find_kept(struct http_client *client, const struct server_at *to,
                                          bool for_good)
{
    struct list *bucket = addr_bucket(client, to->addr);

    /* The server is least likely to close the most recently used one. */
    for (struct list *at = bucket->prev; at != bucket; at = at->prev) {
        struct client_conn *c = container_of(at, struct client_conn, addr_link);

        if (stream_is_open(&c->stream) && conn_leads_to(c, to) &&
            !(for_good && stream_has_news(&c->stream))) {
            conn_unkeep(c);
            c->reused = true;
            return c;
        }
    }
    return NULL;
}

/* --- the request --- */

static bool method_is_idempotent(enum http_method m)
{
    return m == HTTP_GET || m == HTTP_HEAD || m == HTTP_OPTIONS || m == HTTP_PUT ||
           m == HTTP_DELETE;
}

static int spec_write_framing(const struct http_call_spec *spec, struct buf *out)
{
    if (spec->streams_body && spec->body_length == HTTP_UNKNOWN_LENGTH)
        return h1_write_header(out, STR("Transfer-Encoding"), STR("chunked"));
    if (spec->streams_body)
        return h1_write_header_u64(out, STR("Content-Length"), spec->body_length);
    if (spec->body.n || spec->method == HTTP_POST || spec->method == HTTP_PUT ||
        spec->method == HTTP_PATCH)
        return h1_write_header_u64(out, STR("Content-Length"), spec->body.n);
    return 0;
}

static int spec_write(const struct http_call_spec *spec, struct buf *out)
{
    struct str method =
        spec->method == HTTP_OTHER ? spec->method_name : http_method_name(spec->method);
    int r = h1_write_request_line(out, method, spec->target);

    if (r == 0)
        r = h1_write_header(out, STR("Host"), spec->host);
    for (size_t i = 0; r == 0 && i < spec->header_count; i++)
        r = h1_write_header(out, spec->headers[i].name, spec->headers[i].value);
    if (r == 0)
        r = spec_write_framing(spec, out);
    if (r == 0)
        r = h1_write_end(out);
    return r < 0 ? r : buf_add(out, spec->body);
}

static void call_bind(struct http_call *call, struct client_conn *c)
{
    call->conn = c;
    c->call = call;
    c->bytes_in_before = c->stream.bytes_in;
    c->scan = (struct h1_scan){0};
    conn_deadline(c, call->request_done ? call->head_ms : 0);
}

static int call_send_on_new(struct http_call *call, const struct server_at *at, struct err *e)
{
    struct client_conn *c;
    int r = conn_open(call->client, at, &c, e);

    if (r < 0)
        return r;
    call_bind(call, c);
    r = stream_write(&c->stream, call->request);
    call->request = STR_NONE; /* only one retry */
    return r;
}

int http_call_start(struct http_client *client, const struct http_call_spec *spec,
                    struct http_call **ret_call, struct err *e)
{
    struct server_at at = {spec->addr, spec->tls, spec->tls_host, spec->group, spec->fd};
    bool repeatable = !spec->streams_body && method_is_idempotent(spec->method);
    struct client_conn *c = spec->fd ? NULL : conn_find_kept(client, &at, !repeatable);
    struct http_call *call;
    struct buf *out;
    int r;

    if (!c) {
        r = conn_open(client, &at, &c, e);
        if (r < 0)
            return r;
    }
    if (spec->secret)
        stream_keep_secret(&c->stream);
    out = stream_out(&c->stream);
    r = spec_write(spec, out);
    call = r < 0 ? NULL : call_new(client);
    if (!call) {
        stream_close(&c->stream, 0);
        return err_sys(e, r < 0 ? -r : ENOMEM, "write the request");
    }
    if (c->reused && repeatable)
        call->request = arena_str(&call->arena, buf_str(out));
    call->secret = spec->secret;
    call->held.wipe = spec->secret;
    call->ops = spec->ops;
    call->user = spec->user;
    call->method = spec->method;
    call->upgrade = spec->upgrade;
    call->head_ms = spec->head_ms;
    call->request_done = !spec->streams_body || spec->body_length == 0;
    call->request_chunked = spec->streams_body && spec->body_length == HTTP_UNKNOWN_LENGTH;
    call->request_left = spec->streams_body ? spec->body_length : 0;
    call_bind(call, c);
    stream_flush_soon(&c->stream);
    *ret_call = call;
    return 0;
}

static int call_write_piece(struct http_call *call, struct str data)
{
    struct stream *st = &call->conn->stream;
    char header[H1_CHUNK_HEADER_MAX];
    int r = 0;

    if (call->request_chunked)
        r = stream_write(st, str_make(header, h1_chunk_header(header, data.n)));
    if (r == 0)
        r = stream_write(st, data);
    if (r == 0 && call->request_chunked)
        r = stream_write(st, H1_CHUNK_END);
    return r;
}

ssize_t http_call_write(struct http_call *call, struct str data)
{
    struct stream *st;
    size_t room;
    int r;

    if (!call->conn || call->request_done) /* answered early, or freed: the rest is not wanted */
        return (ssize_t)data.n;
    st = &call->conn->stream;
    if (!call->request_chunked && data.n > call->request_left)
        return -EINVAL;
    if (st->bytes_out > 0)
        st->stall_ms = call->client->conf.stall_ms;
    room = stream_is_open(st) ? stream_room(st) : data.n;
    if (data.n > room) {
        data.n = room;
        stream_want_drain(st);
    }
    if (data.n == 0)
        return 0;
    r = call_write_piece(call, data);
    if (r < 0)
        return r;
    if (!call->request_chunked)
        call->request_left -= data.n;
    return (ssize_t)data.n;
}

void http_call_write_end(struct http_call *call)
{
    if (!call->conn || call->request_done)
        return;
    if (call->request_chunked)
        (void)stream_write(&call->conn->stream, H1_LAST_CHUNK);
    else if (call->request_left > 0)
        stream_close(&call->conn->stream, EPIPE); /* the announced length cannot be kept */
    call->request_done = true;
    if (!call->head_done)
        conn_deadline(call->conn, call->head_ms);
}

bool http_call_has_sent(const struct http_call *call)
{
    return call->conn ? call->conn->reused || call->conn->stream.bytes_out > 0 : call->sent;
}

void http_call_resume(struct http_call *call)
{
    struct client_conn *c = call->conn;
    AUTO_BUF(held, 0);

    if (!c || !c->stream.paused || call->in_callback)
        return;
    held = call->held;
    buf_init(&call->held, LOOP_SCRATCH_BYTES);
    call->held.wipe = call->secret;
    if (held.n && !conn_deliver(c, buf_str(&held)))
        return;
    if (call->held.n)
        return;
    if (h1_body_ended(&c->body))
        conn_finish_call(c, stream_kept(&c->stream).n == 0);
    else
        stream_resume(&c->stream);
}

void http_call_half_close(struct http_call *call)
{
    struct client_conn *c = call->conn;

    if (!c || !call->head_done || !call->request_done || !stream_is_open(&c->stream))
        return;
    call->framing.keep_alive = false;
    stream_half_close(&c->stream);
}

void http_call_cancel(struct http_call *call)
{
    struct client_conn *c = call->conn;

    if (c) {
        conn_forget_call(c);
        stream_close(&c->stream, 0);
    }
    call->ended = true;
    if (!call->in_callback)
        call_free(call);
}

/* --- the client --- */

void http_client_end_group(struct http_client *c, uint64_t group)
{
    LIST_EACH(&c->busy, at)
    {
        struct client_conn *conn = container_of(at, struct client_conn, link);

        if (conn->group == group)
            (void)shutdown(conn->stream.io.fd, SHUT_RDWR);
    }
}

int http_client_new(struct loop *loop, const struct http_client_conf *conf,
                    struct http_client **ret_client, struct err *e UNUSED)
{
    struct http_client *c = mem_new(struct http_client);

    c->loop = loop;
    c->conf = *conf;
    if (!c->conf.head.head_bytes_max)
        c->conf.head = h1_default_limits;
    c->conf.connect_ms = conf->connect_ms ? conf->connect_ms : 5 * 1000;
    c->conf.idle_ms = conf->idle_ms ? conf->idle_ms : 15 * 1000;
    c->conf.stall_ms = conf->stall_ms ? conf->stall_ms : 30 * 1000;
    c->conf.kept_max = conf->kept_max ? conf->kept_max : 64;
    list_init(&c->kept);
    list_init(&c->busy);
    for (size_t i = 0; i < ADDR_BUCKETS; i++)
        list_init(&c->by_addr[i]);
    *ret_client = c;
    return 0;
}

struct loop *http_client_loop(const struct http_client *c)
{
    return c->loop;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    LIST_EACH(&c->kept, at)
    stream_close(&container_of(at, struct client_conn, link)->stream, ECANCELED);
    LIST_EACH(&c->busy, at)
    {
        struct client_conn *conn = container_of(at, struct client_conn, link);

        conn->reused = false; /* no retries */
        stream_close(&conn->stream, ECANCELED);
    }
    loop_settle(c->loop);
    while (c->spare_count > 0)
        arena_done(&c->spare[--c->spare_count]);
    free(c);
}
