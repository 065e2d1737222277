/* ws_handshake.c - the WebSocket handshake (RFC 6455, 4): the HTTP request and its 101, for client
 * and server. */
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/id.h"
#include "base/mem.h"
#include "net/h1_write.h"
#include "net/http_server_internal.h"
#include "net/ws.h"
#include "net/ws_internal.h"

enum {
    KEY_BYTES = 16,
    HEAD_BYTES_MAX = 1024, /* of our 101 */
    PROTOCOLS_TEXT_MAX = 1024,
    OPEN_MS_DEFAULT = 10 * 1000,
};

/* The value of a field that must not repeat; STR_NONE if it is absent or repeated. */
static struct str only_value(const struct http_headers *headers, struct str name)
{
    const struct http_header *row = http_header_find(headers, name);

    return row && !http_header_next(headers, row) ? row->value : STR_NONE;
}

static bool asks_to_switch(const struct http_headers *headers)
{
    return http_headers_have_token(headers, STR("Upgrade"), STR("websocket")) &&
           http_headers_have_token(headers, STR("Connection"), STR("upgrade"));
}

static const struct str *find_protocol(const struct ws_conf *conf, struct str name)
{
    for (size_t i = 0; i < conf->protocol_count; i++)
        if (str_eq(conf->protocols[i], name))
            return &conf->protocols[i];
    return NULL;
}

/* --- server --- */

/* False when the request cannot become a WebSocket; then an error was replied. */
static bool check_request(struct http_req *req)
{
    const struct http_headers *headers = &req->head.headers;
    struct str version = only_value(headers, STR("Sec-WebSocket-Version"));

    if (req->head.method != HTTP_GET || req->head.minor < 1) {
        http_reply_error(req, 400, NULL, "a WebSocket begins with GET and HTTP/1.1");
    } else if (!asks_to_switch(headers)) {
        (void)http_reply_header(req, STR("Upgrade"), STR("websocket"));
        http_reply_error(req, 426, NULL,
                         "expected Connection: Upgrade and Upgrade: websocket: this path speaks "
                         "WebSocket only");
    } else if (!str_eq(version, STR("13"))) {
        (void)http_reply_header(req, STR("Sec-WebSocket-Version"), STR("13"));
        http_reply_error(req, 426, NULL, "expected Sec-WebSocket-Version: 13");
    } else if (!ws_key_is_valid(only_value(headers, STR("Sec-WebSocket-Key")))) {
        http_reply_error(
            req, 400, NULL,
            "expected one Sec-WebSocket-Key: 16 bytes in base64, new for each request");
    } else if (req->body_state != HTTP_BODY_DONE || req->body.n) {
        http_reply_error(req, 400, NULL, "a WebSocket begins with a request without a body");
    } else {
        return true;
    }
    return false;
}

/* The first subprotocol of the client that we support. */
static struct str pick_protocol(const struct http_req *req, const struct ws_conf *conf)
{
    const struct http_headers *headers = &req->head.headers;
    const struct http_header *row = http_header_find(headers, STR("Sec-WebSocket-Protocol"));

    for (; row; row = http_header_next(headers, row)) {
        struct str rest = row->value, name;

        while (str_cut(&rest, ',', &name)) {
            const struct str *known = find_protocol(conf, str_trim(name));

            if (known)
                return *known;
        }
    }
    return STR_NONE;
}

static int write_switch(const struct http_req *req, struct str protocol, struct buf *out)
{
    char accept[WS_ACCEPT_SIZE];
    int r;

    ws_accept_key(http_req_header(req, STR("Sec-WebSocket-Key")), accept);
    r = h1_write_status(out, 101);
    if (r == 0)
        r = h1_write_header(out, STR("Upgrade"), STR("websocket"));
    if (r == 0)
        r = h1_write_header(out, STR("Connection"), STR("Upgrade"));
    if (r == 0)
        r = h1_write_header(out, STR("Sec-WebSocket-Accept"), str_of(accept));
    if (r == 0 && protocol.n)
        r = h1_write_header(out, STR("Sec-WebSocket-Protocol"), protocol);
    return r < 0 ? r : h1_write_end(out);
}

/* An accepted request until we own its connection. */
struct accepting {
    struct ws *ws;
    struct buf head; /* the 101 */
};

static void on_request_upgraded(void *user, struct stream_parts *parts, int error)
{
    struct accepting *a = user;

    if (error) {
        ws_note_error(a->ws, error, "the connection broke during the handshake");
        ws_end_soon(a->ws);
    } else {
        ws_open(a->ws, parts, buf_str(&a->head));
        stream_parts_done(parts);
    }
    buf_done(&a->head);
    free(a);
}

int ws_accept(struct http_req *req, const struct ws_conf *conf, const struct ws_ops *ops,
              void *user)
{
    AUTO_BUF(head, HEAD_BYTES_MAX);
    struct accepting *a;
    struct str protocol;

    if (!check_request(req))
        return -EPROTO;
    protocol = pick_protocol(req, conf);
    if (write_switch(req, protocol, &head) < 0) {
        http_reply_error(req, 503, NULL, "out of memory for this request");
        return -EPROTO;
    }
    a = mem_new(struct accepting);
    a->ws = ws_new(req->conn->server->loop, WS_SERVER, conf, ops, user);
    a->ws->protocol = protocol;
    a->head = head;
    buf_init(&head, HEAD_BYTES_MAX);
    http_req_upgrade(req, on_request_upgraded, a);
    return 0;
}

/* --- client --- */

/* The answer must match our key and contain nothing we did not ask for. */
static const char *check_switch(struct ws *ws, const struct http_headers *headers)
{
    struct str expected = buf_str(&ws->message);
    struct str protocol = only_value(headers, STR("Sec-WebSocket-Protocol"));
    const struct str *known = find_protocol(&ws->conf, protocol);

    if (!asks_to_switch(headers))
        return "the server switched to another protocol than WebSocket";
    if (!str_eq(only_value(headers, STR("Sec-WebSocket-Accept")), expected))
        return "the server's Sec-WebSocket-Accept does not fit our key";
    if (http_header_find(headers, STR("Sec-WebSocket-Extensions")))
        return "the server wants an extension that was not offered";
    if (http_header_find(headers, STR("Sec-WebSocket-Protocol")) && !known)
        return "the server wants a subprotocol that was not offered";
    if (known)
        ws->protocol = *known;
    return NULL;
}

static void on_call_upgraded(struct http_call *call, struct stream_parts *parts)
{
    struct ws *ws = call->user;
    const char *problem = check_switch(ws, &call->head.headers);

    ws->call = NULL;
    buf_clear(&ws->message);
    if (problem) {
        ws_note_error(ws, EPROTO, problem);
        ws_end_soon(ws);
    } else {
        ws_open(ws, parts, STR_NONE);
    }
}

static void on_call_head(struct http_call *call)
{
    struct ws *ws = call->user;
    char text[64];

    snprintf(text, sizeof(text), "the server answered %d and opened no WebSocket",
             call->head.status);
    ws->call = NULL;
    ws->refused_status = call->head.status;
    ws_note_error(ws, EPROTO, text);
    ws_end_soon(ws);
    http_call_cancel(call);
}

static void on_call_end(struct http_call *call, int error)
{
    struct ws *ws = call->user;

    if (!ws->call) /* it is open, or failed already */
        return;
    ws->call = NULL;
    ws_note_error(ws, error, call->err.msg);
    ws_end_soon(ws);
}

static const struct http_call_ops call_ops = {
    .on_head = on_call_head,
    .on_upgrade = on_call_upgraded,
    .on_end = on_call_end,
};

static int list_protocols(const struct ws_conf *conf, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < conf->protocol_count; i++)
        r = buf_addf(out, "%s%.*s", i ? ", " : "", STR_ARG(conf->protocols[i]));
    return r;
}

static int start_call(struct http_client *client, const struct ws_connect_spec *spec, struct ws *ws,
                      struct str key, struct err *e)
{
    AUTO_BUF(protocols, PROTOCOLS_TEXT_MAX);
    struct http_header rows[5 + WS_CONNECT_HEADERS_MAX] = {
        {STR("Upgrade"),               STR("websocket")},
        {STR("Connection"),            STR("Upgrade")  },
        {STR("Sec-WebSocket-Key"),     key             },
        {STR("Sec-WebSocket-Version"), STR("13")       },
    };
    struct http_call_spec call = {
        .addr = spec->addr,
        .tls = spec->tls,
        .tls_host = spec->tls_host,
        .method = HTTP_GET,
        .target = spec->target,
        .host = spec->host,
        .headers = rows,
        .header_count = 4,
        .upgrade = true,
        .head_ms = spec->open_ms ? spec->open_ms : OPEN_MS_DEFAULT,
        .ops = &call_ops,
        .user = ws,
    };

    if (spec->header_count > WS_CONNECT_HEADERS_MAX || list_protocols(&spec->conf, &protocols) < 0)
        return err_set(e, E2BIG, "too many headers for a WebSocket's handshake");
    if (protocols.n)
        rows[call.header_count++] =
            (struct http_header){STR("Sec-WebSocket-Protocol"), buf_str(&protocols)};
    for (size_t i = 0; i < spec->header_count; i++)
        rows[call.header_count++] = spec->headers[i];
    return http_call_start(client, &call, &ws->call, e);
}

int ws_refused_status(const struct ws *ws)
{
    return ws->refused_status;
}

int ws_connect(struct http_client *client, const struct ws_connect_spec *spec,
               const struct ws_ops *ops, void *user, struct ws **ret_ws, struct err *e)
{
    struct ws *ws = ws_new(http_client_loop(client), WS_CLIENT, &spec->conf, ops, user);
    char random[KEY_BYTES], key[BASE64_TEXT_MAX(KEY_BYTES)], accept[WS_ACCEPT_SIZE];
    int r;

    id_random_bytes(random, sizeof(random));
    base64_encode(str_make(random, sizeof(random)), BASE64_STD, key);
    ws_accept_key(str_of(key), accept);
    r = buf_add(&ws->message, str_of(accept)); /* kept there until the answer */
    if (r < 0)
        r = err_sys(e, -r, "keep its key");
    else
        r = start_call(client, spec, ws, str_of(key), e);
    if (r < 0) {
        ws_free(ws);
        return err_wrap(e, r, "connect a WebSocket");
    }
    if (ret_ws)
        *ret_ws = ws;
    return 0;
}
