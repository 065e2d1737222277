/* vault_serve.c - the HTTP routes of a vault. Bodies are collected in locked memory. */
#include <errno.h>

#include "base/mem.h"
#include "egress/vault/vault.h"
#include "net/http_server.h"

enum {
    BODY_BYTES_MAX = 1 << 20,
    BODY_MEMORY_MAX = 4 << 20, /* while it grows, the old and the new copy exist */
    ANSWER_BYTES_MAX = 4 << 20,
};

/* --- replies --- */

static void reply_text(struct http_req *req, int status, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Errors are text, as clients of the original expect. */
static void reply_text(struct http_req *req, int status, const char *fmt, ...)
{
    AUTO_BUF(b, 1024);
    va_list ap;

    va_start(ap, fmt);
    (void)buf_vaddf(&b, fmt, ap);
    va_end(ap);
    (void)buf_add_char(&b, '\n');
    (void)http_reply_header(req, STR("X-Content-Type-Options"), STR("nosniff"));
    http_reply(req, status, STR("text/plain; charset=utf-8"), buf_str(&b));
}

static void reply_failure(struct http_req *req, int r, const struct err *e)
{
    static const struct {
        int code, status;
    } rows[] = {
        {EEXIST, 409},
        {ESTALE, 409},
        {ENOENT, 404},
        {EINVAL, 400},
        {ENOMEM, 503}
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].code == -r) {
            reply_text(req, rows[i].status, "%s", e->msg);
            return;
        }
    }
    reply_text(req, 500, "internal error: %s", e->msg);
}

typedef void write_fn(struct json_writer *w, const struct vault_set *s, const void *item);

static void reply_json(struct http_req *req, int status, const struct vault_set *s, write_fn *write,
                       const void *item)
{
    AUTO_BUF(b, ANSWER_BYTES_MAX);
    struct json_writer w;

    json_write_begin(&w, &b);
    write(&w, s, item);
    if (json_write_end(&w) < 0 || buf_add_char(&b, '\n') < 0)
        reply_text(req, 500, "internal error: the answer is too large");
    else
        http_reply(req, status, STR("application/json"), buf_str(&b));
}

static void write_state(struct json_writer *w, const struct vault_set *s, const void *item UNUSED)
{
    vault_write_state(w, s);
}

static void write_credentials(struct json_writer *w, const struct vault_set *s,
                              const void *item UNUSED)
{
    vault_write_credentials(w, s);
}

static void write_bindings(struct json_writer *w, const struct vault_set *s,
                           const void *item UNUSED)
{
    vault_write_bindings(w, s);
}

static void write_one_credential(struct json_writer *w, const struct vault_set *s UNUSED,
                                 const void *item)
{
    vault_write_credential(w, item);
}

static void write_one_binding(struct json_writer *w, const struct vault_set *s, const void *item)
{
    vault_write_binding(w, s, item);
}

/* --- writes --- */

/* A body that is being collected; lives in the request's arena. */
struct collecting {
    vault_act_fn *act;
    void *user;
    struct secret_arena memory;
    char *p; /* in `memory` */
    size_t n, cap;
};

static void collecting_end(struct http_req *req, struct collecting *w)
{
    w->act(req, str_make(w->p ? w->p : "", w->n), w->user);
    secret_done(&w->memory);
    w->p = NULL;
    w->n = w->cap = 0;
}

static void serve_write(struct vault *v, const struct vault_host *h, struct http_req *req,
                        struct str json)
{
    bool creates = req->head.method == HTTP_POST;
    struct vault_set *s;
    struct err e = {0};
    int r = creates ? vault_create(v, json, h, &e) : vault_patch(v, json, h, &e);

    if (r < 0) {
        reply_failure(req, r, &e);
        return;
    }
    s = vault_current(v);
    reply_json(req, creates ? 201 : 200, s, write_state, NULL);
    vault_set_unref(s);
}

/* Makes room for `n` bytes in all, in a new piece of locked memory. */
static int collecting_reserve(struct collecting *w, size_t n)
{
    struct secret_arena larger;
    char *p;

    if (n <= w->cap)
        return 0;
    n = max_size(n, 2 * w->cap);
    secret_init(&larger, BODY_MEMORY_MAX);
    p = secret_alloc(&larger, n);
    if (!p)
        return -ENOMEM;
    if (w->n)
        memcpy(p, w->p, w->n);
    secret_done(&w->memory);
    w->memory = larger;
    w->p = p;
    w->cap = n;
    return 0;
}

static ssize_t collecting_on_body(struct http_req *req, struct str piece)
{
    struct collecting *w = req->user;

    if (req->status)
        return (ssize_t)piece.n; /* refused already */
    if (piece.n > BODY_BYTES_MAX - w->n) {
        reply_text(req, 400, "the body is larger than %d bytes", BODY_BYTES_MAX);
    } else if (collecting_reserve(w, w->n + piece.n) < 0) {
        reply_text(req, 503, "no locked memory for the credential vault (RLIMIT_MEMLOCK)");
    } else {
        memcpy(w->p + w->n, piece.p, piece.n);
        w->n += piece.n;
        mem_wipe((char *)piece.p, piece.n); /* of the connection's input, which is ours to spoil */
    }
    return (ssize_t)piece.n;
}

static void collecting_on_body_end(struct http_req *req)
{
    if (!req->status)
        collecting_end(req, req->user);
}

static void collecting_on_close(struct http_req *req, int error UNUSED)
{
    struct collecting *w = req->user;

    secret_done(&w->memory);
}

static const struct http_req_ops collecting_ops = {
    .on_body = collecting_on_body,
    .on_body_end = collecting_on_body_end,
    .on_close = collecting_on_close,
};

void vault_collect(struct http_req *req, vault_act_fn *act, void *user)
{
    struct collecting *w = arena_new(&req->arena, struct collecting);

    if (!w) {
        reply_text(req, 503, "out of memory");
        return;
    }
    w->act = act;
    w->user = user;
    secret_init(&w->memory, BODY_MEMORY_MAX);
    if (req->body_state == HTTP_BODY_DONE) {
        collecting_end(req, w);
        return;
    }
    req->ops = &collecting_ops;
    req->user = w;
}

static void serve_delete(struct vault *v, const struct vault_host *h, struct http_req *req)
{
    struct err e = {0};
    int r = vault_delete(v, h, &e);

    if (r < 0)
        reply_failure(req, r, &e);
    else
        http_reply(req, 204, STR_NONE, STR_NONE);
}

static bool is_local(const struct http_req *req)
{
    const struct sock_addr *peer = http_req_peer(req);

    switch (peer->any.sa_family) {
    case AF_INET:
        return (ntohl(peer->v4.sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&peer->v6.sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&peer->v6.sin6_addr) && peer->v6.sin6_addr.s6_addr[12] == 127);
    default:
        return true; /* a unix socket */
    }
}

/* False when it has replied. */
static bool write_allowed(const struct vault_host *h, struct http_req *req)
{
    const char *why = NULL;

    if (!h->intercepting)
        why = "credential vault requires transparent mitmproxy";
    else if (h->insecure)
        why = "credential vault rejects insecure upstream TLS mode";
    else if (!h->ready)
        why = "credential proxy is not ready";
    if (why)
        reply_text(req, 412, "%s", why);
    else if (!h->cleartext && !http_req_is_secure(req) && !is_local(req))
        reply_text(req, 426, "credential vault writes require TLS or loopback transport");
    else
        return true;
    return false;
}

/* --- routes --- */

static void reply_method(struct http_req *req, struct str allow)
{
    (void)http_reply_header(req, STR("Allow"), allow);
    reply_text(req, 405, "method not allowed");
}

/* The text begins as it always does: clients may look for it. */
static void reply_missing(const struct vault *v, struct http_req *req)
{
    if (vault_is_lost(v))
        reply_text(req, 404,
                   "credential vault not found: it was lost when opensandbox-egress was started "
                   "again; create it anew, or delete it");
    else
        reply_text(req, 404, "credential vault not found");
}

static void serve_whole(struct vault *v, const struct vault_host *h, struct http_req *req,
                        const struct vault_set *s, struct str body)
{
    switch (req->head.method) {
    case HTTP_GET:
        if (s)
            reply_json(req, 200, s, write_state, NULL);
        else
            reply_missing(v, req);
        return;
    case HTTP_POST:
    case HTTP_PATCH:
        if (write_allowed(h, req))
            serve_write(v, h, req, body);
        return;
    case HTTP_DELETE:
        if (write_allowed(h, req))
            serve_delete(v, h, req);
        return;
    default:
        reply_method(req, STR("GET, POST, PATCH, DELETE"));
    }
}

static void serve_credential(struct http_req *req, const struct vault_set *s, struct str name)
{
    const struct vault_credential *c = vault_set_credential(s, name);

    if (c && !c->env)
        reply_json(req, 200, s, write_one_credential, c);
    else
        reply_text(req, 404, "credential not found");
}

static void serve_binding(struct http_req *req, const struct vault_set *s, struct str name)
{
    const struct vault_binding *b = vault_set_binding(s, name);

    if (b && !b->env)
        reply_json(req, 200, s, write_one_binding, b);
    else
        reply_text(req, 404, "binding not found");
}

static void serve_below(const struct vault *v, struct http_req *req, const struct vault_set *s,
                        struct str rest)
{
    static const struct str credentials = STR_INIT("/credentials"),
                            bindings = STR_INIT("/bindings");
    struct str name = STR_NONE;
    bool is_credential = str_starts(rest, credentials);
    struct str kind = is_credential ? credentials : bindings;

    if (!str_starts(rest, kind) || (rest.n > kind.n && rest.p[kind.n] != '/')) {
        reply_text(req, 404, "404 page not found");
        return;
    }
    if (req->head.method != HTTP_GET) {
        reply_method(req, STR("GET"));
        return;
    }
    if (rest.n > kind.n)
        name = str_skip(rest, kind.n + 1);
    if (!s)
        reply_missing(v, req);
    else if (!name.p)
        reply_json(req, 200, s, is_credential ? write_credentials : write_bindings, NULL);
    else if (is_credential)
        serve_credential(req, s, name);
    else
        serve_binding(req, s, name);
}

void vault_serve(struct vault *v, const struct vault_host *h, struct http_req *req, struct str path,
                 struct str body)
{
    static const struct str prefix = STR_INIT("/credential-vault");
    struct vault_set *s = vault_exists(v) ? vault_current(v) : NULL;
    struct str rest = str_starts(path, prefix) ? str_skip(path, prefix.n) : STR("/");

    if (rest.n == 0)
        serve_whole(v, h, req, s, body);
    else if (str_eq(rest, STR("/_active")) && req->head.method == HTTP_GET)
        reply_text(req, 403, "forbidden"); /* values leave this process in requests only */
    else if (str_eq(rest, STR("/_active")))
        reply_method(req, STR("GET"));
    else
        serve_below(v, req, s, rest);
    vault_set_unref(s);
}
