#include "net/http_proxy.h"

#include <errno.h>

#include "base/mem.h"
#include "net/h1_write.h"
#include "net/relay.h"

enum {
    HANGUP_GRACE_MS = 1000,
    FILTERED_BYTES_MAX = 8 << 20, /* of one piece of a body, after its filter */
    EARLY_BYTES_MAX = 256 * 1024, /* of a body received before the backend is connected */
    TAIL_BYTES = 2,
};

/* One forwarded request; lives in the request's arena. */
struct proxy {
    struct http_req *req;
    struct http_call *call; /* NULL before it began and after it ended */
    struct loop *loop;
    struct loop_timer hangup; /* armed once the client closed its sending side */
    struct http_proxy_target target;
    struct second_try *second; /* NULL: no second try */
    struct buf filtered;       /* of the request's body, not written yet */
    bool body_ended;           /* all of the request's body came */
    char tail[TAIL_BYTES];     /* last bytes sent to the client, for on_cut */
    size_t tail_bytes;
};

/* What a request to addr_else needs. */
struct second_try {
    struct http_client *client;
    struct sock_addr addr;
    struct http_call_spec spec;
    struct buf early; /* the part of the body given to the first backend */
    bool body_ended;
};

/* An upgraded connection. */
struct tunnel {
    struct loop *loop;
    struct http_tunnels *owner; /* NULL = none */
    struct list link;           /* in owner->all, once it relays */
    struct relay *relay;
    struct stream_parts backend; /* until it relays */
    struct buf head;             /* the 101, for the client */
    void (*on_end)(void *user);  /* NULL = none */
    void *user;
    uint32_t idle_ms;
    uint64_t group;
};

/* Hop-by-hop headers (RFC 9110 7.6.1), or headers that we set ourselves. */
static const struct str hop_headers[] = {
    STR_INIT("Connection"),
    STR_INIT("Keep-Alive"),
    STR_INIT("Proxy-Connection"),
    STR_INIT("Proxy-Authenticate"),
    STR_INIT("Proxy-Authorization"),
    STR_INIT("TE"),
    STR_INIT("Trailer"),
    STR_INIT("Transfer-Encoding"),
    STR_INIT("Upgrade"),
};

static bool name_in(struct str name, const struct str *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq_nocase(name, names[i]))
            return true;
    return false;
}

/* Headers that apply only to this connection. Connection cannot name Content-Length: without it,
 * the body would be read as the next message. */
static bool is_hop_header(const struct http_headers *headers, const struct h1_fields *fields,
                          struct str name)
{
    return name_in(name, hop_headers, ARRAY_LEN(hop_headers)) ||
           (fields->count[H1_CONNECTION] &&
            http_headers_have_token(headers, STR("Connection"), name) &&
            !str_eq_nocase(name, STR("Content-Length")));
}

/* --- the request --- */

static bool target_sets(const struct http_proxy_target *t, struct str name)
{
    for (size_t i = 0; i < t->header_count; i++)
        if (str_eq_nocase(name, t->headers[i].name))
            return true;
    return name_in(name, t->drop, t->drop_count);
}

static bool req_wants_upgrade(const struct http_req *req)
{
    return req->head.fields.count[H1_UPGRADE] == 1 && req->body_state == HTTP_BODY_DONE &&
           http_headers_have_token(&req->head.headers, STR("Connection"), STR("upgrade"));
}

/* The headers to send, in the request's arena; the array has room for two more for an upgrade. */
static size_t request_rows(const struct http_req *req, const struct http_proxy_target *t,
                           bool upgrade, struct http_header *rows)
{
    const struct http_headers *h = &req->head.headers;
    size_t n = 0;

    for (size_t i = 0; i < h->count; i++) {
        struct str name = h->rows[i].name;

        if (is_hop_header(h, &req->head.fields, name) || str_eq_nocase(name, STR("Host")) ||
            str_eq_nocase(name, STR("Content-Length")) || str_eq_nocase(name, STR("Expect")) ||
            target_sets(t, name))
            continue;
        rows[n++] = h->rows[i];
    }
    for (size_t i = 0; i < t->header_count; i++)
        rows[n++] = t->headers[i];
    if (upgrade) {
        rows[n++] = (struct http_header){STR("Connection"), STR("Upgrade")};
        rows[n++] = (struct http_header){STR("Upgrade"), req->head.fields.value[H1_UPGRADE]};
    }
    return n;
}

/* The backend answers, or what was sent cannot be sent again: drop the second try. */
static void proxy_settle(struct proxy *p)
{
    if (p->second)
        buf_done(&p->second->early);
    p->second = NULL;
}

static void target_end(const struct http_proxy_target *t)
{
    if (t->on_end)
        t->on_end(t->user);
}

/* Writes what the filter made, as far as there is room. Returns whether all of it was written. */
static bool proxy_write_filtered(struct proxy *p)
{
    ssize_t n = p->call ? http_call_write(p->call, buf_str(&p->filtered)) : (ssize_t)p->filtered.n;

    if (n < 0)
        return false;
    buf_drop_front(&p->filtered, (size_t)n);
    if (p->filtered.n)
        return false;
    buf_done(&p->filtered);
    p->filtered.wipe = p->target.secret;
    if (p->body_ended && p->call)
        http_call_write_end(p->call);
    return true;
}

static ssize_t proxy_on_filtered_body(struct proxy *p, struct str piece)
{
    const struct http_proxy_filter *f = &p->target.request_filter;
    int r;

    if (p->filtered.n)
        return 0; /* on_drain of the call continues */
    r = f->run(f->user, piece, false, &p->filtered);
    if (r < 0)
        return r;
    (void)proxy_write_filtered(p);
    return (ssize_t)piece.n;
}

static void proxy_on_filtered_end(struct proxy *p)
{
    const struct http_proxy_filter *f = &p->target.request_filter;

    p->body_ended = true;
    if (f->run(f->user, STR(""), true, &p->filtered) < 0)
        http_reply_cut(p->req, EIO);
    else
        (void)proxy_write_filtered(p);
}

static ssize_t proxy_on_req_body(struct http_req *req, struct str piece)
{
    struct proxy *p = req->user;
    ssize_t n;

    if (p->target.request_filter.run)
        return proxy_on_filtered_body(p, piece);
    n = p->call ? http_call_write(p->call, piece) : (ssize_t)piece.n;

    if (p->second && n > 0 &&
        (http_call_has_sent(p->call) ||
         buf_add(&p->second->early, str_make(piece.p, (size_t)n)) < 0))
        proxy_settle(p);
    return n;
}

static void proxy_on_req_body_end(struct http_req *req)
{
    struct proxy *p = req->user;

    if (p->second)
        p->second->body_ended = true;
    if (p->target.request_filter.run)
        proxy_on_filtered_end(p);
    else if (p->call)
        http_call_write_end(p->call);
}

static void proxy_on_req_drain(struct http_req *req)
{
    struct proxy *p = req->user;

    if (p->call)
        http_call_resume(p->call);
}

static void proxy_on_hangup_due(struct loop_timer *t)
{
    http_reply_cut(container_of(t, struct proxy, hangup)->req, ECONNRESET);
}

/* A client that is gone and one that only finished sending look alike until bytes are sent to it.
 * So a backend in the middle of a response is told, too: one that streams events then sends a ping,
 * and the client's reset ends the request at once. */
static void proxy_on_req_hangup(struct http_req *req)
{
    struct proxy *p = req->user;

    if (p->call)
        http_call_half_close(p->call);

    loop_timer_after(p->loop, &p->hangup, HANGUP_GRACE_MS, proxy_on_hangup_due);
}

static void proxy_on_req_close(struct http_req *req, int error UNUSED)
{
    struct proxy *p = req->user;

    loop_timer_stop(p->loop, &p->hangup);
    proxy_settle(p);
    buf_done(&p->filtered);
    if (p->call)
        http_call_cancel(p->call);
    target_end(&p->target);
}

static const struct http_req_ops proxy_req_ops = {
    .on_body = proxy_on_req_body,
    .on_body_end = proxy_on_req_body_end,
    .on_drain = proxy_on_req_drain,
    .on_hangup = proxy_on_req_hangup,
    .on_close = proxy_on_req_close,
};

/* --- the response --- */

static void proxy_fail(struct proxy *p, int status, const struct err *why)
{
    if (p->target.on_fail)
        p->target.on_fail(p->target.user, p->req, status, why);
    else
        http_reply_error(p->req, status, NULL, "backend: %s", why->msg);
}

/* Whether a header of the backend's answer is for the client. A 101 switches to another protocol,
 * which both ends negotiate in these headers. */
static bool response_passes(const struct http_call *call, struct str name)
{
    const struct h1_response *head = &call->head;

    if (head->status == 101)
        return true;
    if (head->status == 204 && str_eq_nocase(name, STR("Content-Length")))
        return false; /* there is no body (RFC 9110 8.6) */
    return !is_hop_header(&head->headers, &head->fields, name);
}

/* The headers of the answer, in the request's arena. -ENOMEM. */
static int response_rows(struct proxy *p, const struct http_call *call, struct http_headers *ret)
{
    const struct http_headers *h = &call->head.headers;
    struct http_headers out = {.max = h->count + HTTP_PROXY_ROWS_ADDED_MAX};

    out.rows = arena_alloc(&p->req->arena, out.max * sizeof(*out.rows));
    if (!out.rows)
        return -ENOMEM;
    for (size_t i = 0; i < h->count; i++)
        if (response_passes(call, h->rows[i].name))
            out.rows[out.count++] = h->rows[i];
    if (p->target.on_answer)
        p->target.on_answer(p->target.user, p->req, call->head.status, &out);
    *ret = out;
    return 0;
}

/* Of a request that on_take_back gets. */
static const struct http_req_ops taken_ops = {0};

/* Offers the request to its owner, with an answer that may be a reason to try elsewhere. */
static bool proxy_give_back(struct proxy *p, int status, const struct http_headers *rows)
{
    const struct http_proxy_target t = p->target;
    struct http_call *call = p->call;
    struct http_req *req = p->req;

    bool streams = (req->framing.body_bytes || req->framing.body == H1_BODY_CHUNKED) && !t.body.n;

    if (!t.on_take_back || streams) /* what was passed on of a body is gone */
        return false;
    p->call = NULL;
    req->ops = &taken_ops;
    req->user = NULL;
    if (!t.on_take_back(t.user, req, status, rows)) {
        p->call = call;
        req->ops = &proxy_req_ops;
        req->user = p;
        return false;
    }
    loop_timer_stop(p->loop, &p->hangup); /* p lives until the turn ends, whatever was answered */
    proxy_settle(p);
    buf_done(&p->filtered);
    target_end(&t);
    if (call)
        http_call_cancel(call);
    return true;
}

static void proxy_on_head(struct http_call *call)
{
    struct proxy *p = call->user;
    bool sized = call->framing.body == H1_BODY_LENGTH || call->framing.body == H1_BODY_NONE;
    struct http_headers rows;

    if (proxy_give_back(p, call->head.status, &call->head.headers))
        return;
    proxy_settle(p);
    if (response_rows(p, call, &rows) < 0) {
        p->call = NULL;
        err_sys(&call->err, ENOMEM, "pass its headers on");
        proxy_fail(p, 502, &call->err);
        http_req_resume(p->req);
        http_call_cancel(call);
        return;
    }
    http_reply_begin_as(p->req, call->head.status, call->head.reason, &rows,
                        sized ? call->framing.body_bytes : HTTP_UNKNOWN_LENGTH);
}

/* Passes a piece through the filter. The reply takes all of it, even above its limit, which the
 * size of a piece bounds; then the backend waits. */
static ssize_t proxy_filter_reply(struct proxy *p, struct str piece, bool last)
{
    const struct http_proxy_filter *f = &p->target.response_filter;
    AUTO_BUF(out, FILTERED_BYTES_MAX);
    int r;

    if (!last && http_reply_is_full(p->req))
        return 0;
    out.wipe = p->target.secret;
    r = f->run(f->user, piece, last, &out);
    if (r == 0 && out.n)
        r = http_reply_push(p->req, buf_str(&out));
    return r < 0 ? r : (ssize_t)piece.n;
}

static ssize_t proxy_on_body(struct http_call *call, struct str piece)
{
    struct proxy *p = call->user;
    ssize_t n;

    if (p->target.response_filter.run)
        return proxy_filter_reply(p, piece, false);
    n = http_reply_write(p->req, piece);

    for (ssize_t i = n > TAIL_BYTES ? n - TAIL_BYTES : 0; p->target.on_cut && i < n; i++) {
        if (p->tail_bytes == TAIL_BYTES)
            memmove(p->tail, p->tail + 1, --p->tail_bytes);
        p->tail[p->tail_bytes++] = piece.p[i];
    }
    return n;
}

static void proxy_on_call_drain(struct http_call *call)
{
    struct proxy *p = call->user;

    if (!p->filtered.n || proxy_write_filtered(p))
        http_req_resume(p->req);
}

/* Sends the request to addr_else, with the body given to the first backend. False when there is
 * none, or it cannot be reached either. */
static bool proxy_try_again(struct proxy *p)
{
    struct second_try *second = p->second;
    AUTO_BUF(early, EARLY_BYTES_MAX);

    if (!second)
        return false;
    early = second->early;
    buf_init(&second->early, 0);
    p->second = NULL;
    if (http_call_start(second->client, &second->spec, &p->call, NULL) < 0) {
        p->call = NULL;
        return false;
    }
    (void)http_call_write(p->call, buf_str(&early)); /* there is room for this much */
    if (second->body_ended)
        http_call_write_end(p->call);
    http_req_resume(p->req);
    return true;
}

/* Refused, and nothing was sent before on a kept connection that broke: a request that may change
 * something is not sent twice. */
static bool proxy_was_refused(const struct proxy *p, const struct http_call *call, int error)
{
    enum http_method m = p->req->head.method;

    return error == ECONNREFUSED && (m == HTTP_GET || m == HTTP_HEAD || !http_call_has_sent(call));
}

static void proxy_on_end(struct http_call *call, int error)
{
    struct proxy *p = call->user;

    if (!p->call) /* upgraded: the request is no longer ours */
        return;
    p->call = NULL;
    if (proxy_was_refused(p, call, error) && (proxy_try_again(p) || proxy_give_back(p, 0, NULL)))
        return;
    proxy_settle(p);
    if (p->req->reply_state != HTTP_REPLY_NONE) {
        if (!error && p->target.response_filter.run && call->framing.body != H1_BODY_NONE &&
            proxy_filter_reply(p, STR(""), true) < 0)
            error = EIO;
        if (error && p->target.on_cut)
            p->target.on_cut(p->target.user, p->req, str_make(p->tail, p->tail_bytes));
        else
            http_reply_end(p->req, error);
    } else {
        proxy_fail(p, error == ETIMEDOUT ? 504 : 502, &call->err);
    }
    http_req_resume(p->req); /* the rest of the body is discarded */
}

/* --- upgrades --- */

static void tunnel_free(struct tunnel *t)
{
    stream_parts_done(&t->backend);
    buf_done(&t->head);
    if (t->on_end)
        t->on_end(t->user);
    free(t);
}

static void tunnel_on_done(void *user, const struct relay_result *result UNUSED)
{
    struct tunnel *t = user;

    if (t->owner) {
        list_remove(&t->link);
        t->owner->count--;
    }
    tunnel_free(t);
}

/* The client's socket is ours now: send the 101, then relay. */
static int tunnel_start(struct tunnel *t, struct stream_parts *client)
{
    struct relay_conf conf = {.idle_ms = t->idle_ms, .on_done = tunnel_on_done, .user = t};
    int r = buf_add(&client->out, buf_str(&t->head));

    if (r == 0)
        r = relay_start(t->loop, client, &t->backend, &conf, &t->relay, NULL);
    if (r < 0)
        return r;
    buf_done(&t->head);
    if (t->owner) {
        list_push(&t->owner->all, &t->link);
        t->owner->count++;
    }
    return 0;
}

static void tunnel_on_client(void *user, struct stream_parts *client, int error)
{
    struct tunnel *t = user;

    if (error || tunnel_start(t, client) < 0)
        tunnel_free(t);
    if (!error)
        stream_parts_done(client);
}

void http_tunnels_init(struct http_tunnels *t)
{
    list_init(&t->all);
    t->count = 0;
}

void http_tunnels_cut(struct http_tunnels *t)
{
    LIST_EACH(&t->all, at)
    relay_stop(container_of(at, struct tunnel, link)->relay, ECANCELED);
}

void http_tunnels_end_group(struct http_tunnels *t, uint64_t group)
{
    LIST_EACH(&t->all, at)
    {
        struct tunnel *tunnel = container_of(at, struct tunnel, link);

        if (tunnel->group == group)
            relay_end_b(tunnel->relay);
    }
}

static int tunnel_write_head(struct tunnel *t, struct proxy *p, const struct http_call *call)
{
    struct http_headers rows;
    int r = response_rows(p, call, &rows);

    if (r == 0)
        r = buf_addf(&t->head, "HTTP/1.1 101 %.*s\r\n", STR_ARG(call->head.reason));
    for (size_t i = 0; r == 0 && i < rows.count; i++)
        r = h1_write_header(&t->head, rows.rows[i].name, rows.rows[i].value);
    return r < 0 ? r : h1_write_end(&t->head);
}

static void proxy_on_upgrade(struct http_call *call, struct stream_parts *parts)
{
    struct proxy *p = call->user;
    struct tunnel *t = mem_new(struct tunnel);
    struct http_req *req = p->req;

    p->call = NULL;
    loop_timer_stop(p->loop, &p->hangup); /* the relay finishes half-closed connections */
    t->loop = p->loop;
    t->idle_ms = p->target.relay_idle_ms;
    t->group = p->target.group;
    t->owner = p->target.tunnels;
    t->backend = *parts;
    *parts = (struct stream_parts){.fd = -EBADF};
    buf_init(&parts->in, 0);
    buf_init(&parts->out, 0);
    buf_init(&t->head, H1_HEAD_BYTES_MAX);
    if (tunnel_write_head(t, p, call) < 0) {
        tunnel_free(t);
        err_set(&call->err, EPROTO, "its upgrade has no proper head");
        proxy_fail(p, 502, &call->err);
        return;
    }
    if (p->target.on_tunnel) {
        t->user = p->target.on_tunnel(p->target.user, req);
        t->on_end = p->target.on_tunnel_end;
    }
    http_req_upgrade(req, tunnel_on_client, t);
}

static const struct http_call_ops proxy_call_ops = {
    .on_head = proxy_on_head,
    .on_body = proxy_on_body,
    .on_drain = proxy_on_call_drain,
    .on_upgrade = proxy_on_upgrade,
    .on_end = proxy_on_end,
};

/* --- start --- */

/* When memory is out, there is no second try. */
static struct second_try *second_new(struct http_req *req, struct http_client *client,
                                     const struct http_proxy_target *target,
                                     const struct http_call_spec *spec)
{
    struct second_try *second =
        target->addr_else ? arena_new(&req->arena, struct second_try) : NULL;

    if (!second)
        return NULL;
    *second = (struct second_try){.client = client, .addr = *target->addr_else, .spec = *spec};
    second->spec.addr = &second->addr;
    buf_init(&second->early, EARLY_BYTES_MAX);
    return second;
}

void http_proxy_forward(struct http_req *req, struct http_client *client,
                        const struct http_proxy_target *target)
{
    size_t room = req->head.headers.count + target->header_count + 2;
    struct http_header *rows = arena_alloc(&req->arena, room * sizeof(*rows));
    struct proxy *p = arena_new(&req->arena, struct proxy);
    bool upgrade = req_wants_upgrade(req);
    struct err e = {0};
    bool resized = (target->request_filter.run && !target->request_keeps_length) ||
                   req->framing.body == H1_BODY_CHUNKED;
    struct http_call_spec spec = {
        .addr = target->addr,
        .tls = target->tls,
        .tls_host = target->tls_host,
        .group = target->group,
        .method = req->head.method,
        .method_name = req->head.method_name,
        .target = target->target,
        .host = target->host.p ? target->host : req->head.host,
        .headers = rows,
        .streams_body = req->body_state != HTTP_BODY_DONE,
        .body = target->body,
        .body_length = resized ? HTTP_UNKNOWN_LENGTH : req->framing.body_bytes,
        .secret = target->secret,
        .upgrade = upgrade,
        .head_ms = target->head_ms,
        .ops = &proxy_call_ops,
        .user = p,
    };

    if (!rows || !p) {
        http_reply_error(req, 503, NULL, "out of memory for this request");
        target_end(target);
        return;
    }
    spec.header_count = request_rows(req, target, upgrade, rows);
    p->req = req;
    p->loop = http_req_loop(req);
    p->target = *target; /* only the fields for callbacks are used later */
    buf_init(&p->filtered, FILTERED_BYTES_MAX);
    p->filtered.wipe = target->secret;
    p->second = second_new(req, client, target, &spec);
    if (http_call_start(client, &spec, &p->call, &e) < 0) {
        proxy_fail(p, 502, &e);
        target_end(target);
        return;
    }
    req->ops = &proxy_req_ops;
    req->user = p;
}
