/* api.c - HTTP, to the server only, over a unix socket that other accounts cannot open.
 *
 * /sandboxes/{id}/api/... is what clients reach as port 18080 of a sandbox, through the gateway,
 * which has checked their credentials. Its errors are plain text, as the contract has them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/url.h"
#include "egress/egress.h"
#include "egress/secrets.h"

enum {
    BODY_BYTES_MAX = POLICY_TEXT_BYTES_MAX,
    ANSWER_BYTES_MAX = 4 * 1024 * 1024,
    LISTEN_BACKLOG = 128,
    RULES_SHOWN_MAX = 1024,
};

#define NEEDS_PROXY                                                                                \
    "rules with methods and paths need interception: create the sandbox with credentialProxy "     \
    "{\"enabled\":true}"
#define POLICY_METHODS "GET, POST, PUT, PATCH, DELETE"

/* A request that changes a policy. */
struct writing {
    struct list link;
    struct guarded *guarded;
    struct http_req *req; /* NULL when the client is gone */
    enum http_method method;
    struct buf body;
    const char *reason; /* of the answer; NULL = none */
    bool plain;         /* the answer has no enforcementMode */
};

static struct egress *egress_of(const struct http_req *req)
{
    return req->server_user;
}

void api_reply_text(struct http_req *req, int status, const char *fmt, ...)
{
    AUTO_BUF(text, 1024);
    va_list ap;

    va_start(ap, fmt);
    (void)buf_vaddf(&text, fmt, ap);
    va_end(ap);
    (void)buf_add_char(&text, '\n');
    (void)http_reply_header(req, STR("X-Content-Type-Options"), STR("nosniff"));
    http_reply(req, status, STR("text/plain; charset=utf-8"), buf_str(&text));
}

struct guarded *api_guarded(struct http_req *req)
{
    struct guarded *b = NULL;
    struct err e = {0};
    int r = guarded_open(egress_of(req), http_req_param(req, "id"), &b, &e);

    if (r < 0)
        api_reply_text(req, r == -ENOENT ? 404 : 500, "%s",
                       r == -ENOENT ? "there is no such sandbox" : e.msg);
    return b;
}

/* --- /policy --- */

static void reply_status(struct http_req *req, const struct policy *p, const char *reason,
                         bool plain, bool with_policy)
{
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    AUTO_BUF(text, ANSWER_BYTES_MAX);
    struct json_writer w;
    int r;

    json_write_begin(&w, &out);
    json_write_object(&w);
    json_member_string(&w, STR("status"), STR("ok"));
    json_member_string(&w, STR("mode"), str_of(policy_mode(p)));
    if (!plain)
        json_member_string(&w, STR("enforcementMode"),
                           egress_of(req)->conf.dns_only ? STR("dns") : STR("dns+nft"));
    if (reason)
        json_member_string(&w, STR("reason"), str_of(reason));
    r = with_policy ? policy_write(p, &text) : 0;
    if (with_policy && r == 0) {
        json_write_key(&w, STR("policy"));
        json_write_raw(&w, buf_str(&text));
    }
    json_write_object_end(&w);
    if (json_write_end(&w) < 0 || r < 0 || buf_add_char(&out, '\n') < 0)
        api_reply_text(req, 500, "internal error: the answer is too long");
    else
        http_reply(req, 200, STR("application/json"), buf_str(&out));
}

static void writing_next(struct guarded *b);

static void writing_free(struct writing *w)
{
    if (w->req)
        w->req->user = NULL;
    buf_done(&w->body);
    free(w);
}

static void log_updated(const struct writing *w)
{
    const struct guarded *b = w->guarded;
    struct str rules = buf_str(&w->body);

    rules.n = min_size(rules.n, RULES_SHOWN_MAX);
    log_event(
        LOG_INFO, "policy updated", LOG_STR("opensandbox.event", "egress.updated"),
        LOG_STR("sandbox", b->id), LOG_STR("method", http_method_name(w->method)),
        LOG_STR("rules", rules),
        LOG_STR("egress.default", b->policy->default_action == POLICY_ALLOW ? "allow" : "deny"));
}

static void log_failed(const struct guarded *b, int status, const char *why)
{
    log_event(status < 500 ? LOG_WARN : LOG_ERROR, "cannot change a policy",
              LOG_STR("opensandbox.event", "egress.update_failed"), LOG_STR("sandbox", b->id),
              LOG_I64("status", status), LOG_STR("error", why));
}

static void on_written(void *user, int result, const struct err *e)
{
    struct writing *w = user;
    struct guarded *b = w->guarded;

    list_remove(&w->link);
    b->request_count--;
    if (result == 0) {
        guarded_event(b, "policy.change", http_method_name(w->method).p,
                      str_of(policy_mode(b->policy)));
        log_updated(w);
    } else {
        log_failed(b, 500, e->msg);
    }
    if (w->req && result == 0)
        reply_status(w->req, b->policy, w->reason, w->plain, false);
    else if (w->req)
        api_reply_text(w->req, 500, "%s", e->msg);
    writing_free(w);
    if (!b->gone)
        writing_next(b);
}

/* The policy that a request asks for. 0; 1 = nothing changes; -errno. */
static int writing_policy(struct writing *w, struct policy **ret, struct err *e)
{
    const struct policy *old = w->guarded->policy;
    struct str body = str_trim(buf_str(&w->body));
    size_t removed = 0;
    int r;

    if (w->method == HTTP_PATCH) {
        r = body.n ? policy_patch(old, body, ret, e) : err_set(e, EBADMSG, "empty body");
        return r < 0 && body.n ? err_wrap(e, r, "invalid patch rules") : r;
    }
    if (w->method == HTTP_DELETE) {
        r = body.n ? policy_without(old, body, ret, &removed, e)
                   : err_set(e, EBADMSG, "empty body");
        if (r < 0)
            return body.n ? err_wrap(e, r, "invalid delete targets") : r;
        w->reason = removed ? NULL : "no matching targets found";
        return removed ? 0 : 1;
    }
    if (body.n == 0) {
        w->reason = "policy reset to default deny-all";
        w->plain = true;
        *ret = policy_plain(POLICY_DENY);
        return *ret ? 0 : err_set(e, ENOMEM, "out of memory");
    }
    r = policy_parse(body, ret, e);
    return r < 0 ? err_wrap(e, r, "invalid policy") : 0;
}

static void refuse(struct writing *w, int status, const struct err *e)
{
    log_failed(w->guarded, status, e->msg);
    api_reply_text(w->req, status, "%s", e->msg);
}

/* Begins a request; false when it was answered at once. */
static bool writing_start(struct writing *w)
{
    const struct egress *g = w->guarded->egress;
    auto_policy *p = NULL;
    struct err e = {0};
    int r = w->req ? writing_policy(w, &p, &e) : 1;

    if (r == 0 && g->conf.rules_max && p->count > g->conf.rules_max)
        api_reply_text(w->req, 413, "egress rule total count %zu exceeds limit %u", p->count,
                       g->conf.rules_max);
    else if (r == 0 && policy_has_http(p) && !w->guarded->intercept)
        api_reply_text(w->req, 400, "%s", NEEDS_PROXY);
    else if (r == 0 && catcher_check(w->guarded, p, &e) < 0)
        refuse(w, 400, &e);
    else if (r == 0) {
        change_start(w->guarded, take_ptr(&p), true, on_written, w);
        return true;
    } else if (r == 1 && w->req)
        reply_status(w->req, p ? p : w->guarded->policy, w->reason, w->plain, false);
    else if (r < 0)
        refuse(w, r == -ENOMEM ? 500 : 400, &e);
    return false;
}

static void writing_next(struct guarded *b)
{
    LIST_EACH(&b->requests, at)
    {
        struct writing *w = container_of(at, struct writing, link);

        if (writing_start(w))
            return;
        list_remove(&w->link);
        b->request_count--;
        writing_free(w);
    }
}

void api_forget(struct guarded *b)
{
    bool busy = !list_empty(&b->changes); /* the first is answered when its change ends */

    LIST_EACH(&b->requests, at)
    {
        struct writing *w = container_of(at, struct writing, link);

        if (busy && at == b->requests.next)
            continue;
        list_remove(&w->link);
        b->request_count--;
        if (w->req)
            api_reply_text(w->req, 404, "the sandbox was removed");
        writing_free(w);
    }
}

static void on_close(struct http_req *req, int error UNUSED)
{
    struct writing *w = req->user;

    if (w)
        w->req = NULL;
}

static const struct http_req_ops writing_ops = {.on_close = on_close};

void api_policy(struct http_req *req)
{
    static const unsigned writes =
        HTTP_BIT(HTTP_POST) | HTTP_BIT(HTTP_PUT) | HTTP_BIT(HTTP_PATCH) | HTTP_BIT(HTTP_DELETE);
    struct guarded *b;
    struct writing *w;

    if (req->head.method != HTTP_GET && !(writes & HTTP_BIT(req->head.method))) {
        (void)http_reply_header(req, STR("Allow"), STR(POLICY_METHODS));
        api_reply_text(req, 405, "method not allowed");
        return;
    }
    b = api_guarded(req);
    if (!b)
        return;
    if (req->head.method == HTTP_GET) {
        reply_status(req, b->policy, NULL, false, true);
        return;
    }
    if (b->request_count >= EGRESS_REQUESTS_MAX) {
        api_reply_text(req, 503, "too many changes of this policy at once");
        return;
    }
    w = mem_new(struct writing);
    *w = (struct writing){.guarded = b, .req = req, .method = req->head.method};
    buf_init(&w->body, BODY_BYTES_MAX);
    if (http_req_hold(req, req->body.n) < 0 || buf_add(&w->body, req->body) < 0) {
        writing_free(w);
        return;
    }
    req->user = w;
    req->ops = &writing_ops;
    list_push(&b->requests, &w->link);
    b->request_count++;
    if (b->request_count == 1)
        writing_next(b);
}

static void handle_health(struct http_req *req)
{
    http_reply(req, 200, STR("text/plain; charset=utf-8"), STR("ok"));
}

/* --- for the server --- */

static void handle_check(struct http_req *req)
{
    auto_policy *p = NULL;
    struct err e = {0};
    uint32_t max = egress_of(req)->conf.rules_max;

    if (policy_parse(req->body, &p, &e) < 0)
        api_reply_text(req, 400, "%s", e.msg);
    else if (max && p->count > max)
        api_reply_text(req, 413, "egress rule total count %zu exceeds limit %u", p->count, max);
    else if (policy_has_http(p) && !str_eq(req->head.query, STR("credentialProxy=true")))
        api_reply_text(req, 400, "%s", NEEDS_PROXY);
    else
        http_reply(req, 204, STR_NONE, STR_NONE);
}

static void on_attached(void *user, int result, const struct err *e)
{
    struct writing *w = user;

    if (w->req && result == 0)
        http_reply(w->req, 204, STR_NONE, STR_NONE);
    else if (w->req)
        api_reply_text(w->req, result == -ENOENT ? 404 : 500, "%s", e->msg);
    writing_free(w);
}

/* Puts the policy of a sandbox that runs now in force. */
static void handle_attach(struct http_req *req)
{
    struct guarded *b = api_guarded(req);
    struct writing *w;
    struct err e = {0};

    if (!b)
        return;
    if (!b->given) {
        http_reply(req, 204, STR_NONE, STR_NONE);
        return;
    }
    if (catcher_attach(b, &e) < 0) {
        api_reply_text(req, 500, "%s", e.msg);
        return;
    }
    w = mem_new(struct writing);
    *w = (struct writing){.guarded = b, .req = req};
    buf_init(&w->body, BODY_BYTES_MAX);
    req->user = w;
    req->ops = &writing_ops;
    change_start(b, NULL, false, on_attached, w);
}

/* The certificate that the sandbox must trust, before it starts. */
static void handle_authority(struct http_req *req)
{
    struct guarded *b = api_guarded(req);
    struct err e = {0};

    if (!b)
        return;
    if (!b->intercept)
        api_reply_text(req, 404, "the sandbox has no credential proxy");
    else if (catcher_attach(b, &e) < 0)
        api_reply_text(req, 500, "%s", e.msg);
    else
        http_reply(req, 200, STR("application/x-pem-file"), intercept_ca_certificate(b->box));
}

static void vault_act(struct http_req *req, struct str body, void *user UNUSED)
{
    struct guarded *b = api_guarded(req);
    size_t at = str_find_str(req->head.path, STR("/credential-vault"));
    struct str path;

    if (!b)
        return;
    if (url_decode_in(&req->arena, str_skip(req->head.path, at), 0, &path) < 0)
        api_reply_text(req, 400, "the path does not decode");
    else
        catcher_serve_vault(req, b, path, body);
}

/* The body first: the sandbox may be removed before it is complete. */
void api_vault(struct http_req *req)
{
    vault_collect(req, vault_act, NULL);
}

static void handle_detach(struct http_req *req)
{
    struct guarded *b = guarded_find(egress_of(req), http_req_param(req, "id"));

    if (b)
        guarded_remove(b);
    http_reply(req, 204, STR_NONE, STR_NONE);
}

static void reply_json(struct http_req *req, struct json_writer *w, struct buf *out)
{
    if (json_write_end(w) < 0)
        api_reply_text(req, 500, "internal error: the answer is too long");
    else
        http_reply(req, 200, STR("application/json"), buf_str(out));
}

static void handle_stats(struct http_req *req)
{
    AUTO_BUF(out, ANSWER_BYTES_MAX);
    const struct egress *g = egress_of(req);
    const struct egress_stats *s = &g->stats;
    const struct {
        struct str name;
        uint64_t value;
    } rows[] = {
        {STR("sandboxes"),    g->guarded.n    },
        {STR("queries"),      s->queries      },
        {STR("denied"),       s->denied       },
        {STR("answered"),     s->answered     },
        {STR("cached"),       s->cached       },
        {STR("failed"),       s->failed       },
        {STR("changes"),      s->changes      },
        {STR("learned"),      s->learned      },
        {STR("brokerErrors"), s->broker_errors},
        {STR("vaultUses"),    s->vault_uses   },
        {STR("vaultsLost"),   s->vaults_lost  },
    };
    struct json_writer w;

    json_write_begin(&w, &out);
    json_write_object(&w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        json_member_u64(&w, rows[i].name, rows[i].value);
    json_write_object_end(&w);
    reply_json(req, &w, &out);
}

static const struct http_route routes[] = {
    {HTTP_BIT(HTTP_GET),    "/healthz",                               0,                 handle_health,        0             },
    {HTTP_BIT(HTTP_GET),    "/stats",                                 0,                 handle_stats,         0             },
    {HTTP_BIT(HTTP_POST),   "/check",                                 0,                 handle_check,         BODY_BYTES_MAX},
    {HTTP_BIT(HTTP_POST),   "/sandboxes/{id}/attach",                 0,                 handle_attach,        0             },
    {HTTP_BIT(HTTP_POST),   "/check-secrets",                         ROUTE_STREAM_BODY, secrets_handle_check, 0             },
    {HTTP_BIT(HTTP_POST),   "/sandboxes/{id}/secrets",                ROUTE_STREAM_BODY, secrets_handle_put,   0             },
    {HTTP_BIT(HTTP_DELETE), "/sandboxes/{id}",                        0,                 handle_detach,        0             },
    {HTTP_BIT(HTTP_GET),    "/sandboxes/{id}/events",                 0,                 api_events,           0             },
    {HTTP_BIT(HTTP_GET),    "/sandboxes/{id}/event-lines",            0,                 api_event_lines,      0             },
    {HTTP_BIT(HTTP_GET),    "/sandboxes/{id}/api/events",             0,                 api_events,           0             },
    {HTTP_BIT(HTTP_GET),    "/sandboxes/{id}/api/events/stream",      0,                 api_event_stream,     0             },
    {HTTP_BIT(HTTP_GET),    "/sandboxes/{id}/api/metrics",            0,                 api_metrics,          0             },
    {HTTP_BIT(HTTP_GET),    "/metrics",                               0,                 api_metrics,          0             },
    {HTTP_ANY_METHOD,       "/sandboxes/{id}/api/healthz",            0,                 handle_health,        0             },
    {HTTP_ANY_METHOD,       "/sandboxes/{id}/api/policy",             0,                 api_policy,           BODY_BYTES_MAX},
    {HTTP_BIT(HTTP_POST),   "/sandboxes/{id}/authority",              0,                 handle_authority,     0             },
    {HTTP_ANY_METHOD,       "/sandboxes/{id}/api/credential-vault",   ROUTE_STREAM_BODY, api_vault,            0             },
    {HTTP_ANY_METHOD,       "/sandboxes/{id}/api/credential-vault/*", ROUTE_STREAM_BODY, api_vault,            0             },
};

void api_on_unrouted(struct http_req *req, unsigned allowed)
{
    if (allowed)
        api_reply_text(req, 405, "method not allowed");
    else
        api_reply_text(req, 404, "404 page not found");
}

int api_start(struct egress *g, struct err *e)
{
    const struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = g,
        .on_unrouted = api_on_unrouted,
    };
    int r = http_server_new(g->loop, &conf, &g->http, e);

    if (r < 0)
        return r;
    if (listen(g->door, LISTEN_BACKLOG) < 0)
        return err_sys(e, errno, "listen on %s", g->conf.socket);
    return http_server_listen(g->http, take_fd(&g->door), e);
}

int api_bind(struct egress *g, struct err *e)
{
    struct sock_addr addr = {.size = sizeof(addr.path)};
    mode_t mask;

    addr.path.sun_family = AF_UNIX;
    if (str_copy(addr.path.sun_path, sizeof(addr.path.sun_path), str_of(g->conf.socket)) < 0)
        return err_set(e, ENAMETOOLONG, "the path '%s' is too long for a socket", g->conf.socket);
    mask = umask(0177);
    g->door = sock_bound(&addr, e);
    (void)umask(mask);
    return g->door < 0 ? g->door : 0;
}
