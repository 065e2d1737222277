#include "server/gateway/host_route.h"

#include <assert.h>
#include <errno.h>

enum { PORT_DIGITS_MAX = 5, HOST_ID_BYTES_MAX = 63, COOKIE_BYTES_MAX = H1_HEAD_BYTES_MAX };

/* "name:8080" -> "name". A name in brackets is an address, and none of ours. */
static struct str without_port(struct str host)
{
    return str_make(host.p, str_find(host, ':'));
}

static bool is_label(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-')
            return false;
    return s.n > 0 && s.n <= HOST_ID_BYTES_MAX;
}

bool host_route_parse(struct str host, struct str domain, struct host_route *ret)
{
    struct str name = without_port(host), id, suffix;
    size_t digits = 0;
    uint16_t port;

    if (!domain.n || name.n < domain.n + 2)
        return false;
    suffix = str_skip(name, name.n - domain.n);
    if (!str_eq_nocase(suffix, domain) || suffix.p[-1] != '.')
        return false;
    name.n -= domain.n + 1;
    while (digits < name.n && ascii_is_digit(name.p[digits]))
        digits++;
    if (digits == 0 || digits > PORT_DIGITS_MAX || digits == name.n || name.p[digits] != '-')
        return false;
    id = str_skip(name, digits + 1);
    if (!is_label(id) || str_to_u16(str_make(name.p, digits), &port) < 0 || port == 0)
        return false;
    *ret = (struct host_route){str_make(name.p, digits), id};
    return true;
}

int host_route_apply(struct http_req *req, struct str domain)
{
    struct str path = req->head.path, query = req->head.query;
    struct host_route route;
    const char *text;
    size_t before;

    if (!host_route_parse(req->head.host, domain, &route))
        return 0;
    text =
        arena_printf(&req->arena, "/sandboxes/%.*s/proxy/%.*s%.*s%s%.*s", STR_ARG(route.sandbox_id),
                     STR_ARG(route.port), STR_ARG(path), query.p ? "?" : "", STR_ARG(query));
    if (!text)
        return -ENOMEM;
    before = STR("/sandboxes//proxy/").n + route.sandbox_id.n + route.port.n;
    req->head.path = str_make(text, before + path.n);
    if (query.p)
        req->head.query = str_make(text + before + path.n + 1, query.n);
    return 0;
}

/* --- the cookie --- */

static const struct str access_name = STR_INIT(HOST_ROUTE_ACCESS);

/* Whether "name=value" is ours; *ret_value is its value then. */
static bool is_access(struct str pair, struct str *ret_value)
{
    struct str name = STR_NONE;

    pair = str_trim(pair);
    if (!str_cut(&pair, '=', &name) || !str_eq(name, access_name) || !pair.p)
        return false;
    *ret_value = pair;
    return true;
}

/* A page of another origin may make a browser send this request, with the cookie. For reading, an
 * image say, there is no Origin, but such a page does not see the answer. */
static bool is_foreign(const struct http_req *req)
{
    struct str origin = http_req_header(req, STR("Origin"));
    size_t scheme = str_find_str(origin, STR("://"));

    if (!origin.n)
        return false;
    return scheme == origin.n || !str_eq_nocase(str_skip(origin, scheme + 3), req->head.host);
}

struct str host_route_cookie(const struct http_req *req)
{
    const struct http_headers *h = &req->head.headers;
    struct str value;

    if (is_foreign(req))
        return STR_NONE;
    for (size_t i = 0; i < h->count; i++) {
        struct str rest = h->rows[i].value, pair;

        if (!str_eq_nocase(h->rows[i].name, STR("Cookie")))
            continue;
        while (str_cut(&rest, ';', &pair))
            if (is_access(pair, &value))
                return value;
    }
    return STR_NONE;
}

/* The row without our cookie; false when nothing is left of it. */
static bool strip_row(struct http_req *req, struct http_header *row)
{
    struct str rest = row->value, pair, value;
    bool found = false;
    AUTO_BUF(kept, COOKIE_BYTES_MAX);

    while (str_cut(&rest, ';', &pair)) {
        if (is_access(pair, &value))
            found = true;
        else if (str_trim(pair).n)
            (void)buf_addf(&kept, "%s%.*s", kept.n ? "; " : "", STR_ARG(str_trim(pair)));
    }
    if (!found)
        return true;
    row->value = arena_str(&req->arena, buf_str(&kept));
    return row->value.n > 0;
}

void host_route_drop_cookie(struct http_req *req)
{
    struct http_headers *h = &req->head.headers;
    size_t n = 0;

    for (size_t i = 0; i < h->count; i++)
        if (!str_eq_nocase(h->rows[i].name, STR("Cookie")) || strip_row(req, &h->rows[i]))
            h->rows[n++] = h->rows[i];
    h->count = n;
}

/* --- signing in --- */

struct str host_route_access(struct str query)
{
    struct str pair, value;

    while (str_cut(&query, '&', &pair))
        if (is_access(pair, &value))
            return value;
    return STR_NONE;
}

/* A path that begins with two slashes would lead to another host. */
static int write_location(struct buf *out, struct str rest, struct str query)
{
    struct str pair, value;
    char separator = '?';
    int r = buf_addf(out, "%s%.*s", str_starts(rest, STR("//")) ? "/." : "", STR_ARG(rest));

    while (r == 0 && str_cut(&query, '&', &pair))
        if (pair.n && !is_access(pair, &value)) {
            r = buf_addf(out, "%c%.*s", separator, STR_ARG(pair));
            separator = '&';
        }
    return r;
}

/* What a cookie's value may have (RFC 6265 4.1.1); tokens and signed routes have nothing else. */
static bool is_cookie_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_alpha(s.p[i]) && !ascii_is_digit(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' &&
            s.p[i] != '.')
            return false;
    return s.n > 0;
}

void host_route_sign_in(struct http_req *req, struct str rest, struct str access)
{
    AUTO_BUF(location, H1_HEAD_BYTES_MAX);
    AUTO_BUF(cookie, COOKIE_BYTES_MAX);
    int r = write_location(&location, rest.n ? rest : STR("/"), req->head.query);

    if (!is_cookie_value(access))
        r = -EINVAL;
    if (r == 0)
        r = buf_addf(&cookie, "%s=%.*s; Path=/; HttpOnly; SameSite=Lax%s", HOST_ROUTE_ACCESS,
                     STR_ARG(access), http_req_is_secure(req) ? "; Secure" : "");
    if (r == 0)
        r = http_reply_header(req, STR("Location"), buf_str(&location));
    if (r == 0)
        r = http_reply_header(req, STR("Set-Cookie"), buf_str(&cookie));
    if (r == 0)
        r = http_reply_header(req, STR("Cache-Control"), STR("no-store"));
    if (r < 0)
        http_reply_error(req, 400, "GENERAL::UNKNOWN_ERROR",
                         "the address with " HOST_ROUTE_ACCESS
                         " cannot be used: it is too long, or "
                         "has characters that a cookie cannot have");
    else
        http_reply(req, 303, STR_NONE, STR_NONE);
}
