#include "image/proxy.h"

#include <arpa/inet.h>
#include <errno.h>

#include "base/codec.h"

enum { USERINFO_BYTES_MAX = 1024 };

/* --- NO_PROXY --- */

static bool is_this_machine(struct str host)
{
    return str_eq_nocase(host, STR("localhost")) || str_starts(host, STR("127.")) ||
           str_eq(host, STR("::1"));
}

/* "example.com" and ".example.com" stand for that name and all below it. */
static bool is_name_or_below(struct str host, struct str name)
{
    struct str tail;

    if (name.n && name.p[0] == '.')
        name = str_skip(name, 1);
    if (name.n == 0 || host.n < name.n)
        return false;
    tail = str_skip(host, host.n - name.n);
    return str_eq_nocase(tail, name) && (host.n == name.n || tail.p[-1] == '.');
}

static int read_address(struct str text, uint8_t ret[sizeof(struct in6_addr)])
{
    char copy[INET6_ADDRSTRLEN];

    if (str_copy(copy, sizeof(copy), text) < 0)
        return 0;
    if (inet_pton(AF_INET, copy, ret) == 1)
        return sizeof(struct in_addr);
    return inet_pton(AF_INET6, copy, ret) == 1 ? (int)sizeof(struct in6_addr) : 0;
}

/* Whether an address is in a network such as 10.0.0.0/8. A name is in none: it is not looked up. */
static bool is_in_network(struct str host, struct str network)
{
    uint8_t at[sizeof(struct in6_addr)], first[sizeof(struct in6_addr)];
    struct str address;
    uint16_t bits;
    int n;

    (void)str_cut(&network, '/', &address);
    n = read_address(address, first);
    if (n == 0 || read_address(host, at) != n || str_to_u16(network, &bits) < 0 || bits > n * 8)
        return false;
    if (memcmp(at, first, bits / 8) != 0)
        return false;
    return bits % 8 == 0 || (at[bits / 8] ^ first[bits / 8]) >> (8 - bits % 8) == 0;
}

static bool entry_covers(struct str entry, const struct url *to)
{
    size_t colon = str_find(entry, ':');
    uint16_t port;

    if (str_eq(entry, STR("*")))
        return true;
    if (str_find(entry, '/') < entry.n)
        return is_in_network(to->host, entry);
    if (to->host_is_ipv6)
        return str_eq_nocase(entry, to->host);
    if (colon < entry.n) {
        if (str_to_u16(str_skip(entry, colon + 1), &port) < 0 || port != to->port)
            return false;
        entry.n = colon;
    }
    if (str_starts(entry, STR("*.")))
        entry = str_skip(entry, 1);
    return is_name_or_below(to->host, entry);
}

static bool is_excepted(struct str no, const struct url *to)
{
    struct str entry;

    while (str_cut(&no, ',', &entry))
        if (entry_covers(str_trim(entry), to))
            return true;
    return false;
}

/* --- the proxy's own address --- */

static int read_userinfo(struct str info, struct arena *a, struct image_proxy *p, struct err *e)
{
    struct str plain;
    AUTO_BUF(text, BASE64_TEXT_MAX(USERINFO_BYTES_MAX));
    int r = info.n > USERINFO_BYTES_MAX ? -EINVAL : url_decode_in(a, info, 0, &plain);

    if (r == 0)
        r = buf_reserve(&text, BASE64_TEXT_MAX(USERINFO_BYTES_MAX) - 1);
    if (r < 0)
        return err_set(e, EINVAL, "the proxy's user name and password are not percent-encoded");
    buf_claim(&text, base64_encode(plain, BASE64_STD, text.p));
    p->auth = str_of(arena_printf(a, "Basic %s", text.p));
    return p->auth.p ? 0 : err_set(e, ENOMEM, "out of room");
}

static int read_proxy(struct str text, struct arena *a, struct image_proxy *ret, struct err *e)
{
    struct image_proxy p = {0};
    struct str rest, info = STR_NONE;
    struct url url;
    char *whole;
    int r;

    if (str_starts(text, STR("http://")))
        text = str_skip(text, 7);
    else if (str_find_str(text, STR("://")) < text.n)
        return err_set(e, EINVAL,
                       "the proxy's address is not one of http, the only kind known "
                       "here: expected http://host:port");
    for (rest = text; str_find(rest, '@') < rest.n;) { /* the last one: a password may have some */
        rest = str_skip(rest, str_find(rest, '@') + 1);
        info = str_make(text.p, (size_t)(rest.p - text.p) - 1);
    }
    whole = arena_printf(a, "http://%.*s", STR_ARG(rest));
    if (!whole)
        return err_set(e, ENOMEM, "out of room");
    r = url_split(str_of(whole), &url, e);
    if (r < 0)
        return err_wrap(e, r, "the proxy's address");
    p.host = url.host;
    p.port = url.port;
    if (info.p)
        r = read_userinfo(info, a, &p, e);
    if (r < 0)
        return r;
    *ret = p;
    return 0;
}

int image_proxy_for(const struct image_proxy_conf *conf, const struct url *to, struct arena *a,
                    struct image_proxy *ret, struct err *e)
{
    const char *proxy = to->scheme == URL_HTTPS ? conf->https : conf->http;

    *ret = (struct image_proxy){0};
    if (!proxy || !proxy[0] || is_this_machine(to->host) ||
        is_excepted(str_trim(str_of(conf->no)), to))
        return 0;
    return read_proxy(str_of(proxy), a, ret, e);
}
