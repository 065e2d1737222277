#include "execd/port_proxy.h"

#include <arpa/inet.h>
#include <errno.h>

#include "execd/routes.h"
#include "net/http_proxy.h"

static const struct str text_type = STR_INIT("text/plain; charset=utf-8");

void port_proxy_no_port(struct http_req *req)
{
    http_reply(req, 400, text_type, STR("port is required\n"));
}

/* What stands behind "/proxy/{port}", as it was written. */
static struct str target_of(struct http_req *req, struct str port)
{
    size_t skip = (size_t)(port.p + port.n - req->head.path.p);
    struct str rest = str_skip(req->head.path, skip), query = req->head.query;
    char *target =
        arena_printf(&req->arena, "%s%.*s%s%.*s", rest.n > 0 && rest.p[0] == '/' ? "" : "/",
                     STR_ARG(rest), query.p ? "?" : "", STR_ARG(query));

    return str_of(target);
}

/* Rows that nobody in front of us set. Returns how many. */
static size_t forwarded_rows(struct http_req *req, struct http_header rows[2])
{
    char *address = arena_alloc(&req->arena, INET6_ADDRSTRLEN);
    struct sock_addr peer;
    size_t n = 0;

    if (!http_req_header(req, STR("X-Forwarded-Proto")).p)
        rows[n++] = (struct http_header){STR("X-Forwarded-Proto"), STR("http")};
    if (!address || http_req_header(req, STR("X-Forwarded-For")).p || http_req_peer(req, &peer) < 0)
        return n;
    if ((peer.any.sa_family == AF_INET &&
         inet_ntop(AF_INET, &peer.v4.sin_addr, address, INET6_ADDRSTRLEN)) ||
        (peer.any.sa_family == AF_INET6 &&
         inet_ntop(AF_INET6, &peer.v6.sin6_addr, address, INET6_ADDRSTRLEN)))
        rows[n++] = (struct http_header){STR("X-Forwarded-For"), str_of(address)};
    return n;
}

/* With the code that clients of the server know: it passes this on as its own answer. */
static void port_proxy_fail(void *user UNUSED, struct http_req *req, int status,
                            const struct err *why)
{
    http_reply_error(req, status, "GENERAL::UNKNOWN_ERROR", "port %.*s: %s",
                     STR_ARG(http_req_param(req, "port")), why->msg);
}

void port_proxy(struct http_req *req)
{
    static const struct str drop[] = {STR_INIT("X-EXECD-ACCESS-TOKEN")};
    const struct execd_api *api = req->server_user;
    struct str port = http_req_param(req, "port");
    struct http_header rows[2];
    struct sock_addr addr = {.size = sizeof(addr.v4)}, v6 = {.size = sizeof(v6.v6)};
    struct http_proxy_target target = {
        .addr = &addr,
        .addr_else = &v6,
        .headers = rows,
        .drop = drop,
        .drop_count = ARRAY_LEN(drop),
        .on_fail = port_proxy_fail,
    };
    uint16_t number;

    if (str_to_u16(port, &number) < 0 || number == 0) {
        http_reply(req, 400, text_type, STR("port must be a number from 1 to 65535\n"));
        return;
    }
    addr.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(number)};
    addr.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.v6 = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons(number), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    target.target = target_of(req, port);
    target.header_count = forwarded_rows(req, rows);
    if (target.target.p)
        http_proxy_forward(req, api->proxy, &target);
    else
        http_reply(req, 503, text_type, STR("no memory for this request\n"));
}
