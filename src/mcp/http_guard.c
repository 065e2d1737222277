/* http_guard.c - checks before a message is handled. */
#include "mcp/http_guard.h"

#include <arpa/inet.h>
#include <errno.h>

#include "base/codec.h"

enum { NAME_BYTES_MAX = 4096 };

bool guard_is_local(const struct sock_addr *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

/* "localhost:8000", with or without the port. */
static bool is_local_name(struct str host)
{
    char text[INET_ADDRSTRLEN];
    struct in_addr address;

    if (str_starts(host, STR("["))) {
        host.n = min_size(str_find(host, ']') + 1, host.n);
        return str_eq(host, STR("[::1]"));
    }
    host.n = str_find(host, ':');
    if (str_eq_nocase(host, STR("localhost")))
        return true;
    if (str_copy(text, sizeof(text), host) < 0)
        return false;
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool is_allowed_origin(struct str origin, const struct options *o)
{
    size_t at = str_find_str(origin, STR("://"));

    for (size_t i = 0; i < o->origin_count; i++)
        if (str_eq_nocase(origin, str_of(o->origins[i])))
            return true;
    return at < origin.n && is_local_name(str_skip(origin, at + 3));
}

static bool has_token(const struct http_req *req, const char *token)
{
    struct str given = http_req_header(req, STR("authorization"));
    const size_t n = sizeof("Bearer ") - 1;

    return given.n > n && str_eq_nocase(str_make(given.p, n), STR("Bearer ")) &&
           str_eq_secret(str_trim(str_skip(given, n)), str_of(token));
}

bool guard_pass(struct http_req *req, const struct options *o)
{
    struct str origin = http_req_header(req, STR("origin"));

    if (origin.n && !is_allowed_origin(origin, o)) {
        http_reply_error(req, 403, NULL,
                         "this origin may not call; --allow-origin admits it, if it shall");
        return false;
    }
    if (o->token[0]) {
        if (has_token(req, o->token))
            return true;
        (void)http_reply_header(req, STR("WWW-Authenticate"), STR("Bearer"));
        http_reply_error(req, 401, NULL, "Authorization: Bearer and the token are needed");
        return false;
    }
    /* A web page whose name was made to lead here says its own name. */
    if (is_local_name(http_req_header(req, STR("host"))))
        return true;
    http_reply_error(req, 403, NULL, "Host must be localhost or its address");
    return false;
}

bool guard_accepts_stream(const struct http_req *req)
{
    struct str accept = http_req_header(req, STR("accept"));

    return str_find_str(accept, STR("text/event-stream")) < accept.n ||
           str_find_str(accept, STR("*/*")) < accept.n;
}

/* A value that is no plain text is written as =?base64?...?= */
static bool header_is(const struct http_req *req, struct str name, struct str wanted)
{
    const struct str begin = STR("=?base64?"), end = STR("?=");
    struct str given = http_req_header(req, name);
    AUTO_BUF(decoded, NAME_BYTES_MAX);
    size_t n = 0;

    if (given.n < begin.n + end.n || !str_starts(given, begin) || !str_ends(given, end))
        return str_eq(given, wanted);
    given = str_make(given.p + begin.n, given.n - begin.n - end.n);
    if (buf_reserve(&decoded, BASE64_DATA_MAX(given.n) + 1) < 0 ||
        base64_decode(given, BASE64_STD, decoded.p, decoded.cap, &n) < 0)
        return false;
    return str_eq(str_make(decoded.p, n), wanted);
}

int guard_check_headers(const struct http_req *req, const struct rpc_message *message,
                        const struct json *version, struct err *e)
{
    static const struct {
        const char *method, *key;
    } named[] = {
        {"tools/call",     "name"},
        {"resources/read", "uri" }
    };

    if (version->type != JSON_STRING ||
        !header_is(req, STR("mcp-protocol-version"), version->string))
        return err_set(e, EINVAL,
                       "the header MCP-Protocol-Version must be the version of the message");
    if (!header_is(req, STR("mcp-method"), message->method))
        return err_set(e, EINVAL, "the header Mcp-Method must be the method of the message");
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        struct str name;

        if (str_eq(message->method, str_of(named[i].method)) &&
            json_to_str(json_get(message->params, str_of(named[i].key)), &name) == 0 &&
            !header_is(req, STR("mcp-name"), name))
            return err_set(e, EINVAL, "the header Mcp-Name must be the %s of the message",
                           named[i].key);
    }
    return 0;
}
