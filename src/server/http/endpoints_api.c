/* endpoints_api.c - the address of a sandbox's port, and the headers it needs.
 *
 * All traffic goes through this server's gateway, with or without use_server_proxy; but a runtime
 * with RUNTIME_CAN_DIRECT has clients go to the sandbox's own address without it. If ingress.mode
 * is "gateway", the address is that of the gateway in front, in one of three forms. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/time.h"
#include "server/http/server_internal.h"

enum { ENDPOINT_MAX = 1024, ENDPOINT_JSON_MAX = 8192 };

struct endpoint {
    struct buf text; /* "host:port/path", no scheme */
    struct json_pair headers[4];
    size_t header_count;
};

/* "https://box.example.com/" -> "box.example.com" */
static struct str bare_host(struct str text)
{
    size_t scheme = str_find_str(text, STR("://"));

    if (scheme < text.n)
        text = str_skip(text, scheme + 3);
    while (text.n > 0 && text.p[text.n - 1] == '/')
        text.n--;
    return text;
}

static void add_header(struct endpoint *ep, struct str name, struct str value)
{
    ep->headers[ep->header_count++] = (struct json_pair){name, value};
}

/* The address we listen on, for a client that sends no Host header. */
static int add_own_address(struct buf *text, const struct config *config)
{
    const char *host = config->server.host;

    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        host = "127.0.0.1"; /* 0.0.0.0 is no address to connect to */
    return buf_addf(text, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, (int)config->server.port);
}

/* The sandbox's own address. -ENOENT when it has none yet. */
static int own_address(struct endpoint *ep, struct http_req *req, const struct sandbox *sb,
                       uint16_t port)
{
    struct runtime *rt = server_of(req)->runtime;
    struct runtime_endpoint at = {0};
    char host[INET6_ADDRSTRLEN];
    int r = rt->ops->endpoint(rt, str_of(sb->id), &at);

    if (r < 0)
        return r;
    if (at.addr.any.sa_family == AF_INET6)
        return inet_ntop(AF_INET6, &at.addr.v6.sin6_addr, host, sizeof(host))
                   ? buf_addf(&ep->text, "[%s]:%u", host, port)
                   : -ENOENT;
    return inet_ntop(AF_INET, &at.addr.v4.sin_addr, host, sizeof(host))
               ? buf_addf(&ep->text, "%s:%u", host, port)
               : -ENOENT;
}

/* Address through this server. -EMSGSIZE when the client's name for it is too long. */
static int direct(struct endpoint *ep, struct http_req *req, const struct sandbox *sb,
                  uint16_t port)
{
    const struct config *config = server_of(req)->config;
    struct str base = str_of(config->server.eip);
    int r;

    base = bare_host(base.n ? base : http_req_header(req, STR("Host")));
    r = base.n ? buf_add(&ep->text, base) : add_own_address(&ep->text, config);
    return r ? r : buf_addf(&ep->text, "/sandboxes/%s/proxy/%u", sb->id, port);
}

/* "{port}-{id}.DOMAIN", with the port of the client's name for this server. */
static int by_host(struct endpoint *ep, struct http_req *req, const struct sandbox *sb,
                   uint16_t port)
{
    const struct config *config = server_of(req)->config;
    struct str base = bare_host(str_of(config->server.eip));
    size_t colon;
    int r = buf_addf(&ep->text, "%u-%s.%s", port, sb->id, config->server.app_domain);

    if (!base.n)
        base = http_req_header(req, STR("Host"));
    colon = str_find(base, ':');
    if (r < 0 || str_starts(base, STR("[")) || colon == base.n)
        return r;
    return buf_add(&ep->text, str_skip(base, colon));
}

/* Address through a gateway in front. `token` is "id-port" or the signed route; `path_tail` is what
 * signing adds to the path of a URI route. */
static int by_gateway(struct endpoint *ep, const struct config *config, const struct sandbox *sb,
                      uint16_t port, struct str token, const char *path_tail)
{
    const char *address = config->ingress_gateway.address;

    if (config->ingress_route.mode == CONFIG_ROUTE_WILDCARD)
        return buf_addf(&ep->text, "%.*s%s", STR_ARG(token), address + 1); /* "*.base" */
    if (config->ingress_route.mode == CONFIG_ROUTE_URI)
        return buf_addf(&ep->text, "%s/%s/%u%s", address, sb->id, port, path_tail);
    add_header(ep, STR(GATEWAY_ROUTE_HEADER), token);
    return buf_addf(&ep->text, "%s", address);
}

static const struct config_key *active_key(const struct config *config)
{
    for (size_t i = 0; i < config->ingress_secure.keys.count; i++)
        if (config->ingress_secure.keys.at[i].id == config->ingress_secure.active_key[0])
            return &config->ingress_secure.keys.at[i];
    return NULL;
}

static void reply_endpoint(struct http_req *req, const struct sandbox *sb, uint16_t port,
                           const struct api_endpoint_query *q)
{
    const struct config *config = server_of(req)->config;
    bool gateway = config->ingress.mode == CONFIG_INGRESS_GATEWAY && !q->use_server_proxy;
    /* Not by this server: clients there know its own credentials only. */
    bool past_us = runtime_can(server_of(req)->runtime, RUNTIME_CAN_DIRECT) &&
                   !q->use_server_proxy && (gateway || !q->signed_route);
    const struct config_key *key = active_key(config);
    char token[128], tail[64] = "", e36[BASE36_TEXT_MAX], signature[API_SIGNATURE_MAX];
    struct endpoint ep = {0};
    AUTO_BUF(body, ENDPOINT_JSON_MAX);
    int r;

    buf_init(&ep.text, ENDPOINT_MAX);
    (void)snprintf(token, sizeof(token), "%s-%u", sb->id, port);
    if (q->signed_route && key) {
        base36_encode(q->expires_s, e36);
        api_route_sign(key->secret, key->id, str_of(sb->id), port, q->expires_s, signature);
        (void)snprintf(token, sizeof(token), "%s-%u-%s-%s", sb->id, port, e36, signature);
        (void)snprintf(tail, sizeof(tail), "/%s/%s", e36, signature);
    }
    if (gateway)
        r = by_gateway(&ep, config, sb, port, str_of(token), tail);
    else if (q->by_host)
        r = by_host(&ep, req, sb, port);
    else
        r = past_us ? own_address(&ep, req, sb, port) : direct(&ep, req, sb, port);
    if (q->signed_route && !gateway)
        add_header(&ep, STR(GATEWAY_ROUTE_HEADER), str_of(token));
    else if (past_us && !q->signed_route && sb->facts.secure)
        add_header(&ep, STR(GATEWAY_TOKEN_HEADER), str_of(sb->token));
    else if (!past_us && !q->signed_route &&
             (sb->facts.secure || config->server.proxy_access == CONFIG_PROXY_TOKEN)) {
        add_header(&ep, STR(GATEWAY_TOKEN_HEADER), str_of(sb->token));
        if (!sb->facts.execd_token) /* some clients send no other; unless it carries execd's own */
            add_header(&ep, STR(GATEWAY_EXECD_HEADER), str_of(sb->token));
    }
    if (port == GATEWAY_EGRESS_PORT && !q->signed_route &&
        runtime_can(server_of(req)->runtime, RUNTIME_CAN_NETWORK_POLICY))
        add_header(&ep, STR(GATEWAY_EGRESS_HEADER), str_of(sb->token));
    if (r == -ENOENT)
        http_reply_error(req, 404, "KUBERNETES::POD_IP_NOT_AVAILABLE",
                         "the sandbox has no address yet");
    else if (r < 0)
        http_reply_error(req, 400, "SANDBOX::INVALID_PARAMETER",
                         "the name of this server, from header Host or its configuration, is too "
                         "long for an endpoint");
    else
        reply_json(req, 200, &body,
                   api_endpoint_write(&body, buf_str(&ep.text), ep.headers, ep.header_count));
    buf_done(&ep.text);
}

void handle_endpoint_get(struct http_req *req)
{
    const struct config *config = server_of(req)->config;
    struct api_endpoint_query q = {0};
    struct api_fail f = {0};
    struct sandbox *sb;
    uint16_t port;

    if (api_port_parse(http_req_param(req, "port"), &port, &f) < 0 ||
        api_endpoint_query_parse(&req->arena, req->head.query, &q, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    sb = require_sandbox(req);
    if (!sb)
        return;
    if (sb->state == SANDBOX_FAILED || sb->state == SANDBOX_TERMINATED)
        http_reply_error(req, 409,
                         runtime_code(server_of(req)->runtime, "DOCKER::SANDBOX_NOT_RUNNING"),
                         "the sandbox has %s: %s", sb->state == SANDBOX_FAILED ? "failed" : "ended",
                         sb->message);
    else if (q.by_host && !config->server.app_domain[0])
        http_reply_error(req, 400, "SANDBOX::INVALID_PARAMETER",
                         "by_host: server.app_domain is empty in the configuration of this server");
    else if (q.signed_route && !active_key(config))
        http_reply_error(req, 400, "SANDBOX::INVALID_PARAMETER",
                         "expires: this server has no keys to sign with; it needs section "
                         "ingress.secure_access in its configuration");
    else if (q.signed_route && q.expires_s <= (uint64_t)(time_wall_us() / TIME_US_PER_S))
        http_reply_error(req, 400, "SANDBOX::INVALID_PARAMETER",
                         "expires: must be a Unix time, in seconds, that lies in the future");
    else
        reply_endpoint(req, sb, port, &q);
}
