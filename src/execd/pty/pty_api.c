#include "execd/pty/pty_api.h"

#include <unistd.h>

#include "base/url.h"
#include "execd/command/workdir.h"
#include "execd/core/answer.h"
#include "execd/core/routes.h"
#include "execd/pty/pty.h"
#include "execd/pty/pty_client.h"
#include "net/ws_frame.h"

enum {
    REQUEST_ARENA_BYTES_MAX = 8 << 20,
    REPLY_BYTES_MAX = 256,
};

static struct execd_api *api_of(const struct http_req *req)
{
    return req->server_user;
}

/* The session named in the path. If NULL, the reply was sent. */
static struct pty *session_of(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    struct pty *p = ptys_find(api_of(req)->ptys, id);

    if (!p)
        answer_error(req, 404, "CONTEXT_NOT_FOUND", "pty session %.*s not found", STR_ARG(id));
    return p;
}

/* --- POST /pty --- */

struct body {
    struct str cwd, command;
};

static const struct json_field body_fields[] = {
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct body, cwd, .min = 0),
    JSON_FIELD("command", JSON_AS_STR, JSON_NULLABLE, struct body, command, .min = 0),
};
static const struct json_table body_table = JSON_TABLE(struct body, body_fields, 0);

static int read_body(const struct http_req *req, struct arena *a, struct body *ret, struct err *e)
{
    int r = answer_read_optional(req, a, &body_table, ret, e);

    if (r >= 0 && str_has_nul(ret->command))
        r = err_set(e, EBADMSG, "command: it holds a NUL byte, which no program can be given");
    if (ret->command.n == 0)
        ret->command = STR_NONE;
    return r;
}

static void reply_created(struct http_req *req, const struct pty *p)
{
    AUTO_BUF(b, REPLY_BYTES_MAX);

    (void)buf_addf(&b, "{\"session_id\":\"%s\"}", p->id);
    answer_json(req, 201, buf_str(&b));
}

void post_pty(struct http_req *req)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    const char *cwd = NULL;
    struct body body = {STR_NONE, STR_NONE};
    struct err e = {0};
    struct pty *p;

    if (read_body(req, &arena, &body, &e) < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY", "error parsing request: %s", e.msg);
        return;
    }
    if (workdir_make(&arena, body.cwd, (const char *const *)environ, usual_user(req), &cwd, &e) <
            0 ||
        pty_new(api_of(req)->ptys, str_of(cwd), body.command, &p, &e) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "error creating pty session: %s", e.msg);
    else
        reply_created(req, p);
}

/* --- GET and DELETE /pty/{id} --- */

void get_pty(struct http_req *req)
{
    const struct pty *p = session_of(req);
    AUTO_BUF(b, REPLY_BYTES_MAX);

    if (!p)
        return;
    (void)buf_addf(&b, "{\"session_id\":\"%s\",\"running\":%s,\"output_offset\":%llu}", p->id,
                   pty_is_running(p) ? "true" : "false", (unsigned long long)p->replay.written);
    answer_json(req, 200, buf_str(&b));
}

static void removal_on_done(void *user)
{
    struct http_req *req = user;

    req->ops = NULL;
    answer_empty(req);
}

/* The client disconnected; the session is removed all the same. */
static void removal_on_close(struct http_req *req, int error UNUSED)
{
    pty_forget_removal(req->user);
}

static const struct http_req_ops removal_req_ops = {.on_close = removal_on_close};

void delete_pty(struct http_req *req)
{
    struct pty *p = session_of(req);

    if (!p)
        return;
    req->ops = &removal_req_ops;
    req->user = p;
    pty_remove(p, removal_on_done, req);
}

/* --- GET /pty/{id}/ws --- */

static struct str query_of(struct http_req *req, struct str name)
{
    struct str value = STR_NONE;

    return url_query_get(req->head.query, name, &req->arena, &value) > 0 ? value : STR_NONE;
}

static void refuse(struct http_req *req, int status, struct str text)
{
    (void)http_reply_header(req, STR("Sec-Websocket-Version"), STR("13"));
    if (status == 426)
        (void)http_reply_header(req, STR("Upgrade"), STR("websocket"));
    http_reply(req, status, ANSWER_TEXT, text);
}

/* Replies with the texts that clients of this API expect; those of ws_accept() differ. */
static bool is_handshake(struct http_req *req)
{
    const struct http_headers *headers = &req->head.headers;

    if (!http_headers_have_token(headers, STR("Connection"), STR("upgrade")))
        refuse(req, 400, STR("Bad Request\n"));
    else if (!http_headers_have_token(headers, STR("Upgrade"), STR("websocket")))
        refuse(req, 426, STR("Upgrade Required\n"));
    else if (!str_eq(http_req_header(req, STR("Sec-WebSocket-Version")), STR("13")) ||
             !ws_key_is_valid(http_req_header(req, STR("Sec-WebSocket-Key"))))
        refuse(req, 400, STR("Bad Request\n"));
    else
        return true;
    return false;
}

void get_pty_ws(struct http_req *req)
{
    struct pty *p = session_of(req);
    struct pty_client_conf conf = {
        .clients = &api_of(req)->pty_clients,
        .ptys = api_of(req)->ptys,
        .pty = p,
        .is_pty = !str_eq(query_of(req, STR("pty")), STR("0")),
    };
    bool takeover =
        str_eq(query_of(req, STR("takeover")), STR("1")) && http_req_header(req, STR("Upgrade")).n;

    if (!p)
        return;
    if (str_to_i64(query_of(req, STR("since")), &conf.since) < 0)
        conf.since = 0;
    if (pty_is_held(p) && !takeover)
        answer_error(req, 409, "ALREADY_CONNECTED",
                     "another client is already connected to pty session %s", p->id);
    else if (is_handshake(req))
        pty_client_accept(req, &conf);
}
