#include "base/url.h"

#include <arpa/inet.h>
#include <errno.h>

enum { ESCAPE_BYTES = 3 };

/* The byte that an escape (three characters) encodes, or -EINVAL. */
static int url_escape_value(struct str s)
{
    int high, low;

    if (s.n < ESCAPE_BYTES)
        return -EINVAL;
    high = ascii_hex_value(s.p[1]);
    low = ascii_hex_value(s.p[2]);
    return high < 0 || low < 0 ? -EINVAL : high << 4 | low;
}

/* Removes one decoded byte from the front of *s, which is not empty. */
static int url_take_byte(struct str *s, unsigned flags)
{
    int c = (unsigned char)s->p[0];
    size_t used = 1;

    if (c == '%') {
        c = url_escape_value(*s);
        used = ESCAPE_BYTES;
    } else if (c == '+' && (flags & URL_PLUS_IS_SPACE)) {
        c = ' ';
    }
    if (c < 0 || (c == 0 && !(flags & URL_ALLOW_NUL)))
        return -EINVAL;
    *s = str_skip(*s, used);
    return c;
}

static int url_decoded_length(struct str s, unsigned flags, size_t *ret)
{
    size_t n = 0;

    for (; s.n; n++) {
        int c = url_take_byte(&s, flags);

        if (c < 0)
            return c;
    }
    *ret = n;
    return 0;
}

/* `s` was checked and is known to decode. */
static void url_decode_to(char *out, struct str s, unsigned flags)
{
    while (s.n)
        *out++ = (char)url_take_byte(&s, flags);
}

int url_decode(struct str s, unsigned flags, struct buf *b)
{
    size_t n;
    int r = url_decoded_length(s, flags, &n);

    if (r < 0)
        return r;
    r = buf_reserve(b, n);
    if (r < 0)
        return r;
    url_decode_to(b->p + b->n, s, flags);
    buf_claim(b, n);
    return 0;
}

static bool url_needs_decoding(struct str s, unsigned flags)
{
    return str_find(s, '%') < s.n || ((flags & URL_PLUS_IS_SPACE) && str_find(s, '+') < s.n);
}

int url_decode_in(struct arena *a, struct str s, unsigned flags, struct str *ret)
{
    size_t n;
    char *p;
    int r = url_decoded_length(s, flags, &n);

    if (r < 0)
        return r;
    if (!url_needs_decoding(s, flags)) {
        *ret = s;
        return 0;
    }
    p = arena_alloc(a, n + 1);
    if (!p)
        return -ENOMEM;
    url_decode_to(p, s, flags);
    p[n] = '\0';
    *ret = str_make(p, n);
    return 0;
}

static bool url_is_alnum(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c);
}

static bool url_is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool url_is_unreserved(char c)
{
    return url_is_alnum(c) || url_is_one_of(c, "-._~");
}

/* After the host: characters that RFC 3986 allows in paths and queries, and a few other printable
 * characters that clients send unescaped. */
static bool url_is_graphic(char c)
{
    return c > 0x20 && c < 0x7f;
}

static int url_add_escape(struct buf *b, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char escape[ESCAPE_BYTES] = {'%', digits[c >> 4], digits[c & 15]};

    return buf_add(b, str_make(escape, sizeof(escape)));
}

int url_encode(struct str s, enum url_set set, struct buf *b)
{
    static const char *const plain[] = {
        [URL_SET_SEGMENT] = "-._~!$&'()*+,;=:@",
        [URL_SET_QUERY_VALUE] = "-._~",
        [URL_SET_ATTR_CHAR] = "!#$&+-.^_`|~",
    };
    size_t before = b->n;
    int r = 0;

    for (size_t i = 0; i < s.n && r == 0; i++)
        r = url_is_alnum(s.p[i]) || url_is_one_of(s.p[i], plain[set])
                ? buf_add_char(b, s.p[i])
                : url_add_escape(b, (unsigned char)s.p[i]);
    if (r < 0)
        buf_cut(b, before);
    return r;
}

void url_query_init(struct url_query_iter *it, struct str query, struct arena *a)
{
    *it = (struct url_query_iter){.rest = query, .arena = a};
}

int url_query_next(struct url_query_iter *it)
{
    struct str pair = STR_NONE;
    size_t equals;
    int r;

    while (pair.n == 0)
        if (!str_cut(&it->rest, '&', &pair))
            return 0;
    equals = str_find(pair, '=');
    it->raw_key = str_make(pair.p, equals);
    it->raw_value = str_skip(pair, min_size(equals + 1, pair.n));
    it->key = it->value = STR_NONE;
    r = url_decode_in(it->arena, it->raw_key, URL_PLUS_IS_SPACE, &it->key);
    if (r < 0)
        return r;
    r = url_decode_in(it->arena, it->raw_value, URL_PLUS_IS_SPACE, &it->value);
    return r < 0 ? r : 1;
}

int url_query_get(struct str query, struct str key, struct arena *a, struct str *ret)
{
    struct url_query_iter it;
    int r;

    url_query_init(&it, query, a);
    while ((r = url_query_next(&it)) > 0) {
        if (!str_eq(it.key, key))
            continue;
        *ret = it.value;
        return 1;
    }
    return r;
}

static int url_split_scheme(struct str *s, struct url *u, struct err *e)
{
    static const struct {
        struct str prefix;
        enum url_scheme scheme;
        uint16_t port;
    } schemes[] = {
        {STR_INIT("http://"),  URL_HTTP,  80 },
        {STR_INIT("https://"), URL_HTTPS, 443},
        {STR_INIT("ws://"),    URL_WS,    80 },
        {STR_INIT("wss://"),   URL_WSS,   443},
    };

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        struct str prefix = schemes[i].prefix;

        if (s->n < prefix.n || !str_eq_nocase(str_make(s->p, prefix.n), prefix))
            continue;
        u->scheme = schemes[i].scheme;
        u->port = schemes[i].port;
        *s = str_skip(*s, prefix.n);
        return 0;
    }
    return err_set(e, EINVAL, "expected a URL that begins with http, https, ws or wss ://");
}

static bool url_is_ipv6(struct str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;

    return str_copy(text, sizeof(text), host) == 0 && inet_pton(AF_INET6, text, &address) == 1;
}

static bool url_is_host_name(struct str host)
{
    if (host.n == 0 || host.n > URL_HOST_BYTES_MAX)
        return false;
    for (size_t i = 0; i < host.n; i++)
        if (!url_is_alnum(host.p[i]) && !url_is_one_of(host.p[i], "-._"))
            return false;
    return true;
}

/* Removes the host from the front of the authority; the port, if any, is left with its colon. */
static int url_split_host(struct str *authority, struct url *u, struct err *e)
{
    size_t n;

    if (str_find(*authority, '@') < authority->n)
        return err_set(e, EINVAL, "a URL with a user name or password is not accepted");
    if (!str_starts(*authority, STR("["))) {
        n = str_find(*authority, ':');
        u->host = str_make(authority->p, n);
        *authority = str_skip(*authority, n);
        return url_is_host_name(u->host) ? 0 : err_set(e, EINVAL, "the URL has no valid host");
    }
    n = str_find(*authority, ']');
    u->host = str_make(authority->p + 1, n - 1);
    u->host_is_ipv6 = true;
    if (n == authority->n || !url_is_ipv6(u->host))
        return err_set(e, EINVAL, "the URL has no valid IPv6 address between [ and ]");
    *authority = str_skip(*authority, n + 1);
    return 0;
}

static int url_split_port(struct str s, struct url *u, struct err *e)
{
    uint64_t port;

    if (s.n == 0 || str_eq(s, STR(":")))
        return 0;
    if (s.p[0] != ':' || str_to_u64_range(str_skip(s, 1), 1, UINT16_MAX, &port) < 0)
        return err_set(e, EINVAL, "expected a port from 1 to 65535 behind the URL's host");
    u->port = (uint16_t)port;
    return 0;
}

int url_split(struct str s, struct url *ret, struct err *e)
{
    struct url u = {0};
    struct str authority;
    size_t n = 0;
    int r;

    for (size_t i = 0; i < s.n; i++)
        if (!url_is_graphic(s.p[i]))
            return err_set(e, EINVAL, "byte %zu of the URL must be percent-encoded", i + 1);
    r = url_split_scheme(&s, &u, e);
    if (r < 0)
        return r;
    s.n = str_find(s, '#');
    while (n < s.n && s.p[n] != '/' && s.p[n] != '?')
        n++;
    authority = str_make(s.p, n);
    s = str_skip(s, n);
    r = url_split_host(&authority, &u, e);
    if (r < 0)
        return r;
    r = url_split_port(authority, &u, e);
    if (r < 0)
        return r;
    n = str_find(s, '?');
    u.path = str_make(s.p, n);
    u.query = n < s.n ? str_skip(s, n + 1) : STR_NONE;
    *ret = u;
    return 0;
}

/* True for "." and "..", also with escaped dots. */
static bool url_is_dot_segment(struct str segment)
{
    size_t dots = 0;

    while (segment.n) {
        bool escaped = segment.p[0] == '%';

        if ((escaped ? url_escape_value(segment) : segment.p[0]) != '.')
            return false;
        segment = str_skip(segment, escaped ? ESCAPE_BYTES : 1);
        dots++;
    }
    return dots == 1 || dots == 2;
}

bool url_path_has_dot_segment(struct str path)
{
    struct str segment;

    while (str_cut(&path, '/', &segment))
        if (url_is_dot_segment(segment))
            return true;
    return false;
}

/* Appends the next character or escape of *path in its normal form, and advances *path. */
static int url_normalize_next(struct str *path, struct buf *b)
{
    char c = path->p[0];
    int value;

    if (c != '%') {
        *path = str_skip(*path, 1);
        return url_is_graphic(c) && !url_is_one_of(c, "?#") ? buf_add_char(b, c) : -EINVAL;
    }
    value = url_escape_value(*path);
    if (value <= 0)
        return -EINVAL;
    *path = str_skip(*path, ESCAPE_BYTES);
    return url_is_unreserved((char)value) ? buf_add_char(b, (char)value)
                                          : url_add_escape(b, (unsigned char)value);
}

int url_path_normalize(struct str path, struct buf *b)
{
    size_t before = b->n;
    int r = 0;

    if (!str_starts(path, STR("/")))
        return -EINVAL;
    if (url_path_has_dot_segment(path))
        return -EPERM;
    while (path.n && r == 0)
        r = url_normalize_next(&path, b);
    if (r < 0)
        buf_cut(b, before);
    return r;
}
