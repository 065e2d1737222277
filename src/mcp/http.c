/* http.c - the HTTP server of MCP: sessions, answers, the listener. */
#include "mcp/http.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "mcp/http_guard.h"
#include "net/http_server.h"
#include "net/sse.h"

enum {
    SESSIONS_MAX = 256,
    CONNECTIONS_MAX = 1000,
    PING_MS = 15 * 1000,
    BACKLOG = 128,
};

struct http_mcp {
    struct mcp *mcp;
    struct http_server *server;
    struct list sessions;
    size_t session_count;
    struct session alone; /* of requests without a session */
};

/* --- sessions --- */

static void session_drop(struct http_mcp *h, struct session *s)
{
    list_remove(&s->link);
    h->session_count--;
    free(s);
}

static struct session *session_find(const struct http_mcp *h, struct str id)
{
    LIST_EACH(&h->sessions, at)
    {
        struct session *s = container_of(at, struct session, link);

        if (id.n && str_eq_secret(str_of(s->id), id))
            return s;
    }
    return NULL;
}

/* Makes room: those that were deleted, else the one that was idle for longest. */
static void sessions_sweep(struct http_mcp *h)
{
    struct session *oldest = NULL;

    LIST_EACH(&h->sessions, at)
    {
        struct session *s = container_of(at, struct session, link);

        if (s->calls)
            continue;
        if (!s->id[0])
            session_drop(h, s);
        else if (!oldest || s->used_ms < oldest->used_ms)
            oldest = s;
    }
    if (h->session_count >= SESSIONS_MAX && oldest)
        session_drop(h, oldest);
}

static struct session *session_new(struct http_mcp *h)
{
    struct session *s;

    sessions_sweep(h);
    if (h->session_count >= SESSIONS_MAX)
        return NULL;
    s = mem_new(struct session);
    session_init(s);
    list_push(&h->sessions, &s->link);
    h->session_count++;
    return s;
}

static void on_delete(struct http_req *req)
{
    struct http_mcp *h = req->server_user;
    struct session *s = session_find(h, http_req_header(req, STR("mcp-session-id")));

    if (!s) {
        http_reply_error(req, 404, NULL, "there is no such session");
        return;
    }
    s->id[0] = '\0'; /* freed when its calls ended */
    call_cancel(h->mcp, s, NULL);
    sessions_sweep(h);
    http_reply(req, 204, STR(""), STR(""));
}

/* --- answers --- */

struct reply {
    struct channel channel;
    struct mcp *mcp;
    struct http_req *req; /* NULL once it is gone */
    struct sse sse;
    bool streams, modern;
    bool answered, ended; /* the channel */
};

static void reply_free(struct reply *r)
{
    if (r->ended && !r->req)
        free(r);
}

/* Requests that stand alone are cancelled by hanging up. */
static void reply_gone(struct reply *r)
{
    r->req = NULL;
    if (!r->ended && r->modern)
        call_cancel_channel(r->mcp, &r->channel);
    reply_free(r);
}

static void on_req_close(struct http_req *req, int error UNUSED)
{
    reply_gone(req->user);
}

static void on_sse_close(struct sse *s, int error UNUSED)
{
    reply_gone(container_of(s, struct reply, sse));
}

static const struct http_req_ops req_ops = {.on_close = on_req_close};
static const struct sse_ops sse_ops = {.on_close = on_sse_close};

/* Of JSON-RPC errors; requests of sessions have 200 for all of them but unreadable ones. */
static int status_of(const struct reply *r)
{
    switch ((int)r->channel.code) {
    case RPC_PARSE_ERROR:
    case RPC_INVALID_REQUEST:
    case RPC_HEADER_MISMATCH:
    case RPC_UNSUPPORTED_VERSION:
        return 400;
    case RPC_INVALID_PARAMS:
        return r->modern ? 400 : 200;
    case RPC_METHOD_NOT_FOUND:
        return r->modern ? 404 : 200;
    default:
        return 200;
    }
}

static void on_send(struct channel *c, struct str message, bool is_answer)
{
    struct reply *r = container_of(c, struct reply, channel);
    AUTO_BUF(event, SSE_EVENT_BYTES_MAX);

    if (!r->req)
        return;
    r->answered = r->answered || is_answer;
    if (!r->streams) {
        if (is_answer)
            http_reply(r->req, status_of(r), STR("application/json"), message);
        return;
    }
    if (sse_format(&event, &(struct sse_event){STR("message"), STR(""), message}) < 0)
        sse_end(&r->sse, EMSGSIZE);
    else
        (void)sse_push_bytes(&r->sse, buf_str(&event));
}

static void on_end(struct channel *c)
{
    struct reply *r = container_of(c, struct reply, channel);

    r->ended = true;
    if (r->req && r->streams)
        sse_end(&r->sse, 0);
    else if (r->req && !r->answered) /* cancelled */
        http_reply(r->req, 202, STR(""), STR(""));
    reply_free(r);
}

static struct channel *reply_new(struct http_mcp *h, struct http_req *req,
                                 const struct rpc_message *message, bool modern)
{
    struct reply *r = mem_new(struct reply);

    *r = (struct reply){
        .channel = {.send = on_send, .end = on_end},
        .mcp = h->mcp,
        .req = req,
        .modern = modern,
        .streams =
            message && str_eq(message->method, STR("tools/call")) && guard_accepts_stream(req),
    };
    if (!r->streams) {
        req->ops = &req_ops;
        req->user = r;
        return &r->channel;
    }
    sse_begin(&r->sse, req, &sse_ops);
    sse_set_ping(&r->sse, PING_MS);
    (void)sse_send_comment(&r->sse, STR("")); /* the head, so that nobody waits for it */
    return &r->channel;
}

/* --- requests --- */

static void refuse(struct http_mcp *h, struct http_req *req, struct rpc_message *message,
                   enum rpc_code code, const char *why)
{
    mcp_refuse(reply_new(h, req, NULL, true), message->id, code, why, STR(""));
    rpc_free(message);
}

/* The session of a request of an older revision; NULL when it was refused. */
static struct session *session_of(struct http_mcp *h, struct http_req *req,
                                  const struct rpc_message *message)
{
    struct str id = http_req_header(req, STR("mcp-session-id"));
    struct str version = http_req_header(req, STR("mcp-protocol-version"));
    struct session *s = NULL;

    if (message->kind == RPC_REQUEST && str_eq(message->method, STR("initialize"))) {
        s = session_new(h);
        if (!s)
            http_reply_error(req, 503, NULL, "%d sessions are busy; try again later", SESSIONS_MAX);
        else
            (void)http_reply_header(req, STR("Mcp-Session-Id"), str_of(s->id));
        return s;
    }
    if (version.n && !mcp_knows_version(version)) {
        http_reply_error(req, 400, NULL, "MCP-Protocol-Version: this revision is not supported");
        return NULL;
    }
    if (!id.n) {
        http_reply_error(req, 400, NULL,
                         "Mcp-Session-Id is missing: begin with initialize and send its session");
        return NULL;
    }
    s = session_find(h, id);
    if (!s)
        http_reply_error(req, 404, NULL, "there is no such session; begin with initialize");
    return s;
}

static void on_post(struct http_req *req)
{
    struct http_mcp *h = req->server_user;
    struct rpc_message *message;
    const struct json *version;
    enum rpc_code code;
    struct session *s;
    struct err e = {0};

    if (rpc_read(req->body, &message, &code, &e) < 0) {
        refuse(h, req, message, code, e.msg);
        return;
    }
    version = json_get(json_get(message->params, STR("_meta")), STR(MCP_META_VERSION));
    if (version && guard_check_headers(req, message, version, &e) < 0) {
        refuse(h, req, message, RPC_HEADER_MISMATCH, e.msg);
        return;
    }
    s = version ? &h->alone : session_of(h, req, message);
    if (!s) {
        rpc_free(message);
        return;
    }
    if (message->kind != RPC_REQUEST) {
        mcp_handle(h->mcp, s, NULL, message);
        http_reply(req, 202, STR(""), STR(""));
        return;
    }
    mcp_handle(h->mcp, s, reply_new(h, req, message, version != NULL), message);
}

static bool on_request(struct http_req *req)
{
    struct http_mcp *h = req->server_user;

    return guard_pass(req, h->mcp->options);
}

/* --- life --- */

static int listen_on(const struct options *o, struct err *e)
{
    struct sock_addr address;
    int r = sock_resolve(o->host, o->port, &address, e);

    if (r < 0)
        return r;
    if (!o->token[0] && !guard_is_local(&address))
        return err_set(e, EINVAL,
                       "--host %s can be reached from other machines: set --token, or "
                       "OPENSANDBOX_MCP_TOKEN",
                       o->host);
    return sock_listen(&address, BACKLOG, e);
}

static void announce(int fd, const char *path)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr address;

    if (sock_local_addr(fd, &address) < 0)
        return;
    sock_addr_format(&address, text);
    fprintf(stderr, "opensandbox-mcp: listening on http://%s%s\n", text, path);
}

int http_serve(struct mcp *m, const bool *stop, struct err *e)
{
    const struct http_route routes[] = {
        {HTTP_BIT(HTTP_POST), m->options->path, 0,                    on_post,         RPC_MESSAGE_BYTES_MAX},
        {HTTP_BIT(HTTP_DELETE),                   m->options->path,               0, on_delete},
    };
    struct http_mcp h = {.mcp = m};
    const struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = &h,
        .on_request = on_request,
        .connections_max = CONNECTIONS_MAX,
    };
    int fd = listen_on(m->options, e), r;
    struct list *at;

    if (fd < 0)
        return fd;
    list_init(&h.sessions);
    session_init(&h.alone);
    announce(fd, m->options->path);
    r = http_server_new(m->loop, &conf, &h.server, e);
    if (r == 0)
        r = http_server_listen(h.server, fd, e);
    while (r >= 0 && !*stop)
        r = mcp_turn(m, -1, e);
    mcp_finish(m);
    http_server_free(h.server);
    loop_settle(m->loop);
    while ((at = list_take(&h.sessions)))
        session_drop(&h, container_of(at, struct session, link));
    return r < 0 ? r : 0;
}
