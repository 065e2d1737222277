#include "execd/init/port_proxy.h"

#include <arpa/inet.h>
#include <errno.h>

#include "execd/core/routes.h"
#include "execd/init/options.h"
#include "net/http_proxy.h"

enum {
    FORWARDED_ROWS_MAX = 2,
    EGRESS_PORT = 18080, /* egress control */
};

static const struct str text_type = STR_INIT("text/plain; charset=utf-8");

void port_proxy_no_port(struct http_req *req)
{
    http_reply(req, 400, text_type, STR("port is required\n"));
}

/* The part of the path after "/proxy/{port}" and the query, unchanged. */
static struct str target_of(struct http_req *req, struct str port)
{
    size_t skip = (size_t)(port.p + port.n - req->head.path.p);
    struct str rest = str_skip(req->head.path, skip), query = req->head.query;
    char *target =
        arena_printf(&req->arena, "%s%.*s%s%.*s", rest.n > 0 && rest.p[0] == '/' ? "" : "/",
                     STR_ARG(rest), query.p ? "?" : "", STR_ARG(query));

    return str_of(target);
}

/* Writes the peer's address without its port to `host`. False if the peer has no address. */
static bool peer_of(const struct http_req *req, char host[INET6_ADDRSTRLEN], uint16_t *ret_port)
{
    const struct sock_addr *peer = http_req_peer(req);
    const struct in6_addr *v6 = &peer->v6.sin6_addr;

    if (peer->any.sa_family == AF_INET) {
        *ret_port = ntohs(peer->v4.sin_port);
        return inet_ntop(AF_INET, &peer->v4.sin_addr, host, INET6_ADDRSTRLEN);
    }
    if (peer->any.sa_family != AF_INET6)
        return false;
    *ret_port = ntohs(peer->v6.sin6_port);
    return IN6_IS_ADDR_V4MAPPED(v6) ? inet_ntop(AF_INET, &v6->s6_addr[12], host, INET6_ADDRSTRLEN)
                                    : inet_ntop(AF_INET6, v6, host, INET6_ADDRSTRLEN);
}

/* X-Forwarded-For: the first hop and the last hop; "" if out of memory. */
static struct str forwarded_for(struct http_req *req, const char *host, uint16_t port)
{
    struct str way = http_req_header(req, STR("X-Forwarded-For")), first = way;
    const char *open = strchr(host, ':') ? "[" : "", *shut = *open ? "]" : "";
    char *text;

    (void)str_cut(&way, ',', &first);
    first = str_trim(first);
    if (first.n == 0)
        first = str_trim(http_req_header(req, STR("X-Real-IP")));
    text = first.n > 0 ? arena_printf(&req->arena, "%.*s, %s", STR_ARG(first), host)
                       : arena_printf(&req->arena, "%s%s%s:%u, %s", open, host, shut, port, host);
    return text ? str_of(text) : STR("");
}

/* Replaces the forwarding headers. Those of the gateway stay: it connects over a unix socket, whose
 * peer has no address. */
static void set_forwarded(struct http_req *req, struct http_proxy_target *target,
                          struct http_header rows[FORWARDED_ROWS_MAX])
{
    static const struct str drop[] = {STR_INIT(EXECD_TOKEN_HEADER), STR_INIT("X-Forwarded-Host")};
    const struct str proto = STR("X-Forwarded-Proto");
    char host[INET6_ADDRSTRLEN];
    uint16_t port;
    bool is_gateway = !peer_of(req, host, &port);
    size_t n = 0;

    if (!is_gateway || !http_req_header(req, proto).p)
        rows[n++] = (struct http_header){proto, STR("http")};
    if (!is_gateway)
        rows[n++] = (struct http_header){STR("X-Forwarded-For"), forwarded_for(req, host, port)};
    target->headers = rows;
    target->header_count = n;
    target->drop = drop;
    target->drop_count = is_gateway ? 1 : ARRAY_LEN(drop);
}

/* The server forwards this reply as its own, so it gets an error code that the server's clients
 * know. */
static void port_proxy_fail(void *user UNUSED, struct http_req *req, int status,
                            const struct err *why)
{
    char host[INET6_ADDRSTRLEN];
    uint16_t port;

    if (peer_of(req, host, &port))
        http_reply(req, status, text_type,
                   status == 504 ? STR("Gateway Timeout\n") : STR("Bad Gateway\n"));
    else
        http_reply_error(req, status, "GENERAL::UNKNOWN_ERROR", "port %.*s: %s",
                         STR_ARG(http_req_param(req, "port")), why->msg);
}

/* True when the port may not be reached this way; the reply was sent. The gateway gets the error
 * codes that it uses itself. */
static bool port_refused(struct http_req *req, uint16_t number)
{
    const struct execd_api *api = req->server_user;
    bool own = number == EXECD_PORT || number == api->port;
    const char *why = own ? "is execd itself: leave /proxy and the port out of the path"
                          : "is egress control, which is not reached through execd";
    char host[INET6_ADDRSTRLEN];
    uint16_t port;

    if (!own && number != EGRESS_PORT)
        return false;
    if (peer_of(req, host, &port))
        http_reply(req, own ? 400 : 403, text_type,
                   str_of(arena_printf(&req->arena, "port %u %s\n", number, why)));
    else if (own)
        http_reply_error(req, 400, "DOCKER::INVALID_PORT", "port %u %s", number, why);
    else
        http_reply_error(req, 501, "SANDBOX::API_NOT_SUPPORTED", "port %u %s", number, why);
    return true;
}

void port_proxy(struct http_req *req)
{
    const struct execd_api *api = req->server_user;
    struct str port = http_req_param(req, "port");
    struct http_header rows[FORWARDED_ROWS_MAX];
    struct sock_addr addr = {.size = sizeof(addr.v4)}, v6 = {.size = sizeof(v6.v6)};
    struct http_proxy_target target = {
        .addr = &addr,
        .addr_else = &v6,
        .on_fail = port_proxy_fail,
    };
    uint16_t number;

    if (str_to_u16(port, &number) < 0 || number == 0) {
        http_reply(req, 400, text_type, STR("port must be a number from 1 to 65535\n"));
        return;
    }
    if (port_refused(req, number))
        return;
    addr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(number)};
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.v6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons(number), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    target.target = target_of(req, port);
    set_forwarded(req, &target, rows);
    if (target.target.p)
        http_proxy_forward(req, api->proxy, &target);
    else
        http_reply(req, 503, text_type, STR("no memory for this request\n"));
}
