#include "net/http.h"

#include <errno.h>

#include "net/http_bytes.h"

#define PUNCTUATION(c)                                                                             \
    ((c) == '!' || ((c) >= '#' && (c) <= '\'') || (c) == '*' || (c) == '+' || (c) == '-' ||        \
     (c) == '.' || (c) == '^' || (c) == '_' || (c) == '`' || (c) == '|' || (c) == '~')
#define ALNUM(c) (((c) >= '0' && (c) <= '9') || (((c) | 32) >= 'a' && ((c) | 32) <= 'z'))
#define HEX(c)   (((c) >= '0' && (c) <= '9') || (((c) | 32) >= 'a' && ((c) | 32) <= 'f'))
#define CLASSES(c)                                                                                 \
    ((ALNUM(c) || PUNCTUATION(c) ? HTTP_BYTE_TOKEN : 0) |                                          \
     ((c) == '\t' || ((c) >= ' ' && (c) != 0x7f) ? HTTP_BYTE_VALUE : 0) |                          \
     ((c) > ' ' && (c) < 0x7f && (c) != '#' ? HTTP_BYTE_TARGET : 0) |                              \
     (ALNUM(c) || (c) == '-' || (c) == '.' || (c) == '_' || (c) == '~' ? HTTP_BYTE_HOST : 0) |     \
     (HEX(c) || (c) == ':' || (c) == '.' ? HTTP_BYTE_IP6 : 0))
#define ROW4(c)  CLASSES(c), CLASSES((c) + 1), CLASSES((c) + 2), CLASSES((c) + 3)
#define ROW16(c) ROW4(c), ROW4((c) + 4), ROW4((c) + 8), ROW4((c) + 12)
#define ROW64(c) ROW16(c), ROW16((c) + 16), ROW16((c) + 32), ROW16((c) + 48)

const uint8_t http_byte_classes[256] = {ROW64(0), ROW64(64), ROW64(128), ROW64(192)};

static const struct str method_names[HTTP_METHOD_COUNT] = {
    [HTTP_GET] = STR_INIT("GET"),       [HTTP_HEAD] = STR_INIT("HEAD"),
    [HTTP_POST] = STR_INIT("POST"),     [HTTP_PUT] = STR_INIT("PUT"),
    [HTTP_DELETE] = STR_INIT("DELETE"), [HTTP_OPTIONS] = STR_INIT("OPTIONS"),
    [HTTP_PATCH] = STR_INIT("PATCH"),   [HTTP_CONNECT] = STR_INIT("CONNECT"),
    [HTTP_TRACE] = STR_INIT("TRACE"),   [HTTP_OTHER] = STR_INIT(""),
};

#define STATUS(code, reason) [(code)-100] = STR_INIT("HTTP/1.1 " #code " " reason "\r\n")

/* Complete lines, so that a reply's first line is one copy. */
static const struct str status_lines[] = {
    STATUS(100, "Continue"),
    STATUS(101, "Switching Protocols"),
    STATUS(102, "Processing"),
    STATUS(103, "Early Hints"),
    STATUS(200, "OK"),
    STATUS(201, "Created"),
    STATUS(202, "Accepted"),
    STATUS(203, "Non-Authoritative Information"),
    STATUS(204, "No Content"),
    STATUS(205, "Reset Content"),
    STATUS(206, "Partial Content"),
    STATUS(207, "Multi-Status"),
    STATUS(208, "Already Reported"),
    STATUS(226, "IM Used"),
    STATUS(300, "Multiple Choices"),
    STATUS(301, "Moved Permanently"),
    STATUS(302, "Found"),
    STATUS(303, "See Other"),
    STATUS(304, "Not Modified"),
    STATUS(305, "Use Proxy"),
    STATUS(307, "Temporary Redirect"),
    STATUS(308, "Permanent Redirect"),
    STATUS(400, "Bad Request"),
    STATUS(401, "Unauthorized"),
    STATUS(402, "Payment Required"),
    STATUS(403, "Forbidden"),
    STATUS(404, "Not Found"),
    STATUS(405, "Method Not Allowed"),
    STATUS(406, "Not Acceptable"),
    STATUS(407, "Proxy Authentication Required"),
    STATUS(408, "Request Timeout"),
    STATUS(409, "Conflict"),
    STATUS(410, "Gone"),
    STATUS(411, "Length Required"),
    STATUS(412, "Precondition Failed"),
    STATUS(413, "Content Too Large"),
    STATUS(414, "URI Too Long"),
    STATUS(415, "Unsupported Media Type"),
    STATUS(416, "Range Not Satisfiable"),
    STATUS(417, "Expectation Failed"),
    STATUS(421, "Misdirected Request"),
    STATUS(422, "Unprocessable Content"),
    STATUS(423, "Locked"),
    STATUS(424, "Failed Dependency"),
    STATUS(425, "Too Early"),
    STATUS(426, "Upgrade Required"),
    STATUS(428, "Precondition Required"),
    STATUS(429, "Too Many Requests"),
    STATUS(431, "Request Header Fields Too Large"),
    STATUS(451, "Unavailable For Legal Reasons"),
    STATUS(500, "Internal Server Error"),
    STATUS(501, "Not Implemented"),
    STATUS(502, "Bad Gateway"),
    STATUS(503, "Service Unavailable"),
    STATUS(504, "Gateway Timeout"),
    STATUS(505, "HTTP Version Not Supported"),
    STATUS(506, "Variant Also Negotiates"),
    STATUS(507, "Insufficient Storage"),
    STATUS(508, "Loop Detected"),
    STATUS(510, "Not Extended"),
    STATUS(511, "Network Authentication Required"),
};

enum http_method http_method_of(struct str name)
{
    for (int m = 0; m < HTTP_OTHER; m++)
        if (str_eq(name, method_names[m]))
            return (enum http_method)m;
    return HTTP_OTHER;
}

struct str http_method_name(enum http_method method)
{
    return method_names[method];
}

struct str http_status_line(int status)
{
    size_t at = (size_t)status - 100;

    return status >= 100 && at < ARRAY_LEN(status_lines) ? status_lines[at] : STR_NONE;
}

struct str http_status_reason(int status)
{
    const size_t before = sizeof("HTTP/1.1 404 ") - 1;
    struct str line = http_status_line(status);

    return line.n ? str_make(line.p + before, line.n - before - 2) : STR("");
}

static const struct http_header *find_from(const struct http_headers *headers, size_t at,
                                           struct str name)
{
    for (; at < headers->count; at++)
        if (str_eq_nocase(headers->rows[at].name, name))
            return &headers->rows[at];
    return NULL;
}

const struct http_header *http_header_find(const struct http_headers *headers, struct str name)
{
    return find_from(headers, 0, name);
}

const struct http_header *http_header_next(const struct http_headers *headers,
                                           const struct http_header *row)
{
    return find_from(headers, (size_t)(row - headers->rows) + 1, row->name);
}

struct str http_header_get(const struct http_headers *headers, struct str name)
{
    const struct http_header *row = http_header_find(headers, name);

    return row ? row->value : STR_NONE;
}

bool http_token_list_has(struct str value, struct str token)
{
    struct str member;

    while (str_cut(&value, ',', &member))
        if (str_eq_nocase(str_trim(member), token))
            return true;
    return false;
}

bool http_headers_have_token(const struct http_headers *headers, struct str name, struct str token)
{
    const struct http_header *row = http_header_find(headers, name);

    for (; row; row = http_header_next(headers, row))
        if (http_token_list_has(row->value, token))
            return true;
    return false;
}

static bool all_of(struct str s, enum http_byte class)
{
    for (size_t i = 0; i < s.n; i++)
        if (!http_byte_is(s.p[i], class))
            return false;
    return true;
}

bool http_is_token(struct str s)
{
    return s.n && all_of(s, HTTP_BYTE_TOKEN);
}

bool http_is_value(struct str s)
{
    return s.n == 0 || http_skip_value(s.p, s.p + s.n) == s.p + s.n;
}

/* After the host: nothing, or a colon and a port, which RFC 3986 allows to be empty. */
static bool is_port_suffix(struct str s)
{
    uint16_t port;

    return s.n <= 1 ? s.n == 0 || s.p[0] == ':'
                    : s.p[0] == ':' && s.n <= 6 && str_to_u16(str_skip(s, 1), &port) == 0;
}

bool http_is_authority(struct str s)
{
    size_t n;

    if (s.n && s.p[0] == '[') {
        n = str_find(s, ']');
        return n < s.n && n > 2 && all_of(str_make(s.p + 1, n - 1), HTTP_BYTE_IP6) &&
               is_port_suffix(str_skip(s, n + 1));
    }
    n = str_find(s, ':');
    return n > 0 && all_of(str_make(s.p, n), HTTP_BYTE_HOST) && is_port_suffix(str_skip(s, n));
}

/* A position with any number of digits: on overflow the maximum, which is past any content. */
static int parse_position(struct str s, uint64_t *ret)
{
    int r = str_to_u64(s, ret);

    if (r == -ERANGE)
        *ret = UINT64_MAX;
    return r == -ERANGE ? 0 : r;
}

/* One range of the list. 0, -EINVAL or -ERANGE, as http_range_parse. */
static int parse_one_range(struct str s, uint64_t size, struct http_range *ret)
{
    size_t dash = str_find(s, '-');
    uint64_t first = 0, last = UINT64_MAX;

    if (dash == s.n || s.n == 1)
        return -EINVAL;
    if (dash == 0) {
        if (parse_position(str_skip(s, 1), &last) < 0)
            return -EINVAL;
        if (last == 0 || size == 0)
            return -ERANGE;
        ret->bytes = last < size ? last : size;
        ret->offset = size - ret->bytes;
        return 0;
    }
    if (parse_position(str_make(s.p, dash), &first) < 0)
        return -EINVAL;
    if (dash + 1 < s.n && parse_position(str_skip(s, dash + 1), &last) < 0)
        return -EINVAL;
    if (last < first)
        return -EINVAL;
    if (first >= size)
        return -ERANGE;
    ret->offset = first;
    ret->bytes = (last < size ? last + 1 : size) - first;
    return 0;
}

int http_range_parse(struct str value, uint64_t size, struct http_range *ret_range)
{
    const struct str unit = STR("bytes=");
    struct http_range range, found = {0, 0};
    bool any = false;
    struct str member;

    if (value.n < unit.n || !str_eq_nocase(str_make(value.p, unit.n), unit))
        return -EINVAL;
    value = str_skip(value, unit.n);
    while (str_cut(&value, ',', &member)) {
        int r;

        member = str_trim(member);
        if (member.n == 0)
            continue; /* RFC 9110 5.6.1: a list may have empty members */
        any = true;
        r = parse_one_range(member, size, &range);
        if (r == -EINVAL)
            return r;
        if (r == 0 && found.bytes == 0)
            found = range;
    }
    if (!any)
        return -EINVAL;
    if (found.bytes == 0)
        return -ERANGE;
    *ret_range = found;
    return 0;
}

bool http_header_is_free(const struct http_header *row)
{
    static const char *const ours[] = {
        "connection", "content-encoding",  "content-length", "content-type", "expect", "host",
        "te",         "transfer-encoding", "upgrade",
    };

    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (str_eq_nocase(row->name, str_of(ours[i])))
            return false;
    return http_is_token(row->name) && row->value.p && http_is_value(row->value);
}
