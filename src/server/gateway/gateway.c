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
#include "base/map.h"
#include "base/mem.h"
#include "net/http_proxy.h"
#include "net/ws_frame.h"
#include "server/gateway/host_route.h"
#include "server/http/guard.h"
#include "server/http/tracing.h"

enum {
    KEPT_MAX = 1024,
    FORWARDED_ROWS_MAX = 4,
    BASIC_BYTES_MAX = BASE64_DATA_MAX(H1_HEAD_BYTES_MAX),
};

struct gateway {
    struct gateway_conf conf;
    struct http_client *client;
    struct http_tunnels tunnels;
    struct gateway_stats stats;
    struct http_waits wakes;
    char *domain;
};

/* A request to the gateway. */
struct visit {
    struct str sandbox_id;
    struct str port_text;
    uint16_t port; /* 0 = not a port */
    bool preview;  /* by a ticket, which is its credential */
    bool known;
    bool by_host;                 /* it came to {port}-{id}.DOMAIN */
    struct gateway_target target; /* valid if known */
};

/* What is remembered of a request until its answer. */
struct passage {
    struct gateway *gateway;
    bool preview;
    bool offered; /* GATEWAY_WS_PROTOCOL */
    struct trace_span span;
    uint16_t port;
    int status; /* of the answer; 0 = none yet */
    char parent[TRACE_PARENT_MAX];
};

/* --- credentials --- */

/* The best of those that a request has counts. */
enum credential {
    CREDENTIAL_NONE,
    CREDENTIAL_WRONG,
    CREDENTIAL_FOREIGN, /* a key of ours, for which the sandbox does not exist */
    CREDENTIAL_LOW,     /* a key of ours that may only look */
    CREDENTIAL_RIGHT,
};

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

/* What a principal may do with the sandbox; one that another server found counts here, too. */
static struct verdict gateway_weigh(const struct visit *v, const struct principal *found)
{
    if (found->role == ROLE_NONE)
        return (struct verdict){.credential = CREDENTIAL_NONE};
    if (v->known && !principal_sees_sandbox(found, v->target.tenant, v->target.id))
        return (struct verdict){CREDENTIAL_FOREIGN, *found};
    if (found->role != ROLE_SANDBOX && found->role < ROLE_OPERATOR)
        return (struct verdict){CREDENTIAL_LOW, *found};
    return (struct verdict){CREDENTIAL_RIGHT, *found};
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
    if (!found)
        return (struct verdict){.credential = CREDENTIAL_WRONG};
    return gateway_weigh(v, found);
}

/* --- WebSockets of browsers --- */

/* The next element of a list such as "a, b"; false at its end. */
static bool next_element(struct str *list, struct str *ret)
{
    if (!list->n)
        return false;
    if (!str_cut(list, ',', ret)) {
        *ret = *list;
        *list = STR_NONE;
    }
    *ret = str_trim(*ret);
    return true;
}

/* The token among the subprotocols that are offered; STR_NONE = there is none. */
static struct str ws_token(struct str offers)
{
    const struct str prefix = STR(GATEWAY_WS_TOKEN_PREFIX);
    struct str one = STR_NONE;

    while (next_element(&offers, &one))
        if (str_starts(one, prefix))
            return str_skip(one, prefix.n);
    return STR_NONE;
}

static bool is_ws_offer_of_ours(struct str one)
{
    return str_eq(one, STR(GATEWAY_WS_PROTOCOL)) || str_starts(one, STR(GATEWAY_WS_TOKEN_PREFIX));
}

/* The subprotocols that are for the program inside; as they were sent when none is ours. STR_NONE =
 * none is left, or no memory. */
static struct str ws_offers_left(struct http_req *req, struct str offers)
{
    struct str one = STR_NONE, rest = offers;
    bool ours = false;
    AUTO_BUF(left, H1_HEAD_BYTES_MAX);

    while (next_element(&rest, &one))
        if (is_ws_offer_of_ours(one))
            ours = true;
        else if (one.n)
            (void)buf_addf(&left, "%s%.*s", buf_str(&left).n ? ", " : "", STR_ARG(one));
    return ours ? arena_str(&req->arena, buf_str(&left)) : offers;
}

static bool offers_our_protocol(const struct http_req *req)
{
    return http_headers_have_token(&req->head.headers, STR(GATEWAY_WS_HEADER),
                                   STR(GATEWAY_WS_PROTOCOL));
}

/* --- credentials, continued --- */

/* The kinds of credential that a header row may hold, and where in it; 0 = none. */
static unsigned credential_in(const struct http_header *row, struct str *ret_value)
{
    *ret_value = row->value;
    if (!str_eq_nocase(row->name, STR(GATEWAY_WS_HEADER)))
        return credential_kinds_of(row->name);
    *ret_value = ws_token(row->value);
    return ret_value->n ? IS_TOKEN | MUST_BE_RIGHT : 0;
}

/* One right credential is enough, as clients send all they have. But a wrong or empty token of a
 * known sandbox is refused. For an unknown one no token is right; an API key gets the 404. */
static enum credential gateway_check(const struct gateway *g, const struct visit *v,
                                     struct http_req *req)
{
    const struct http_headers *h = &req->head.headers;
    struct verdict best = {.credential = CREDENTIAL_NONE};

    for (size_t i = 0; i < h->count; i++) {
        struct str value;
        unsigned kinds = credential_in(&h->rows[i], &value);
        struct verdict now;

        if (!kinds)
            continue;
        now = gateway_judge(g, v, kinds, value);
        if (kinds & MUST_BE_RIGHT && v->known && now.credential != CREDENTIAL_RIGHT)
            return now.credential;
        if (now.credential > best.credential)
            best = now;
    }
    if (req->forwarded && best.credential != CREDENTIAL_RIGHT) {
        struct verdict now = gateway_weigh(v, guard_principal(req));

        if (now.credential > best.credential)
            best = now;
    }
    if (v->by_host && best.credential != CREDENTIAL_RIGHT) {
        struct verdict now =
            gateway_judge(g, v, IS_TOKEN | IS_SIGNED_ROUTE, host_route_cookie(req));

        if (now.credential > best.credential)
            best = now;
    }
    if (best.credential == CREDENTIAL_NONE && !v->by_host && g->conf.find_session) {
        const struct principal *found = g->conf.find_session(g->conf.user, req);

        if (found)
            best = gateway_weigh(v, found);
    }
    if (best.credential > CREDENTIAL_WRONG)
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

    for (size_t i = 0; i < h->count; i++) {
        struct http_header row = h->rows[i];

        if (str_eq_nocase(row.name, STR(GATEWAY_WS_HEADER))) {
            struct str left = ws_offers_left(req, row.value);

            if (!left.n && row.value.n)
                continue;
            row.value = left;
        }
        if (v->preview && str_eq_nocase(row.name, STR("Cookie")))
            continue; /* of this server's own pages, and of those of other sandboxes */
        if (!(credential_kinds_of(row.name) & IS_OURS) && !gateway_tells_secret(g, v, row.value))
            h->rows[n++] = row;
    }
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

    if (v->port == GATEWAY_EXECD_PORT ||
        (v->port == GATEWAY_EGRESS_PORT && v->target.egress_at_root))
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

struct str gateway_forwarded_for(struct http_req *req)
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

/* The path that stands before the application's own, which it needs for absolute links; STR_NONE
 * at a host of its own, and for our own programs. */
static struct str visit_prefix(const struct visit *v, const struct http_req *req)
{
    const char *from = req->head.path.p;

    if (v->by_host || v->port == GATEWAY_EXECD_PORT || v->port == GATEWAY_EGRESS_PORT)
        return STR_NONE;
    return str_make(from, (size_t)(v->port_text.p + v->port_text.n - from));
}

/* A proxy in front may have said more than we know; that the client came over our TLS, we know. */
static size_t forwarded_rows(const struct visit *v, struct http_req *req,
                             struct http_header rows[FORWARDED_ROWS_MAX])
{
    const struct http_headers *h = &req->head.headers;
    bool secure = http_req_is_secure(req);
    const struct {
        struct http_header row;
        bool known; /* replaces what the client sent */
    } wanted[] = {
        {{STR("X-Forwarded-For"), gateway_forwarded_for(req)},            true  },
        {{STR("X-Forwarded-Proto"), secure ? STR("https") : STR("http")}, secure},
        {{STR("X-Forwarded-Host"), req->head.host},                       false },
        {{STR("X-Forwarded-Prefix"), visit_prefix(v, req)},               false },
    };
    size_t n = 0;

    static_assert(ARRAY_LEN(wanted) == FORWARDED_ROWS_MAX, "room for each");
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        if (wanted[i].row.value.n && (wanted[i].known || !http_header_find(h, wanted[i].row.name)))
            rows[n++] = wanted[i].row;
    return n;
}

/* --- the answer --- */

/* What must not reach a browser from a program inside, as the page has the address of this server:
 * it would be set for the console, too. */
static bool is_withheld(const struct passage *p, struct str name)
{
    static const struct str names[] = {
        STR_INIT("Clear-Site-Data"),
        STR_INIT("Service-Worker-Allowed"),
        STR_INIT("Set-Cookie"),
        STR_INIT("Strict-Transport-Security"),
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (p->preview && str_eq_nocase(name, names[i]))
            return true;
    return str_eq_nocase(name, STR(GUARD_ID_HEADER)) ||
           str_eq_nocase(name, STR(GATEWAY_REFUSAL_HEADER));
}

/* The policy gives a previewed page an origin of its own, so that it cannot read what the console
 * stores in the browser, nor call the API in its name. */
static void add_browser_rows(const struct passage *p, int status, struct http_headers *rows)
{
    if (p->preview) {
        rows->rows[rows->count++] = (struct http_header){
            STR("Content-Security-Policy"),
            STR("sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts")};
        rows->rows[rows->count++] =
            (struct http_header){STR("Referrer-Policy"), STR("no-referrer")};
    }
    if (status == 101 && p->offered && !http_header_find(rows, STR(GATEWAY_WS_HEADER)))
        rows->rows[rows->count++] =
            (struct http_header){STR(GATEWAY_WS_HEADER), STR(GATEWAY_WS_PROTOCOL)};
}

/* The way into the sandbox and back, as a span. */
static void passage_trace_end(struct passage *p)
{
    const struct trace_attribute rows[] = {
        {"server.port",               STR_NONE, p->port  },
        {"http.response.status_code", STR_NONE, p->status},
    };

    trace_end(&p->span,
              &(struct trace_note){STR("gateway forward"), TRACE_CLIENT,
                                   p->status == 0 || p->status >= 500, rows, p->status ? 2 : 1});
    p->span = (struct trace_span){0};
}

static void gateway_on_end(void *user)
{
    passage_trace_end(user);
}

/* The sandbox's programs go on with our span. A state without a valid parent is not passed on. */
static void passage_trace_begin(struct passage *p, struct http_req *req,
                                struct http_proxy_target *target, struct http_header *row)
{
    static const struct str dropped[] = {STR_INIT("traceparent"), STR_INIT("tracestate")};

    p->span = trace_begin(tracing_of(req));
    if (!tracing_keeps_state(req)) {
        target->drop = dropped;
        target->drop_count = ARRAY_LEN(dropped);
    }
    if (!trace_is_recorded(&p->span))
        return;
    trace_format(&p->span.context, p->parent);
    *row = (struct http_header){STR("traceparent"), str_of(p->parent)};
    target->header_count++;
}

/* Sets our request id. Keeps the app's CORS headers; adds ours when it allows no origin itself. */
static void gateway_on_answer(void *user, struct http_req *req, int status,
                              struct http_headers *rows)
{
    struct passage *p = user;
    size_t n = 0;

    p->status = status;
    if (status == 101) /* what follows is no part of the request */
        passage_trace_end(p);

    for (size_t i = 0; i < rows->count; i++)
        if (!is_withheld(p, rows->rows[i].name))
            rows->rows[n++] = rows->rows[i];
    rows->count = n;
    add_browser_rows(p, status, rows);
    if (req->id.n)
        rows->rows[rows->count++] = (struct http_header){STR(GUARD_ID_HEADER), req->id};
    if (status != 101 && !http_header_find(rows, STR("Access-Control-Allow-Origin")))
        rows->count += guard_cors_rows(req, rows->rows + rows->count);
}

static void gateway_on_fail(void *user, struct http_req *req, int status,
                            const struct err *why UNUSED)
{
    const struct passage *p = user;

    p->gateway->stats.failed++;
    http_reply_error(req, status, "GENERAL::UNKNOWN_ERROR",
                     status == 504 ? "the sandbox did not answer in time"
                                   : "the sandbox could not be reached, or broke off");
}

/* --- the checks --- */

/* A new sandbox may get the address of one that is gone: no connection is shared. */
static uint64_t group_of(struct str sandbox_id)
{
    static const uint64_t no_seed[2] = {0};

    return map_hash(no_seed, sandbox_id);
}

void gateway_end(struct gateway *g, struct str sandbox_id)
{
    http_client_end_group(g->client, group_of(sandbox_id));
    http_tunnels_end_group(&g->tunnels, group_of(sandbox_id));
}

static void gateway_forward(struct gateway *g, const struct visit *v, struct http_req *req,
                            bool offered)
{
    struct passage *passage = arena_new(&req->arena, struct passage);
    struct http_header rows[FORWARDED_ROWS_MAX + GATEWAY_TARGET_HEADERS_MAX + 1];
    size_t count = forwarded_rows(v, req, rows);
    struct http_proxy_target target = {
        .addr = v->port == GATEWAY_EGRESS_PORT ? &v->target.egress : &v->target.addr,
        .group = group_of(v->sandbox_id),
        .target = visit_target(v, req),
        .host = req->head.host.n ? req->head.host : STR("localhost"), /* HTTP/1.0 may have none */
        .headers = rows,
        .header_count = count + v->target.header_count,
        .tunnels = &g->tunnels,
        .on_answer = gateway_on_answer,
        .on_fail = gateway_on_fail,
        .on_end = gateway_on_end,
        .user = passage,
    };

    memcpy(rows + count, v->target.headers, v->target.header_count * sizeof(rows[0]));
    if (v->port == GATEWAY_EGRESS_PORT)
        target.header_count = count; /* the others are for execd */
    if (v->port == GATEWAY_EGRESS_PORT && v->target.egress_at_root)
        rows[target.header_count++] =
            (struct http_header){STR(GATEWAY_EGRESS_HEADER), v->target.egress_token};
    if (!target.target.p || !passage) {
        g->stats.refused++;
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return;
    }
    *passage = (struct passage){.gateway = g, .preview = v->preview, .offered = offered};
    passage->port = v->port;
    passage_trace_begin(passage, req, &target, &rows[target.header_count]);
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

static const char *gateway_code(const struct gateway *g, const char *code)
{
    return g->conf.code_of ? g->conf.code_of(g->conf.user, code) : code;
}

/* True when the request was refused, and answered. `why`: why the sandbox could not be started for
 * it; NULL = that was not tried. */
static bool gateway_refuses(const struct gateway *g, const struct visit *v, struct http_req *req,
                            const char *why)
{
    bool open = v->preview ||
                (g->conf.open && !(v->known && v->target.secure) && v->port != GATEWAY_EGRESS_PORT);
    enum credential c = open ? CREDENTIAL_RIGHT : gateway_check(g, v, req);

    if (c != CREDENTIAL_RIGHT)
        (void)http_reply_header(req, STR(GATEWAY_REFUSAL_HEADER), STR("unauthorized"));
    else if (v->port != GATEWAY_EGRESS_PORT && (!v->known || v->target.refusal || why))
        (void)http_reply_header(req, STR(GATEWAY_REFUSAL_HEADER),
                                v->known ? STR("not-running") : STR("not-found"));
    if (c == CREDENTIAL_NONE)
        http_reply_error(req, 401, "MISSING_API_KEY",
                         "a sandbox is reached with its token in header " GATEWAY_TOKEN_HEADER
                         ", or with an API key in " GUARD_KEY_HEADER);
    else if (c == CREDENTIAL_WRONG)
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "neither an API key of this server nor the token of this sandbox, which "
                         "is valid as long as the sandbox is there");
    else if (c == CREDENTIAL_LOW)
        http_reply_error(req, 403, "FORBIDDEN",
                         "a sandbox is opened by the role operator, and this key has %s",
                         principal_role_name(guard_principal(req)->role));
    else if (!v->port)
        http_reply_error(req, 400, "DOCKER::INVALID_PORT",
                         "the port in the path must be a number from 1 to 65535");
    else if (!v->known || c == CREDENTIAL_FOREIGN)
        http_reply_error(req, 404, gateway_code(g, "DOCKER::SANDBOX_NOT_FOUND"),
                         "there is no sandbox '%.*s'", (int)min_size(v->sandbox_id.n, 64),
                         v->sandbox_id.p);
    else if (v->port == GATEWAY_EGRESS_PORT && !v->target.has_egress)
        http_reply_error(req, 501, "SANDBOX::API_NOT_SUPPORTED",
                         "port %d is the egress control, which this sandbox does not have: it has "
                         "no networkPolicy, or the runtime none",
                         GATEWAY_EGRESS_PORT);
    else if (is_broken_websocket(req))
        http_reply_error(req, 400, "GENERAL::UNKNOWN_ERROR",
                         "Upgrade: websocket needs a GET with Connection: Upgrade and a "
                         "Sec-WebSocket-Key of 16 bytes");
    else if (why)
        http_reply_error(req, 503, gateway_code(g, "DOCKER::SANDBOX_NOT_RUNNING"),
                         "the sandbox is stopped, and could not be started: %s", why);
    else if (v->target.refusal && !(v->port == GATEWAY_EGRESS_PORT && v->target.is_outside))
        http_reply_error(req, 503, gateway_code(g, "DOCKER::SANDBOX_NOT_RUNNING"), "%s%s%s",
                         v->target.refusal, v->target.cause ? ": " : "",
                         v->target.cause ? v->target.cause : "");
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
        !http_waits_can(&g->wakes, v->sandbox_id, v->target.stopped))
        return false;
    v->target.refusal = NULL;
    refused = gateway_refuses(g, v, req, NULL);
    v->target.refusal = refusal;
    if (refused)
        g->stats.refused++;
    else
        http_waits_add(&g->wakes, v->sandbox_id, req);
    return true;
}

/* Reads which port of which sandbox the request is for. False when its ticket opens none, and 404
 * was replied. */
static bool visit_begin(struct gateway *g, struct http_req *req, struct visit *v)
{
    struct str ticket = http_req_param(req, "ticket");
    struct principal principal;

    *v = (struct visit){.preview = ticket.n > 0};
    if (v->preview) {
        v->port_text = ticket; /* the path goes on behind it */
        if (!g->conf.find_preview ||
            !g->conf.find_preview(g->conf.user, ticket, &v->sandbox_id, &v->port)) {
            http_reply_error(req, 404, "NOT_FOUND",
                             "this preview has ended, or never was: open it again in the console");
            return false;
        }
        principal = principal_of_sandbox(v->sandbox_id);
        guard_set_principal(req, &principal);
    } else {
        v->sandbox_id = http_req_param(req, "sandboxId");
        v->port_text = http_req_param(req, "port");
        (void)str_to_u16(v->port_text, &v->port);
    }
    return true;
}

/* A browser that came with the credential in the address gets it as a cookie of this host. True
 * when the request was answered. */
static bool gateway_signs_in(struct gateway *g, const struct visit *v, struct http_req *req)
{
    struct str access = host_route_access(req->head.query), rest = visit_rest(v, req);
    struct verdict now;

    if (!v->by_host || req->head.method != HTTP_GET || !access.n)
        return false;
    now = gateway_judge(g, v, IS_TOKEN | IS_SIGNED_ROUTE, access);
    if (now.credential != CREDENTIAL_RIGHT) {
        g->stats.refused++;
        http_reply_error(req, 401, "INVALID_API_KEY",
                         "the parameter " HOST_ROUTE_ACCESS " is neither the token of this sandbox "
                         "nor a signed route to this port that is still valid");
        return true;
    }
    guard_set_principal(req, &now.principal);
    host_route_sign_in(req, str_make(rest.p, str_find(rest, '?')), access);
    return true;
}

static bool visit_is_by_host(const struct gateway *g, const struct visit *v,
                             const struct http_req *req)
{
    struct host_route route;

    return host_route_parse(req->head.host, gateway_domain(g), &route) &&
           str_eq(route.port, v->port_text) && str_eq(route.sandbox_id, v->sandbox_id);
}

static void gateway_serve_now(struct gateway *g, struct http_req *req, bool wakes, const char *why)
{
    bool offered = offers_our_protocol(req);
    struct visit v;

    if (!visit_begin(g, req, &v)) {
        g->stats.refused++;
        return;
    }
    v.by_host = !v.preview && visit_is_by_host(g, &v, req);
    v.known = g->conf.find(g->conf.user, v.sandbox_id, &v.target);
    if (gateway_signs_in(g, &v, req))
        return;
    if (wakes && gateway_wakes(g, &v, req))
        return;
    if (gateway_refuses(g, &v, req, why)) {
        g->stats.refused++;
        return;
    }
    if (v.by_host)
        host_route_drop_cookie(req);
    gateway_keep_secrets(g, &v, req);
    gateway_forward(g, &v, req, offered);
}

static void gateway_serve_woken(void *owner, struct http_req *req, const char *why)
{
    gateway_serve_now(owner, req, false, why);
}

static void gateway_on_late(void *owner, struct http_req *req)
{
    const struct gateway *g = owner;

    (void)http_reply_header(req, STR("Retry-After"), STR("1"));
    http_reply_error(req, 503, "DOCKER::SANDBOX_NOT_RUNNING",
                     "the sandbox was stopped and is being started for this request, which takes "
                     "longer than %u s; try again",
                     g->wakes.wait_ms / 1000);
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
    g->domain = mem_strdup(conf->domain ? conf->domain : "");
    http_tunnels_init(&g->tunnels);
    g->wakes = (struct http_waits){
        .loop = conf->loop,
        .wait_ms = conf->wake_ms,
        .start = conf->wake,
        .serve = gateway_serve_woken,
        .late = gateway_on_late,
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

struct str gateway_domain(const struct gateway *g)
{
    return str_of(g->domain);
}

void gateway_set_open(struct gateway *g, bool open)
{
    g->conf.open = open;
}

void gateway_free(struct gateway *g)
{
    if (!g)
        return;
    http_waits_done(&g->wakes);
    http_tunnels_cut(&g->tunnels);
    http_client_free(g->client);
    loop_settle(g->conf.loop);
    free(g->domain);
    free(g);
}

void gateway_stats(const struct gateway *g, struct gateway_stats *ret)
{
    *ret = g->stats;
    ret->tunnels = g->tunnels.count;
}
