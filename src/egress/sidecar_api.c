/* sidecar_api.c - HTTP of a sidecar: the routes at their root, with the token of the sandbox. */
#include <errno.h>

#include "egress/secrets.h"
#include "egress/sidecar.h"

enum { LISTEN_BACKLOG = 128, PATH_BYTES_MAX = 4096 };

static const struct sidecar *sidecar_of(const struct http_req *req)
{
    return container_of((struct egress *)req->server_user, struct sidecar, egress);
}

static void handle_health(struct http_req *req)
{
    if (sidecar_of(req)->ready)
        http_reply(req, 200, STR("text/plain; charset=utf-8"), STR("ok"));
    else
        api_reply_text(req, 503, "mitmproxy not ready");
}

/* Secrets are never readable over HTTP. */
static void handle_active(struct http_req *req)
{
    if (req->head.method == HTTP_GET) {
        api_reply_text(req, 403, "forbidden");
        return;
    }
    (void)http_reply_header(req, STR("Allow"), STR("GET"));
    api_reply_text(req, 405, "method not allowed");
}

static bool is_loopback(const struct sock_addr *peer)
{
    const struct in6_addr *v6 = &peer->v6.sin6_addr;

    if (peer->any.sa_family == AF_INET)
        return ntohl(peer->v4.sin_addr.s_addr) >> 24 == 127;
    return peer->any.sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127));
}

static void handle_vault(struct http_req *req)
{
    static const unsigned writes =
        HTTP_BIT(HTTP_POST) | HTTP_BIT(HTTP_PATCH) | HTTP_BIT(HTTP_DELETE);
    const struct sidecar *s = sidecar_of(req);
    bool changes =
        str_eq(req->head.path, STR("/credential-vault")) && writes & HTTP_BIT(req->head.method);

    if (changes && s->conf.token.n == 0)
        api_reply_text(req, 412, "credential vault requires egress API auth token");
    else if (changes && s->conf.intercepts && !s->conf.insecure && s->conf.vault_by_loopback &&
             !is_loopback(http_req_peer(req)))
        api_reply_text(req, 426, "credential vault writes require TLS or loopback transport");
    else
        api_vault(req);
}

/* secretEnv, from the server that made the sandbox: only with a token, and where the vault takes
 * writes. */
static void handle_secrets(struct http_req *req)
{
    const struct sidecar *s = sidecar_of(req);

    if (s->conf.token.n == 0)
        api_reply_text(req, 412, "secrets require egress API auth token");
    else if (!s->conf.insecure && s->conf.vault_by_loopback && !is_loopback(http_req_peer(req)))
        api_reply_text(req, 426, "secrets require TLS or loopback transport");
    else
        secrets_handle_put(req);
}

/* --- before the routes --- */

static bool is_unclean(struct str path)
{
    return str_find_str(path, STR("//")) < path.n || str_find_str(path, STR("/./")) < path.n ||
           str_find_str(path, STR("/../")) < path.n || str_ends(path, STR("/.")) ||
           str_ends(path, STR("/.."));
}

/* "/a//b/../c" is "/a/c". */
static size_t clean(struct str path, char out[PATH_BYTES_MAX])
{
    struct str rest = path, part;
    size_t n = 0;

    while (str_cut(&rest, '/', &part)) {
        if (str_eq(part, STR(".."))) {
            while (n > 0 && out[--n] != '/')
                ;
        } else if (part.n && !str_eq(part, STR(".")) && n + part.n + 1 < PATH_BYTES_MAX) {
            out[n++] = '/';
            memcpy(out + n, part.p, part.n);
            n += part.n;
        }
    }
    if (n == 0 || str_ends(path, STR("/")))
        out[n++] = '/';
    return n;
}

static bool may_pass(const struct http_req *req)
{
    const struct sidecar *s = sidecar_of(req);
    struct str path = req->head.path;

    return s->conf.token.n == 0 || str_eq(path, STR("/healthz")) ||
           str_eq(path, STR("/credential-vault/_active")) ||
           str_eq_secret(http_req_header(req, STR("OPENSANDBOX-EGRESS-AUTH")), s->conf.token);
}

static bool on_request(struct http_req *req)
{
    char cleaned[PATH_BYTES_MAX + 2];
    struct str path = req->head.path;

    if (is_unclean(path) && path.n < PATH_BYTES_MAX) {
        (void)http_reply_header(req, STR("Location"), str_make(cleaned, clean(path, cleaned)));
        http_reply(req, 301, STR_NONE, STR_NONE);
        return false;
    }
    if (!may_pass(req) &&
        (http_req_route_at(req, path) || str_starts(path, STR("/credential-vault/")))) {
        api_reply_text(req, 401, "unauthorized");
        return false;
    }
    return true;
}

static const struct http_route routes[] = {
    {HTTP_ANY_METHOD,     "/healthz",                  0,                 handle_health,    0                    },
    {HTTP_ANY_METHOD,     "/policy",                   0,                 api_policy,       POLICY_TEXT_BYTES_MAX},
    {HTTP_BIT(HTTP_GET),  "/events",                   0,                 api_events,       0                    },
    {HTTP_BIT(HTTP_GET),  "/events/stream",            0,                 api_event_stream, 0                    },
    {HTTP_BIT(HTTP_GET),  "/metrics",                  0,                 api_metrics,      0                    },
    {HTTP_BIT(HTTP_POST), "/secrets",                  ROUTE_STREAM_BODY, handle_secrets,   0                    },
    {HTTP_ANY_METHOD,     "/credential-vault/_active", 0,                 handle_active,    0                    },
    {HTTP_ANY_METHOD,     "/credential-vault",         ROUTE_STREAM_BODY, handle_vault,     0                    },
    {HTTP_ANY_METHOD,     "/credential-vault/*",       ROUTE_STREAM_BODY, handle_vault,     0                    },
};

int sidecar_api_start(struct sidecar *s, struct err *e)
{
    struct egress *g = &s->egress;
    const struct http_server_conf conf = {
        .routes = routes,
        .route_count = ARRAY_LEN(routes),
        .user = g,
        .on_request = on_request,
        .on_unrouted = api_on_unrouted,
    };
    struct sock_addr addr;
    int fd, r = sock_addr_parse(s->conf.http_addr, &addr, e);

    if (r < 0)
        return err_wrap(e, r, "OPENSANDBOX_EGRESS_HTTP_ADDR");
    r = http_server_new(g->loop, &conf, &g->http, e);
    if (r < 0)
        return r;
    fd = sock_listen(&addr, LISTEN_BACKLOG, e);
    return fd < 0 ? fd : http_server_listen(g->http, fd, e);
}
