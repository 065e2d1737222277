#include "httpd_ws.h"

#include <errno.h>
#include <stdio.h>

#include "base/json_write.h"
#include "base/mem.h"

enum { FLOOD_PIECE = 64 * 1024 };

/* One connection, for any of the routes. */
struct peer {
    struct httpd_ws *owner;
    struct list link;
    struct ws *ws; /* NULL until it is open */
    uint64_t left; /* of a flood, in bytes */
    uint64_t count;
    size_t step; /* of a sink: bytes accepted at a time; 0 = all */
    uint16_t code;
};

static struct httpd_ws *req_ws(const struct http_req *req)
{
    return req->server_user;
}

static struct peer *peer_new(void)
{
    struct peer *p = mem_new(struct peer);

    list_init(&p->link);
    return p;
}

static void accept_peer(struct http_req *req, const struct ws_ops *ops, struct peer *p)
{
    struct httpd_ws *w = req_ws(req);

    p->owner = w;
    list_push(&w->open, &p->link);
    if (ws_accept(req, &w->conf, ops, p) < 0) {
        list_remove(&p->link);
        free(p);
    }
}

static void peer_end(struct peer *p)
{
    if (p->ws)
        ws_close(p->ws, WS_CLOSE_GOING_AWAY, STR("the server ends"));
}

static void peer_open(struct ws *ws)
{
    struct peer *p = ws_user(ws);

    p->ws = ws;
    if (p->owner->on_closed)
        peer_end(p);
}

static void peer_close(struct ws *ws, uint16_t code UNUSED, struct str reason UNUSED,
                       const struct err *error UNUSED)
{
    struct peer *p = ws_user(ws);
    struct httpd_ws *w = p->owner;

    list_remove(&p->link);
    free(p);
    if (w->on_closed && list_empty(&w->open))
        w->on_closed(w);
}

/* Parses the query as a number; sends the error reply if it is not one. */
static bool query_number(struct http_req *req, uint64_t max, uint64_t *ret)
{
    if (str_to_u64_range(req->head.query, 0, max, ret) == 0)
        return true;
    http_reply_error(req, 400, NULL, "expected a number behind the '?', at most %llu",
                     (unsigned long long)max);
    return false;
}

/* --- echo --- */

static void echo_message(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    (void)ws_send(ws, opcode, data);
    if (ws_room(ws) == 0)
        ws_pause(ws);
}

static const struct ws_ops echo_ops = {
    .on_open = peer_open,
    .on_message = echo_message,
    .on_drain = ws_resume,
    .on_close = peer_close,
};

void httpd_ws_echo(struct http_req *req)
{
    accept_peer(req, &echo_ops, peer_new());
}

/* --- flood --- */

static void flood_more(struct ws *ws)
{
    static const char zeros[FLOOD_PIECE];
    struct peer *p = ws_user(ws);

    while (p->left > 0) {
        size_t n = min_size(p->left, sizeof(zeros));

        if (ws_send(ws, WS_OP_BINARY, str_make(zeros, n)) < 0)
            return;
        p->left -= n;
    }
    ws_close(ws, WS_CLOSE_NORMAL, STR_NONE);
}

static void flood_open(struct ws *ws)
{
    peer_open(ws);
    flood_more(ws);
}

static const struct ws_ops flood_ops = {
    .on_open = flood_open,
    .on_drain = flood_more,
    .on_close = peer_close,
};

void httpd_ws_flood(struct http_req *req)
{
    struct peer *p;
    uint64_t mib;

    if (!query_number(req, UINT32_MAX, &mib))
        return;
    p = peer_new();
    p->left = mib << 20;
    accept_peer(req, &flood_ops, p);
}

/* --- sink --- */

static size_t sink_piece(struct ws *ws, const struct ws_piece *piece)
{
    struct peer *p = ws_user(ws);
    size_t n = p->step ? min_size(p->step, piece->data.n) : piece->data.n;
    char text[32];

    p->count += n;
    if (n < piece->data.n) {
        ws_resume(ws);
    } else if (piece->last) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)p->count);
        (void)ws_send(ws, WS_OP_TEXT, str_of(text));
        p->count = 0;
    }
    return n;
}

static const struct ws_ops sink_ops = {
    .on_open = peer_open,
    .on_piece = sink_piece,
    .on_close = peer_close,
};

void httpd_ws_sink(struct http_req *req)
{
    struct peer *p;
    uint64_t step = 0;

    if (req->head.query.n && !query_number(req, UINT32_MAX, &step))
        return;
    p = peer_new();
    p->step = step;
    accept_peer(req, &sink_ops, p);
}

/* --- close --- */

static void close_open(struct ws *ws)
{
    struct peer *p = ws_user(ws);

    peer_open(ws);
    ws_close(ws, p->code, STR("bye"));
}

static const struct ws_ops close_ops = {.on_open = close_open, .on_close = peer_close};

void httpd_ws_close(struct http_req *req)
{
    struct peer *p;
    uint64_t code;

    if (!query_number(req, 4999, &code))
        return;
    if (code && !ws_close_code_is_valid((uint16_t)code)) {
        http_reply_error(req, 400, NULL, "no close may carry that code");
        return;
    }
    p = peer_new();
    p->code = (uint16_t)code;
    accept_peer(req, &close_ops, p);
}

/* --- dial: the client of an echo --- */

enum { DIAL_MESSAGES = 5, DIAL_BIG_BYTES = 300000 };

struct dial {
    struct http_req *req; /* NULL once it has ended */
    struct ws *ws;
    char *big;
    int sent, same; /* messages sent; messages that came back unchanged */
};

static struct str dial_message(const struct dial *d, int i, enum ws_opcode *ret_opcode)
{
    *ret_opcode = i < 3 ? WS_OP_TEXT : WS_OP_BINARY;
    switch (i) {
    case 0:
        return STR("hello");
    case 1:
        return STR("");
    case 2:
        return STR("Gr\xc3\xbc\xc3\x9f"
                   "e");
    case 3:
        return str_make("\0\xff\x80", 3);
    default:
        return str_make(d->big, DIAL_BIG_BYTES);
    }
}

/* Every other message goes in two parts. */
static void dial_next(struct dial *d)
{
    enum ws_opcode opcode;
    struct str data = dial_message(d, d->sent, &opcode);

    if (d->sent % 2 == 0) {
        (void)ws_send(d->ws, opcode, data);
    } else {
        (void)ws_send_part(d->ws, opcode, str_make(data.p, data.n / 2), false);
        (void)ws_send_part(d->ws, opcode, str_skip(data, data.n / 2), true);
    }
    d->sent++;
}

static void dial_open(struct ws *ws)
{
    struct dial *d = ws_user(ws);

    (void)ws_ping(ws, STR("are you there?"));
    dial_next(d);
}

static void dial_on_message(struct ws *ws, enum ws_opcode opcode, struct str data)
{
    struct dial *d = ws_user(ws);
    enum ws_opcode want_opcode;
    struct str want = dial_message(d, d->sent - 1, &want_opcode);

    d->same += opcode == want_opcode && str_eq(data, want);
    if (d->sent < DIAL_MESSAGES)
        dial_next(d);
    else
        ws_close(ws, WS_CLOSE_NORMAL, STR("enough"));
}

static void dial_close(struct ws *ws, uint16_t code, struct str reason, const struct err *error)
{
    struct dial *d = ws_user(ws);
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    json_write_object(&w);
    json_write_key(&w, STR("same"));
    json_write_i64(&w, d->same);
    json_write_key(&w, STR("protocol"));
    json_write_string(&w, ws_protocol(ws));
    json_write_key(&w, STR("code"));
    json_write_i64(&w, code);
    json_write_key(&w, STR("reason"));
    json_write_string(&w, reason);
    json_write_key(&w, STR("error"));
    json_write_string(&w, str_of(error ? error->msg : ""));
    json_write_object_end(&w);
    if (d->req && json_write_end(&w) == 0) {
        d->req->ops = NULL;
        http_reply(d->req, 200, STR("application/json"), buf_str(&out));
    }
    free(d->big);
    free(d);
}

static const struct ws_ops dial_ops = {
    .on_open = dial_open,
    .on_message = dial_on_message,
    .on_close = dial_close,
};

static void dial_req_close(struct http_req *req, int error UNUSED)
{
    struct dial *d = req->user;

    d->req = NULL;
    ws_cut(d->ws, ECANCELED);
}

static const struct http_req_ops dial_req_ops = {.on_close = dial_req_close};

void httpd_ws_dial(struct http_req *req)
{
    static const struct str protocols[] = {STR_INIT("chat"), STR_INIT("echo")};
    struct str query = req->head.query;
    size_t slash = str_find(query, '/');
    struct httpd_ws *w = req_ws(req);
    struct sock_addr addr;
    struct ws_connect_spec spec = {
        .addr = &addr,
        .target = str_skip(query, slash),
        .host = str_make(query.p, slash),
        .conf = w->conf,
    };
    struct err e = {0};
    struct dial *d;

    if (slash == query.n || sock_addr_parse(spec.host, &addr, &e) < 0) {
        http_reply_error(req, 400, NULL, "expected /ws/dial?ADDRESS/PATH");
        return;
    }
    spec.conf.protocols = protocols;
    spec.conf.protocol_count = ARRAY_LEN(protocols);
    d = mem_new(struct dial);
    if (ws_connect(w->client, &spec, &dial_ops, d, &d->ws, &e) < 0) {
        http_reply_error(req, 502, NULL, "%s", e.msg);
        free(d);
        return;
    }
    d->big = mem_alloc(DIAL_BIG_BYTES);
    for (size_t i = 0; i < DIAL_BIG_BYTES; i++)
        d->big[i] = (char)(i * 7);
    d->req = req;
    req->user = d;
    req->ops = &dial_req_ops;
}

/* --- all connections --- */

void httpd_ws_init(struct httpd_ws *w)
{
    list_init(&w->open);
}

void httpd_ws_close_all(struct httpd_ws *w, void (*on_closed)(struct httpd_ws *))
{
    w->on_closed = on_closed;
    LIST_EACH(&w->open, at)
    peer_end(container_of(at, struct peer, link));
    if (list_empty(&w->open))
        on_closed(w);
}

void httpd_ws_done(struct httpd_ws *w, struct loop *loop)
{
    w->on_closed = NULL;
    LIST_EACH(&w->open, at)
    {
        struct peer *p = container_of(at, struct peer, link);

        if (p->ws)
            ws_cut(p->ws, ECANCELED);
    }
    loop_settle(loop);
}
