/* gateway.c - checks access to a sandbox, and hands the request to the HTTP proxy.
 *
 *   credential ──► port ──► sandbox ──► its state ──► forwarded
 *      401          400       404     400, 501, 503   502 when execd does not answer
 *
 * The order matters: without a valid credential a client gets the same 401 whether or not the
 * sandbox exists. */
#include "server/gateway/gateway.h"

#include <arpa/inet.h>
#include <assert.h>

#include "base/codec.h"
#include "base/mem.h"
#include "net/http_proxy.h"
#include "net/ws_frame.h"
#include "server/http/guard.h"

enum {
    KEPT_MAX = 1024,
    FORWARDED_ROWS_MAX = 3,
    BASIC_BYTES_MAX = BASE64_DATA_MAX(H1_HEAD_BYTES_MAX),
};

struct gateway {
    struct gateway_conf conf;
    struct http_client *client;
    struct http_tunnels tunnels;
    struct gateway_stats stats;
    struct wakes wakes;
};

/* A request to the gateway. */
struct visit {
    struct str sandbox_id;
    struct str port_text;
    uint16_t port; /* 0 = not a port */
    bool known;
    struct gateway_target target; /* valid if known */
};

/* --- credentials --- */

enum credential { CREDENTIAL_NONE, CREDENTIAL_WRONG, CREDENTIAL_RIGHT };

/* The best credential of a request so far, and whose it is. */
struct verdict {
    enum credential credential;
    struct principal principal; /* of a right one */
};

enum {
    IS_API_KEY = 1,
    IS_TOKEN = 2,
    IS_SIGNED_ROUTE = 4,
    MUST_BE_RIGHT = 8, /* a wrong value is refused even if another credential is right */
    IS_OURS = 16,      /* removed from the request before forwarding, whatever its value */
};

/* Headers that may carry a credential, and the values each accepts. Clients may send either secret
 * in execd's own header; execd checks any other value there. */
static const struct credential_row {
    struct str name;
    unsigned kinds;
} credential_rows[] = {
    {STR_INIT(GUARD_KEY_HEADER),      IS_API_KEY | IS_OURS              },
    {STR_INIT(GATEWAY_TOKEN_HEADER),  IS_TOKEN | MUST_BE_RIGHT | IS_OURS},
    {STR_INIT(GATEWAY_EXECD_HEADER),  IS_API_KEY | IS_TOKEN             },
    {STR_INIT(GATEWAY_EGRESS_HEADER), IS_TOKEN | IS_OURS                },
    {STR_INIT(GATEWAY_ROUTE_HEADER),  IS_SIGNED_ROUTE | IS_OURS         },
};

static unsigned credential_kinds_of(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(credential_rows); i++)
        if (str_eq_nocase(name, credential_rows[i].name))
            return credential_rows[i].kinds;
    return 0;
}

static struct verdict gateway_judge(const struct gateway *g, const struct visit *v, unsigned kinds,
                                    struct str value)
{
    const struct gateway_conf *c = &g->conf;
    const struct principal *found = NULL;
    /* Without a sandbox, compare with a dummy so that the time is the same. */
    struct str token = v->known ? v->target.token : STR("00000000000000000000000000000000");

    if (!value.n)
        return (struct verdict){.credential = CREDENTIAL_NONE};
    if ((kinds & IS_TOKEN && str_eq_secret(value, token) && v->known && token.n) ||
        (kinds & IS_SIGNED_ROUTE && v->port && c->is_signed &&
         c->is_signed(c->user, v->sandbox_id, v->port, value)))
        return (struct verdict){CREDENTIAL_RIGHT, principal_of_sandbox(v->sandbox_id)};
    if (kinds & IS_API_KEY)
        found = c->find_api_key(c->user, value);
    return found ? (struct verdict){CREDENTIAL_RIGHT, *found}
                 : (struct verdict){.credential = CREDENTIAL_WRONG};
}

/* One right credential is enough, as clients send all they have. But a wrong or empty token of a
 * known sandbox is refused. For an unknown one no token is right; an API key gets the 404. */
static enum credential gateway_check(const struct gateway *g, const struct visit *v,
                                     struct http_req *req)
{
    const struct http_headers *h = &req->head.headers;
    struct verdict best = {.credential = CREDENTIAL_NONE};

    for (size_t i = 0; i < h->count; i++) {
        unsigned kinds = credential_kinds_of(h->rows[i].name);
        struct verdict now;

        if (!kinds)
            continue;
        now = gateway_judge(g, v, kinds, h->rows[i].value);
        if (kinds & MUST_BE_RIGHT && v->known && now.credential != CREDENTIAL_RIGHT)
            return now.credential;
        if (now.credential > best.credential)
            best = now;
    }
    if (best.credential == CREDENTIAL_RIGHT)
        guard_set_principal(req, &best.principal);
    return best.credential;
}

static bool gateway_holds_secret(const struct gateway *g, const struct visit *v, struct str text)
{
    bool token = str_holds_secret(text, v->target.token);

    return g->conf.holds_api_key(g->conf.user, text) || token;
}

static bool is_base64_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || c == '+' || c == '/' || c == '-' || c == '_';
}

/* Decodes name and password of "Basic ...", with either base64 alphabet, padded or not. STR_NONE
 * when the value has another form. */
static struct str basic_decode(struct str value, char out[BASIC_BYTES_MAX])
{
    const struct str scheme = STR("Basic");
    struct str text = str_make(value.p, min_size(value.n, scheme.n));
    size_t n = 0, decoded;

    if (!str_eq_nocase(text, scheme))
        return STR_NONE;
    text = str_trim(str_skip(value, scheme.n));
    while (n < text.n && is_base64_char(text.p[n]))
        n++;
    text.n = n;
    if (base64_decode(text, BASE64_STD | BASE64_NO_PAD, out, BASIC_BYTES_MAX, &decoded) < 0 &&
        base64_decode(text, BASE64_URL | BASE64_NO_PAD, out, BASIC_BYTES_MAX, &decoded) < 0)
        return STR_NONE;
    return str_make(out, decoded);
}

/* Whether the value contains a secret of ours: alone, as a part, or in a "Basic" password. */
static bool gateway_tells_secret(const struct gateway *g, const struct visit *v, struct str value)
{
    char decoded[BASIC_BYTES_MAX];

    return gateway_holds_secret(g, v, value) ||
           gateway_holds_secret(g, v, basic_decode(value, decoded));
}

/* Removes our secrets from the request, whatever header they are in: inside the sandbox they could
 * be used to reach other sandboxes or the API. */
static void gateway_keep_secrets(const struct gateway *g, const struct visit *v,
                                 struct http_req *req)
{
    struct http_headers *h = &req->head.headers;
    size_t n = 0;

    for (size_t i = 0; i < h->count; i++)
        if (!(credential_kinds_of(h->rows[i].name) & IS_OURS) &&
            !gateway_tells_secret(g, v, h->rows[i].value))
            h->rows[n++] = h->rows[i];
    h->count = n;
    if (gateway_holds_secret(g, v, req->head.host))
        req->head.host = STR_NONE;
}

/* --- the forwarded request --- */

/* Path and query after the port, unchanged. */
static struct str visit_rest(const struct visit *v, const struct http_req *req)
{
    struct str path = req->head.path, query = req->head.query;
    const char *from = v->port_text.p + v->port_text.n;
    const char *to = query.p ? query.p + query.n : path.p + path.n;

    return str_make(from, (size_t)(to - from));
}

/* STR_NONE when the request is out of memory. Dot segments are not resolved: execd's router, like
 * ours, takes them for ordinary names, so the path after the port cannot lead out of it. */
static struct str visit_target(const struct visit *v, struct http_req *req)
{
    struct str rest = visit_rest(v, req);
    const char *slash = str_starts(rest, STR("/")) ? "" : "/";

    if (v->port == GATEWAY_EXECD_PORT)
        return *slash ? str_of(arena_printf(&req->arena, "/%.*s", STR_ARG(rest))) : rest;
    if (v->port == GATEWAY_EGRESS_PORT)
        return str_of(arena_printf(&req->arena, "/sandboxes/%.*s/api%s%.*s", STR_ARG(v->sandbox_id),
                                   slash, STR_ARG(rest)));
    return str_of(arena_printf(&req->arena, "/proxy/%u%s%.*s", v->port, slash, STR_ARG(rest)));
}

/* The client's address without its port; "" if it has no address. */
static void peer_host(const struct http_req *req, char out[INET6_ADDRSTRLEN])
{
    const struct sock_addr *peer = http_req_peer(req);

    out[0] = '\0';
    if (peer->any.sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &peer->v4.sin_addr, out, INET6_ADDRSTRLEN);
    else if (peer->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&peer->v6.sin6_addr))
        (void)inet_ntop(AF_INET, &peer->v6.sin6_addr.s6_addr[12], out, INET6_ADDRSTRLEN);
    else if (peer->any.sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &peer->v6.sin6_addr, out, INET6_ADDRSTRLEN);
}

/* X-Forwarded-For as received, with the client's address appended; STR_NONE if both are empty. */
static struct str forwarded_for(struct http_req *req)
{
    const struct str name = STR("X-Forwarded-For");
    const struct http_headers *h = &req->head.headers;
    char host[INET6_ADDRSTRLEN];
    AUTO_BUF(list, H1_HEAD_BYTES_MAX + INET6_ADDRSTRLEN + 2);

    peer_host(req, host);
    if (!host[0])
        return STR_NONE;
    for (const struct http_header *row = http_header_find(h, name); row;
         row = http_header_next(h, row))
        if (row->value.n)
            (void)buf_addf(&list, "%.*s, ", STR_ARG(row->value));
    (void)buf_add(&list, str_of(host));
    return arena_str(&req->arena, buf_str(&list));
}

/* A proxy in front may have said more than we know; that the client came over our TLS, we know. */
static size_t forwarded_rows(struct http_req *req, struct http_header rows[FORWARDED_ROWS_MAX])
{
    const struct http_headers *h = &req->head.headers;
    bool secure = http_req_is_secure(req);
    const struct {
        struct http_header row;
        bool known; /* replaces what the client sent */
    } wanted[] = {
        {{STR("X-Forwarded-For"), forwarded_for(req)},                    true  },
        {{STR("X-Forwarded-Proto"), secure ? STR("https") : STR("http")}, secure},
        {{STR("X-Forwarded-Host"), req->head.host},                       false },
    };
    size_t n = 0;

    static_assert(ARRAY_LEN(wanted) == FORWARDED_ROWS_MAX, "room for each");
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (wanted[i].row.value.n && (wanted[i].known || !http_header_find(h, wanted[i].row.name)))
            rows[n++] = wanted[i].row;
    return n;
}

/* --- the answer --- */

/* Sets our request id. Keeps the app's CORS headers; adds ours when it allows no origin itself. */
static void gateway_on_answer(void *user UNUSED, struct http_req *req, int status,
                              struct http_headers *rows)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->count; i++)
        if (!str_eq_nocase(rows->rows[i].name, STR(GUARD_ID_HEADER)))
            rows->rows[n++] = rows->rows[i];
    rows->count = n;
    if (req->id.n)
        rows->rows[rows->count++] = (struct http_header){STR(GUARD_ID_HEADER), req->id};
    if (status != 101 && !http_header_find(rows, STR("Access-Control-Allow-Origin")))
        rows->count += guard_cors_rows(req, rows->rows + rows->count);
}

static void gateway_on_fail(void *user, struct http_req *req, int status,
                            const struct err *why UNUSED)
{
    struct gateway *g = user;

    g->stats.failed++;
    http_reply_error(req, status, "GENERAL::UNKNOWN_ERROR",
                     status == 504 ? "the sandbox did not answer in time"
                                   : "the sandbox could not be reached, or broke off");
}

/* --- the checks --- */

static void gateway_forward(struct gateway *g, const struct visit *v, struct http_req *req)
{
    struct http_header rows[FORWARDED_ROWS_MAX + GATEWAY_TARGET_HEADERS_MAX];
    size_t count = forwarded_rows(req, rows);
    struct http_proxy_target target = {
        .addr = v->port == GATEWAY_EGRESS_PORT ? &v->target.egress : &v->target.addr,
        .target = visit_target(v, req),
        .host = req->head.host.n ? req->head.host : STR("localhost"), /* HTTP/1.0 may have none */
        .headers = rows,
        .header_count = count + v->target.header_count,
        .tunnels = &g->tunnels,
        .on_answer = gateway_on_answer,
        .on_fail = gateway_on_fail,
        .user = g,
    };

    if (v->port == GATEWAY_EGRESS_PORT)
        target.header_count = count; /* the others are for execd */
    memcpy(rows + count, v->target.headers, v->target.header_count * sizeof(rows[0]));
    if (!target.target.p) {
        g->stats.refused++;
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return;
    }
    g->stats.forwarded++;
    if (g->conf.on_access)
        g->conf.on_access(g->conf.user, v->sandbox_id);
    http_req_be_patient(req);
    http_proxy_forward(req, g->client, &target);
}

/* The request asks for a WebSocket but is no valid handshake (RFC 6455 4.1). Forwarded without its
 * hop-by-hop headers it would become an ordinary request. The app checks the version. */
static bool is_broken_websocket(const struct http_req *req)
{
    const struct http_headers *h = &req->head.headers;

    return http_headers_have_token(h, STR("Upgrade"), STR("websocket")) &&
           (req->head.method != HTTP_GET || req->body_state != HTTP_BODY_DONE ||
            !http_headers_have_token(h, STR("Connection"), STR("upgrade")) ||
            !ws_key_is_valid(http_header_get(h, STR("Sec-WebSocket-Key"))));
}

/* True when the request was refused, and answered. `why`: why the sandbox could not be started for
 * it; NULL = that was not tried. */
static bool gateway_refuses(const struct gateway *g, const struct visit *v, struct http_req *req,
                            const char *why)
{
    bool open = g->conf.open && !(v->known && v->target.secure) && v->port != GATEWAY_EGRESS_PORT;
    enum credential c = open ? CREDENTIAL_RIGHT : gateway_check(g, v, req);

    if (c == CREDENTIAL_NONE)
        http_reply_error(req, 401, "MISSING_API_KEY",
                         "a sandbox is reached with its token in header " GATEWAY_TOKEN_HEADER
                         ", or with an API key in " GUARD_KEY_HEADER);
    else if (c == CREDENTIAL_WRONG)
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "neither an API key of this server nor the token of this sandbox, which "
                         "is valid as long as the sandbox is there");
    else if (!v->port)
        http_reply_error(req, 400, "DOCKER::INVALID_PORT",
                         "the port in the path must be a number from 1 to 65535");
    else if (!v->known)
        http_reply_error(req, 404, "DOCKER::SANDBOX_NOT_FOUND", "there is no sandbox '%.*s'",
                         (int)min_size(v->sandbox_id.n, 64), v->sandbox_id.p);
    else if (v->port == GATEWAY_EGRESS_PORT && !v->target.has_egress)
        http_reply_error(req, 501, "SANDBOX::API_NOT_SUPPORTED",
                         "port %d is the egress control, which this runtime does not have",
                         GATEWAY_EGRESS_PORT);
    else if (is_broken_websocket(req))
        http_reply_error(req, 400, "GENERAL::UNKNOWN_ERROR",
                         "Upgrade: websocket needs a GET with Connection: Upgrade and a "
                         "Sec-WebSocket-Key of 16 bytes");
    else if (why)
        http_reply_error(req, 503, "DOCKER::SANDBOX_NOT_RUNNING",
                         "the sandbox is stopped, and could not be started: %s", why);
    else if (v->target.refusal && !(v->port == GATEWAY_EGRESS_PORT && v->target.is_outside))
        http_reply_error(req, 503, "DOCKER::SANDBOX_NOT_RUNNING", "%s%s%s", v->target.refusal,
                         v->target.cause ? ": " : "", v->target.cause ? v->target.cause : "");
    else
        return false;
    return true;
}

/* Whether all that is wrong with a request is that its sandbox does not run. */
static bool gateway_wakes(struct gateway *g, struct visit *v, struct http_req *req)
{
    const char *refusal = v->target.refusal;
    bool refused;

    if (!v->known || !refusal || v->port == GATEWAY_EGRESS_PORT ||
        !wakes_can(&g->wakes, v->sandbox_id, v->target.stopped))
        return false;
    v->target.refusal = NULL;
    refused = gateway_refuses(g, v, req, NULL);
    v->target.refusal = refusal;
    if (refused)
        g->stats.refused++;
    else
        wakes_wait(&g->wakes, v->sandbox_id, req);
    return true;
}

static void gateway_serve_now(struct gateway *g, struct http_req *req, bool wakes, const char *why)
{
    struct visit v = {
        .sandbox_id = http_req_param(req, "sandboxId"),
        .port_text = http_req_param(req, "port"),
    };

    (void)str_to_u16(v.port_text, &v.port);
    v.known = g->conf.find(g->conf.user, v.sandbox_id, &v.target);
    if (wakes && gateway_wakes(g, &v, req))
        return;
    if (gateway_refuses(g, &v, req, why)) {
        g->stats.refused++;
        return;
    }
    gateway_keep_secrets(g, &v, req);
    gateway_forward(g, &v, req);
}

static void gateway_serve_woken(void *owner, struct http_req *req, const char *why)
{
    gateway_serve_now(owner, req, false, why);
}

void gateway_serve(struct gateway *g, struct http_req *req)
{
    gateway_serve_now(g, req, true, NULL);
}

/* --- construction --- */

int gateway_new(const struct gateway_conf *conf, struct gateway **ret_gateway, struct err *e)
{
    /* Sandboxes may take any time to answer and to read. */
    struct http_client_conf client = {.kept_max = KEPT_MAX, .stall_ms = UINT32_MAX};
    struct gateway *g = mem_new(struct gateway);
    int r = http_client_new(conf->loop, &client, &g->client, e);

    if (r < 0) {
        free(g);
        return r;
    }
    g->conf = *conf;
    http_tunnels_init(&g->tunnels);
    g->wakes = (struct wakes){
        .loop = conf->loop,
        .wait_ms = conf->wake_ms,
        .start = conf->wake,
        .serve = gateway_serve_woken,
        .user = conf->user,
        .owner = g,
    };
    list_init(&g->wakes.all);
    *ret_gateway = g;
    return 0;
}

void gateway_set_wake_ms(struct gateway *g, uint32_t wake_ms)
{
    g->wakes.wait_ms = wake_ms;
}

void gateway_set_open(struct gateway *g, bool open)
{
    g->conf.open = open;
}

void gateway_free(struct gateway *g)
{
    if (!g)
        return;
    wakes_done(&g->wakes);
    http_tunnels_cut(&g->tunnels);
    http_client_free(g->client);
    loop_settle(g->conf.loop);
    free(g);
}

void gateway_stats(const struct gateway *g, struct gateway_stats *ret)
{
    *ret = g->stats;
    ret->tunnels = g->tunnels.count;
}
