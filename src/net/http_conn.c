/* http_conn.c - one connection of the server: parses heads and bodies, runs the life of a request.
 *
 *   head --> routed --> [100] --> body: collected, streamed or discarded --> done --.
 *                  `--> handler --> reply ... ----------------------------> done --+--> next head
 *
 * A request is over when both its body and its reply are done. conn_settle checks that: right after
 * our own callbacks, and at the end of the turn for replies made elsewhere. */
#include "net/http_server.h"

#include <assert.h>
#include <errno.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/http_server_internal.h"

/* A request counts as this many pieces of a body: one connection handles one request at a time
 * while others wait, else 16. */
enum { HEAD_COST = STREAM_PIECES_MAX_CROWDED };

static void conn_settle(struct http_conn *c);

/* --- requests --- */

/* Makes a request with its own arena and a copy of the head, which is still in the loop's
 * scratch. */
static struct http_req *req_new(struct http_conn *c, struct str head, struct http_headers *ret_rows,
                                struct str *ret_head)
{
    const struct http_server_conf *conf = &c->server->conf;
    struct arena a = http_arena_take(c->server);
    struct http_req *req = arena_new(&a, struct http_req);

    if (req) {
        *ret_head = arena_str(&a, head);
        *ret_rows = (struct http_headers){.max = conf->head.headers_max};
        ret_rows->rows = arena_alloc(&a, conf->head.headers_max * sizeof(*ret_rows->rows));
    }
    if (!req || !ret_head->p || !ret_rows->rows) {
        arena_done(&a);
        return NULL;
    }
    req->arena = a;
    req->conn = c;
    req->server_user = conf->user;
    req->begin_ns = loop_now_ns(c->server->loop);
    req->file_fd = -EBADF;
    buf_init(&req->body_buf, conf->body_bytes_max);
    buf_init(&req->reply_headers, HTTP_REPLY_HEADERS_MAX);
    c->server->requests++;
    return req;
}

static void req_drop_body(struct http_req *req)
{
    req->body_buf.wipe |= req->secret;
    buf_done(&req->body_buf);
    req->conn->server->held -= req->held;
    req->held = 0;
}

static void req_free(struct http_req *req)
{
    struct http_server *s = req->conn->server;
    struct arena a = req->arena;

    fd_close(req->file_fd);
    req_drop_body(req);
    buf_done(&req->reply_headers);
    http_req_answered(req);
    if (req->secret)
        arena_wipe(&a);
    else
        http_arena_give(s, &a);
}

void http_req_admit(struct http_req *req)
{
    req->conn->server->admitted += !req->admitted;
    req->admitted = true;
}

void http_req_answered(struct http_req *req)
{
    req->conn->server->admitted -= req->admitted;
    req->admitted = false;
}

static void conn_end_req(struct http_conn *c, int error)
{
    struct http_req *req = c->req;

    c->req = NULL;
    stream_set_high(&c->stream, STREAM_HIGH_BYTES);
    stream_set_recv(&c->stream, HTTP_HEAD_RECV_BYTES);
    if (req->on_upgrade)
        req->on_upgrade(req->user, NULL, error ? error : ECONNABORTED);
    else if (req->ops && req->ops->on_close)
        req->ops->on_close(req, error);
    if (c->server->conf.on_done)
        c->server->conf.on_done(req, error);
    req_free(req);
}

/* --- routing --- */

static void reply_allow(struct http_req *req, unsigned allowed)
{
    AUTO_BUF(list, 256);

    for (int m = 0; m < HTTP_OTHER; m++)
        if (allowed & HTTP_BIT(m))
            (void)buf_addf(&list, "%s%s", list.n ? ", " : "", http_method_name(m).p);
    (void)http_reply_header(req, STR("Allow"), buf_str(&list));
}

/* No row matches: replies with the reason. */
static void reply_unrouted(struct http_req *req, unsigned allowed)
{
    if (req->head.form == H1_ASTERISK_FORM || (allowed && req->head.method == HTTP_OPTIONS)) {
        reply_allow(req, allowed | HTTP_BIT(HTTP_OPTIONS));
        http_reply(req, 204, STR_NONE, STR_NONE);
    } else if (allowed) {
        reply_allow(req, allowed | HTTP_BIT(HTTP_OPTIONS));
        http_reply_error(req, 405, NULL, "%.*s is not allowed here",
                         STR_ARG(req->head.method_name));
    } else if (req->head.form == H1_AUTHORITY_FORM) {
        http_reply_error(req, 501, NULL, "this server is not a proxy");
    } else {
        http_reply_error(req, 404, NULL, "no such path: %.*s", (int)min_size(req->head.path.n, 200),
                         req->head.path.p);
    }
}

static uint64_t req_body_max(const struct http_req *req)
{
    const struct http_server_conf *conf = &req->conn->server->conf;
    uint64_t max = req->route ? req->route->body_bytes_max : 0;

    if (req->body_state == HTTP_BODY_STREAM)
        return max ? max : UINT64_MAX;
    max = max ? max : conf->body_bytes_max;
    return max < conf->held_bytes_max ? max : conf->held_bytes_max;
}

static void reply_too_large(struct http_req *req)
{
    req_drop_body(req);
    req->keep_alive = false;
    req->error = EMSGSIZE;
    http_reply_error(req, 413, NULL, "the body is larger than the %llu bytes allowed here",
                     (unsigned long long)req_body_max(req));
}

static void reply_no_room(struct http_req *req)
{
    const struct http_server *s = req->conn->server;

    req_drop_body(req);
    req->error = EAGAIN;
    (void)http_reply_header(req, STR("Retry-After"), STR("1"));
    http_reply_error(req, 503, NULL,
                     "other requests hold %llu of the %llu bytes of memory for request bodies: try "
                     "again when they are over, or send a smaller body",
                     (unsigned long long)s->held, (unsigned long long)s->conf.held_bytes_max);
}

int http_req_hold(struct http_req *req, uint64_t bytes)
{
    struct http_server *s = req->conn->server;
    uint64_t others = s->held - req->held;

    if (bytes <= HTTP_BODY_FREE_BYTES)
        bytes = 0;
    if (bytes > s->conf.held_bytes_max - others) {
        reply_no_room(req);
        return -EAGAIN;
    }
    s->held = others + bytes;
    req->held = bytes;
    return 0;
}

/* A collected body is freed when the handler returns; only the bytes of http_req_hold stay in the
 * total. */
static void req_call_handler(struct http_req *req)
{
    const struct http_server_conf *conf = &req->conn->server->conf;
    bool collected = req->body_buf.n > 0;

    if (conf->on_handle && !conf->on_handle(req)) {
        req_drop_body(req);
        return;
    }
    req->body = buf_str(&req->body_buf);
    req->conn->server->held -= req->held;
    req->held = 0;
    req->route->handler(req);
    if (conf->on_handled)
        conf->on_handled(req);
    req->body = STR_NONE;
    if (collected)
        buf_done(&req->body_buf);
}

const struct http_route *http_req_route_at(const struct http_req *req, struct str path)
{
    struct route_match match;

    router_find(req->conn->server->router, req->head.method, path, &match);
    return match.route;
}

bool http_redirect_slash(struct http_req *req, int get_status)
{
    struct str path = req->head.path, query = req->head.query;
    const char *location;

    if (path.n <= STR("//").n || !str_ends(path, STR("/")) || http_req_route_at(req, path))
        return false;
    path.n--;
    if (!http_req_route_at(req, path))
        return false;
    location =
        arena_printf(&req->arena, "%.*s%s%.*s", STR_ARG(path), query.p ? "?" : "", STR_ARG(query));
    if (!location || http_reply_header(req, STR("Location"), str_of(location)) < 0)
        return false;
    http_reply(req, req->head.method == HTTP_GET ? get_status : 307, STR_NONE, STR_NONE);
    return true;
}

/* Decides which handler gets the request and its body. Called with in_callback set. */
static void req_route(struct http_req *req)
{
    struct http_server *s = req->conn->server;
    struct route_match match;

    if (s->conf.on_request && !s->conf.on_request(req))
        return;
    router_find(s->router, req->head.method, req->head.path, &match);
    if (!match.route) {
        (s->conf.on_unrouted ? s->conf.on_unrouted : reply_unrouted)(req, match.allowed);
        return;
    }
    req->route = match.route;
    req->param_count = match.param_count;
    memcpy(req->params, match.params, match.param_count * sizeof(match.params[0]));
    if (req->route->flags & ROUTE_STREAM_BODY && req->body_state != HTTP_BODY_DONE)
        req->body_state = HTTP_BODY_STREAM;
    if (req->framing.body_bytes > req_body_max(req))
        reply_too_large(req);
    else if (req->body_state != HTTP_BODY_COLLECT)
        req_call_handler(req);
    else if (http_req_hold(req, req->framing.body_bytes) == 0)
        req->body_buf.max =
            req->framing.body == H1_BODY_LENGTH ? req->framing.body_bytes : req_body_max(req);
}

static void req_body_deadline(struct http_req *req)
{
    http_conn_deadline(req->conn, req->patient ? 0 : req->conn->server->conf.body_ms);
}

static void conn_begin_req(struct http_conn *c)
{
    struct http_req *req = c->req;

    http_conn_mark_idle(c, false);
    http_conn_deadline(c, 0);
    c->stream.stall_ms = c->server->conf.stall_ms;
    req->keep_alive = req->framing.keep_alive && !c->server->draining;
    req->continue_due = req->framing.expect_continue;
    h1_body_begin(&c->body, &req->framing);
    req->body_state = h1_body_ended(&c->body) ? HTTP_BODY_DONE : HTTP_BODY_COLLECT;
    if (req->body_state != HTTP_BODY_DONE)
        stream_set_recv(&c->stream, LOOP_SCRATCH_BYTES);
    req->in_callback = true;
    req_route(req);
    req->in_callback = false;
    if (req->body_state != HTTP_BODY_DONE && req->reply_state == HTTP_REPLY_NONE) {
        if (req->continue_due)
            http_reply_continue(req);
        req_body_deadline(req);
    }
    conn_settle(c);
}

/* Answers a malformed request and gives up the connection. */
static void conn_refuse(struct http_conn *c, enum h1_error error)
{
    struct http_headers rows;
    struct str head;

    if (!c->req)
        c->req = req_new(c, STR(""), &rows, &head);
    if (!c->req) {
        stream_close(&c->stream, ENOMEM);
        return;
    }
    http_conn_mark_idle(c, false);
    http_conn_deadline(c, 0);
    c->req->keep_alive = false;
    c->req->error = error == H1_AGAIN ? ETIMEDOUT : EPROTO;
    if (c->req->reply_state != HTTP_REPLY_NONE) { /* too late for an error reply */
        stream_close(&c->stream, EPROTO);
        return;
    }
    if (c->server->conf.on_refuse)
        c->server->conf.on_refuse(c->req);
    http_reply_error(c->req, h1_error_status(error), NULL, "%.*s", STR_ARG(h1_error_text(error)));
    conn_settle(c);
}

/* --- input: heads --- */

static size_t conn_take_head(struct http_conn *c, struct str in)
{
    const struct h1_limits *limits = &c->server->conf.head;
    struct http_headers rows;
    struct str head;
    enum h1_error error = h1_find_head(in, limits, &c->scan, &head);
    size_t used;

    if (error == H1_AGAIN) {
        if (!c->head_begun) {
            c->head_begun = true;
            http_conn_deadline(c, c->server->conf.head_ms);
        }
        return 0;
    }
    c->scan = (struct h1_scan){0};
    c->head_begun = false;
    if (error != H1_OK) {
        conn_refuse(c, error);
        return in.n;
    }
    used = (size_t)(head.p + head.n - in.p);
    c->ahead = str_skip(in, used);
    c->req = req_new(c, head, &rows, &head);
    if (!c->req) {
        stream_close(&c->stream, ENOMEM);
        return used;
    }
    error = h1_parse_request(head, limits, &rows, &c->req->head);
    if (error == H1_OK)
        error = h1_request_framing(&c->req->head, &c->req->framing);
    if (error == H1_OK)
        conn_begin_req(c);
    else
        conn_refuse(c, error);
    return used;
}

/* --- input: bodies --- */

/* Passes a piece to the handler and holds back what it does not take. */
static void req_stream_piece(struct http_req *req, struct str piece)
{
    struct http_conn *c = req->conn;
    ssize_t taken = (ssize_t)piece.n;

    if (req->ops && req->ops->on_body) {
        req->in_callback = true;
        taken = req->ops->on_body(req, piece);
        req->in_callback = false;
    }
    if (taken < 0) {
        stream_close(&c->stream, (int)-taken);
        return;
    }
    assert((size_t)taken <= piece.n);
    if ((size_t)taken == piece.n)
        return;
    stream_pause(&c->stream);
    http_conn_deadline(c, 0); /* our side is slow now, not the client */
    req->body_buf.max = LOOP_SCRATCH_BYTES;
    if (buf_add(&req->body_buf, str_skip(piece, (size_t)taken)) < 0)
        stream_close(&c->stream, ENOMEM);
}

static void req_body_piece(struct http_req *req, struct str piece)
{
    if (req->body_state == HTTP_BODY_COLLECT) {
        /* A chunked body gives its size piece by piece, any other in its head. */
        if (http_req_hold(req, req->framing.body_bytes) == 0 && buf_add(&req->body_buf, piece) < 0)
            reply_no_room(req);
        return;
    }
    if (req->body_state != HTTP_BODY_STREAM)
        return; /* discarded, with one deadline for all of it */
    req_body_deadline(req);
    req_stream_piece(req, piece);
}

static void req_body_end(struct http_req *req)
{
    enum http_body_state was = req->body_state;

    req->body_state = HTTP_BODY_DONE;
    http_conn_deadline(req->conn, 0);
    req->in_callback = true;
    if (was == HTTP_BODY_COLLECT && req->reply_state == HTTP_REPLY_NONE)
        req_call_handler(req);
    else if (was == HTTP_BODY_STREAM && req->ops && req->ops->on_body_end)
        req->ops->on_body_end(req);
    req->in_callback = false;
}

/* The body is larger than the row allows. Pieces already delivered stay; no more are delivered. */
static void req_body_too_large(struct http_req *req)
{
    if (req->reply_state == HTTP_REPLY_NONE)
        reply_too_large(req);
    else
        stream_close(&req->conn->stream, EMSGSIZE);
}

static size_t conn_take_body(struct http_conn *c, struct str in)
{
    struct http_req *req = c->req;
    struct str piece = STR_NONE;
    size_t used = 0;
    enum h1_error error = h1_body_next(&c->body, in, &piece, &used);

    if (error == H1_AGAIN)
        return used;
    if (error != H1_OK) {
        req->body_state = HTTP_BODY_DISCARD;
        conn_refuse(c, error);
        return in.n;
    }
    c->ahead = str_skip(in, used);
    if (req->framing.body == H1_BODY_CHUNKED)
        req->framing.body_bytes += piece.n; /* as far as known */
    if (req->framing.body_bytes > req_body_max(req) && req->body_state != HTTP_BODY_DISCARD)
        req_body_too_large(req);
    else if (piece.n)
        req_body_piece(req, piece);
    if (stream_is_open(&c->stream) && h1_body_ended(&c->body) && !c->stream.paused)
        req_body_end(req);
    conn_settle(c);
    return used;
}

static size_t conn_on_data(struct stream *st, char *p, size_t n)
{
    struct http_conn *c = container_of(st, struct http_conn, stream);
    int budget = stream_pieces_max(st);
    size_t used = 0;

    while (used < n && stream_is_open(st) && !st->paused) {
        struct str in = str_make(p + used, n - used);
        size_t k;

        if (budget <= 0) { /* pipelined requests, or tiny chunks: let others run first */
            stream_yield(st);
            break;
        }
        budget -= c->req ? 1 : HEAD_COST;
        k = c->req ? conn_take_body(c, in) : conn_take_head(c, in);
        if (k == 0)
            break;
        used += k;
    }
    c->ahead = STR_NONE;
    return used;
}

void http_req_resume(struct http_req *req)
{
    http_conn_settle_soon(req->conn);
}

/* Offers again what on_body did not take; true when all of it is taken. */
static bool conn_offer_held(struct http_conn *c)
{
    struct http_req *req = c->req;
    ssize_t taken;

    if (req->body_state != HTTP_BODY_STREAM || req->body_buf.n == 0)
        return true;
    req->in_callback = true;
    taken = req->ops->on_body(req, buf_str(&req->body_buf));
    req->in_callback = false;
    if (taken < 0) {
        stream_close(&c->stream, (int)-taken);
        return false;
    }
    buf_drop_front(&req->body_buf, (size_t)taken);
    return req->body_buf.n == 0;
}

/* --- settling --- */

/* Whether the rest of the body was received together with the current input. */
static bool body_has_arrived(const struct http_conn *c)
{
    struct h1_body_reader reader = c->body;
    struct str in = c->ahead, piece = STR_NONE;
    size_t used = 0;

    for (; !h1_body_ended(&reader); in = str_skip(in, used))
        if (in.n == 0 || h1_body_next(&reader, in, &piece, &used) != H1_OK)
            return false;
    return true;
}

bool http_req_body_in_the_way(const struct http_req *req)
{
    const struct h1_body_reader *b = &req->conn->body;
    uint64_t bytes = b->kind == H1_BODY_LENGTH ? b->left : req->framing.body_bytes;

    return req->body_state != HTTP_BODY_DONE &&
           (bytes > HTTP_DISCARD_BYTES_MAX || req->continue_due ||
            (req->status >= 400 && !body_has_arrived(req->conn)));
}

/* The reply is complete and the client is still sending: read a little more to keep the connection,
 * or close it when that would take long. */
static void conn_give_up_body(struct http_conn *c)
{
    struct http_req *req = c->req;

    if (http_req_body_in_the_way(req) || c->server->draining)
        req->keep_alive = false;
    if (h1_body_ended(&c->body)) { /* received, but not taken by its handler */
        req->body_state = HTTP_BODY_DONE;
    } else if (req->body_state != HTTP_BODY_DISCARD) {
        req->body_state = HTTP_BODY_DISCARD;
        stream_resume(&c->stream);
        if (req->keep_alive) /* else conn_settle() ends the stream, with time to read the reply */
            http_conn_mark_idle(c, true);
        http_conn_deadline(c, HTTP_DISCARD_MS);
    }
}

/* Moves the connection to its next state. */
static void conn_settle(struct http_conn *c)
{
    struct http_req *req = c->req;
    bool replied, read;

    if (!req || req->in_callback || !stream_is_open(&c->stream))
        return;
    replied = req->reply_state == HTTP_REPLY_DONE;
    if (replied && req->body_state != HTTP_BODY_DONE)
        conn_give_up_body(c);
    read = req->body_state == HTTP_BODY_DONE;
    if (replied && !req->keep_alive) {
        conn_end_req(c, req->error);
        stream_finish(&c->stream, !read);
        http_conn_mark_idle(c, true);
    } else if (replied && read) {
        conn_end_req(c, 0);
        if (stream_room(&c->stream) == 0) { /* the client sends requests but reads no answers */
            stream_pause(&c->stream);
            stream_want_drain(&c->stream);
        } else {
            stream_resume(&c->stream);
        }
        http_conn_mark_idle(c, true);
        http_conn_deadline(c, c->server->conf.idle_ms);
    } else if (read) {
        stream_pause(&c->stream); /* the next request must wait */
    }
}

static void conn_on_task(struct loop_task *t)
{
    struct http_conn *c = container_of(t, struct http_conn, task);

    if (c->dead) {
        http_conn_gone(c);
        return;
    }
    if (c->req && stream_is_open(&c->stream) && c->stream.paused &&
        c->req->body_state == HTTP_BODY_STREAM && conn_offer_held(c)) {
        if (h1_body_ended(&c->body)) {
            req_body_end(c->req);
        } else {
            stream_resume(&c->stream);
            req_body_deadline(c->req);
        }
    }
    conn_settle(c);
}

void http_conn_settle_soon(struct http_conn *c)
{
    loop_defer(c->server->loop, &c->task, conn_on_task);
}

/* --- other events --- */

static void conn_upgrade(struct http_conn *c)
{
    void (*on_upgrade)(void *, struct stream_parts *, int) = c->req->on_upgrade;
    void *user = c->req->user;
    struct stream_parts parts;

    stream_detach(&c->stream, &parts);
    c->req->on_upgrade = NULL;
    conn_end_req(c, 0);
    on_upgrade(user, &parts, 0);
}

static void conn_on_drain(struct stream *st)
{
    struct http_conn *c = container_of(st, struct http_conn, stream);
    struct http_req *req = c->req;

    if (!req) {
        stream_resume(st);
    } else if (req->on_upgrade) {
        conn_upgrade(c);
    } else if (req->reply_state == HTTP_REPLY_FILE) {
        http_reply_file_sent(req);
    } else if (req->ops && req->ops->on_drain) {
        req->in_callback = true;
        req->ops->on_drain(req);
        req->in_callback = false;
        conn_settle(c);
    }
}

/* A client may close its sending side after a request and still gets its answer. */
static void conn_on_hangup(struct stream *st)
{
    struct http_conn *c = container_of(st, struct http_conn, stream);
    struct http_req *req = c->req;

    if (!req || req->body_state != HTTP_BODY_DONE || !req->ops || !req->ops->on_hangup)
        return;
    req->in_callback = true;
    req->ops->on_hangup(req);
    req->in_callback = false;
    conn_settle(c);
}

static void conn_on_eof(struct stream *st)
{
    struct http_conn *c = container_of(st, struct http_conn, stream);

    if (c->req && c->req->body_state == HTTP_BODY_DONE)
        c->req->keep_alive = false;
    else if (c->req)
        stream_close(st, ECONNRESET);
    else
        stream_finish(st, false);
}

static void conn_on_close(struct stream *st, int error)
{
    struct http_conn *c = container_of(st, struct http_conn, stream);

    if (c->req)
        conn_end_req(c, error ? error : ECONNRESET);
    c->dead = true;
    if (!c->task.queued)
        http_conn_gone(c);
}

static void conn_on_timer(struct loop_timer *t)
{
    struct http_conn *c = container_of(t, struct http_conn, timer);
    struct http_req *req = c->req;

    if (!req && !c->head_begun) {
        stream_finish(&c->stream, false); /* idle, or sent nothing at all */
        return;
    }
    /* A request that came too slowly gets an answer if none has begun. */
    if (!req || req->reply_state == HTTP_REPLY_NONE)
        conn_refuse(c, H1_AGAIN);
    else
        stream_close(&c->stream, ETIMEDOUT);
}

static const struct stream_ops conn_ops = {
    .on_data = conn_on_data,
    .on_eof = conn_on_eof,
    .on_hangup = conn_on_hangup,
    .on_drain = conn_on_drain,
    .on_close = conn_on_close,
};

int http_conn_start(struct http_conn *c, int fd, struct stream_security *tls, struct str tls_host,
                    struct err *e)
{
    int r = stream_start_secure(&c->stream, c->server->loop, fd, tls, tls_host, &conn_ops, e);

    c->timer.on_due = conn_on_timer;
    stream_set_recv(&c->stream, HTTP_HEAD_RECV_BYTES);
    return r;
}

/* --- accessors --- */

struct str http_req_param(const struct http_req *req, const char *name)
{
    for (size_t i = 0; i < req->param_count; i++)
        if (str_eq(req->params[i].name, str_of(name)))
            return req->params[i].value;
    return STR_NONE;
}

struct str http_req_header(const struct http_req *req, struct str name)
{
    return http_header_get(&req->head.headers, name);
}

const struct sock_addr *http_req_peer(const struct http_req *req)
{
    return &req->conn->peer;
}

bool http_req_is_secure(const struct http_req *req)
{
    return req->conn->stream.session != NULL;
}

void *http_req_conn_user(const struct http_req *req)
{
    return req->conn->user;
}

const struct stream *http_req_stream(const struct http_req *req)
{
    return &req->conn->stream;
}

void http_req_close_after(struct http_req *req)
{
    req->keep_alive = false;
}

struct loop *http_req_loop(const struct http_req *req)
{
    return req->conn->server->loop;
}

void http_req_be_patient(struct http_req *req)
{
    struct http_conn *c = req->conn;

    req->patient = true;
    c->stream.stall_ms = UINT32_MAX;
    if (req->body_state != HTTP_BODY_DONE && !req->in_callback)
        http_conn_deadline(c, 0);
}

void http_req_upgrade(struct http_req *req, void (*on_upgrade)(void *, struct stream_parts *, int),
                      void *user)
{
    assert(req->reply_state == HTTP_REPLY_NONE);
    req->on_upgrade = on_upgrade;
    req->user = user;
    req->ops = NULL;
    stream_pause(&req->conn->stream);
    stream_want_drain(&req->conn->stream);
}
