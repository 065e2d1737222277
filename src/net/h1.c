#include "net/h1.h"

#include "net/http_bytes.h"

/* Besides the target, a request line has a method and "  HTTP/1.1\r\n". */
enum { METHOD_BYTES_MAX = 32, LINE_BYTES_EXTRA = METHOD_BYTES_MAX + 12, EMPTY_LINES_MAX = 2 };

#define HEAD_END STR("\r\n\r\n")

const struct h1_limits h1_default_limits = {
    .head_bytes_max = H1_HEAD_BYTES_MAX,
    .target_bytes_max = H1_TARGET_BYTES_MAX,
    .headers_max = H1_HEADERS_MAX,
};

static const struct {
    const char *name;
    int status;
    struct str text;
} errors[] = {
#define H1_ERROR_ROW(name, status, text) {#name, status, STR_INIT(text)},
    H1_ERRORS(H1_ERROR_ROW)
#undef H1_ERROR_ROW
};

int h1_error_status(enum h1_error error)
{
    return errors[error].status;
}

struct str h1_error_text(enum h1_error error)
{
    return errors[error].text;
}

const char *h1_error_name(enum h1_error error)
{
    return errors[error].name;
}

/* Skips empty lines. H1_OK once another byte is at scan->start. */
static enum h1_error skip_empty_lines(struct str in, struct h1_scan *scan)
{
    for (;;) {
        if (scan->start == in.n)
            return H1_AGAIN;
        if (in.p[scan->start] == '\n')
            return H1_BARE_LF;
        if (in.p[scan->start] != '\r')
            return H1_OK;
        if (scan->start == 2 * EMPTY_LINES_MAX)
            return H1_EMPTY_LINES;
        if (scan->start + 1 == in.n)
            return H1_AGAIN;
        if (in.p[scan->start + 1] != '\n')
            return H1_BARE_CR;
        scan->start += 2;
        scan->pos = scan->start;
    }
}

/* Checks a head against the limits when `n` bytes of it are there. Done before the head is
 * complete, so that the sender cannot make us hold any amount; and before any other check of these
 * bytes, so that the result does not depend on how they arrived. */
static enum h1_error check_size(size_t n, bool in_headers, const struct h1_limits *limits)
{
    if (!in_headers && n > LINE_BYTES_EXTRA && n - LINE_BYTES_EXTRA > limits->target_bytes_max)
        return H1_TARGET_TOO_LONG;
    return n > limits->head_bytes_max ? H1_HEAD_TOO_LARGE : H1_OK;
}

enum h1_error h1_find_head(struct str in, const struct h1_limits *limits, struct h1_scan *scan,
                           struct str *ret_head)
{
    enum h1_error e = skip_empty_lines(in, scan);

    if (e)
        return e;
    while (scan->pos < in.n) {
        const char *lf = memchr(in.p + scan->pos, '\n', in.n - scan->pos);
        size_t at;

        if (!lf)
            break;
        at = (size_t)(lf - in.p);
        e = check_size(at - scan->start + 1, scan->in_headers, limits);
        if (e)
            return e;
        if (in.p[at - 1] != '\r') /* at > start, and in.p[start] is neither CR nor LF */
            return H1_BARE_LF;
        scan->pos = at + 1;
        if (scan->in_headers && in.p[at - 2] == '\n') {
            *ret_head = str_make(in.p + scan->start, at + 1 - scan->start);
            return H1_OK;
        }
        scan->in_headers = true;
    }
    scan->pos = in.n;
    e = check_size(in.n - scan->start, scan->in_headers, limits);
    return e ? e : H1_AGAIN;
}

/* Compares a token with a lower-case name. For token bytes, setting 0x20 maps only a capital to its
 * lower-case letter, and only '-' to '-'. */
static bool is_name(struct str token, struct str lower)
{
    if (token.n != lower.n)
        return false;
    for (size_t i = 0; i < lower.n; i++)
        if ((token.p[i] | 0x20) != lower.p[i])
            return false;
    return true;
}

/* Records a header that matters for framing. The length distinguishes these names. */
static void note_field(struct h1_fields *fields, const struct http_header *row)
{
    static const struct {
        struct str name;
        enum h1_field field;
    } by_length[] = {
        [4] = {STR_INIT("host"),              H1_HOST             },
        [6] = {STR_INIT("expect"),            H1_EXPECT           },
        [7] = {STR_INIT("upgrade"),           H1_UPGRADE          },
        [10] = {STR_INIT("connection"),        H1_CONNECTION       },
        [14] = {STR_INIT("content-length"),    H1_CONTENT_LENGTH   },
        [17] = {STR_INIT("transfer-encoding"), H1_TRANSFER_ENCODING},
    };
    size_t n = row->name.n;

    if (n >= ARRAY_LEN(by_length) || !is_name(row->name, by_length[n].name))
        return;
    if (fields->count[by_length[n].field]++ == 0)
        fields->value[by_length[n].field] = row->value;
}

static bool is_crlf(const char *p, const char *end)
{
    return end - p >= 2 && p[0] == '\r' && p[1] == '\n';
}

/* Why the byte at `p`, the first after a header name, is not a colon. */
static enum h1_error refuse_name(const char *line, const char *p, const char *end)
{
    if (is_crlf(p, end))
        return H1_NO_COLON;
    if (*p == '\r' || *p == '\n')
        return *p == '\r' ? H1_BARE_CR : H1_BARE_LF;
    if (*p != ' ' && *p != '\t')
        return H1_BAD_HEADER_NAME;
    if (p == line)
        return H1_OBS_FOLD;
    while (*p == ' ' || *p == '\t')
        p++;
    return *p == ':' ? H1_SPACE_BEFORE_COLON : H1_BAD_HEADER_NAME;
}

/* Why the byte at `p`, the first that no line may contain, does not begin a CRLF. */
static enum h1_error refuse_line_end(const char *p, const char *end, enum h1_error control_byte)
{
    if (p == end || (*p != '\r' && *p != '\n'))
        return control_byte;
    return *p == '\r' ? H1_BARE_CR : H1_BARE_LF;
}

static struct str trimmed(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return str_make(p, (size_t)(end - p));
}

/* Parses header lines from `p` up to and with the empty line. The last byte before `end` is LF,
 * which stops every scan over tokens. */
static enum h1_error parse_headers(const char *p, const char *end, struct http_headers *headers,
                                   struct h1_fields *fields)
{
    headers->count = 0;
    memset(fields, 0, sizeof(*fields));
    while (!is_crlf(p, end)) {
        const char *line = p, *value;
        struct http_header *row = &headers->rows[headers->count];

        while (http_byte_is(*p, HTTP_BYTE_TOKEN))
            p++;
        if (*p != ':' || p == line)
            return refuse_name(line, p, end);
        if (headers->count == headers->max)
            return H1_TOO_MANY_HEADERS;
        row->name = str_make(line, (size_t)(p - line));
        value = p + 1;
        p = http_skip_value(value, end);
        if (!is_crlf(p, end))
            return refuse_line_end(p, end, H1_BAD_VALUE_BYTE);
        row->value = trimmed(value, p);
        note_field(fields, row);
        headers->count++;
        p += 2;
    }
    return p + 2 == end ? H1_OK : H1_BAD_START_LINE;
}

/* "HTTP/1.1" or "HTTP/1.0". */
static enum h1_error parse_version(struct str s, int *ret_minor)
{
    if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || !ascii_is_digit(s.p[5]) || s.p[6] != '.' ||
        !ascii_is_digit(s.p[7]))
        return H1_BAD_VERSION;
    if (s.p[5] != '1' || s.p[7] > '1')
        return H1_OTHER_VERSION;
    *ret_minor = s.p[7] - '0';
    return H1_OK;
}

/* Splits a path from its query. */
static void split_query(struct str s, struct h1_request *req)
{
    size_t mark = str_find(s, '?');

    req->path = str_make(s.p, mark);
    req->query = mark < s.n ? str_skip(s, mark + 1) : STR_NONE;
}

static enum h1_error parse_absolute(struct str target, struct h1_request *req)
{
    size_t colon = str_find(target, ':'), n;
    struct str scheme = str_make(target.p, colon), rest = str_skip(target, colon);

    if ((!str_eq_nocase(scheme, STR("http")) && !str_eq_nocase(scheme, STR("https"))) ||
        !str_starts(rest, STR("://")))
        return H1_BAD_TARGET;
    rest = str_skip(rest, 3);
    for (n = 0; n < rest.n && rest.p[n] != '/' && rest.p[n] != '?'; n++)
        ;
    req->form = H1_ABSOLUTE_FORM;
    req->host = str_make(rest.p, n);
    if (!http_is_authority(req->host))
        return H1_BAD_HOST;
    split_query(str_skip(rest, n), req);
    if (req->path.n == 0)
        req->path = STR("/");
    return H1_OK;
}

/* Whether an authority has a port: the last byte distinguishes "[::1]" and "host:" from
 * "[::1]:80". */
static bool has_port(struct str s)
{
    return http_is_authority(s) && str_find(s, ':') < s.n && ascii_is_digit(s.p[s.n - 1]);
}

/* Decides which of the four forms of RFC 9112 3.2 the target has, by method and first byte. */
static enum h1_error parse_target(struct h1_request *req)
{
    struct str target = req->target;

    if (req->method == HTTP_CONNECT) {
        req->form = H1_AUTHORITY_FORM;
        req->host = target;
        req->path = str_make(target.p, 0);
        if (target.p[0] == '/' || target.p[0] == '*')
            return H1_TARGET_FORM;
        return has_port(target) ? H1_OK : H1_BAD_HOST;
    }
    if (target.p[0] == '/') {
        req->form = H1_ORIGIN_FORM;
        split_query(target, req);
        return H1_OK;
    }
    if (str_eq(target, STR("*"))) {
        req->form = H1_ASTERISK_FORM;
        req->path = target;
        return req->method == HTTP_OPTIONS ? H1_OK : H1_TARGET_FORM;
    }
    if (str_find_str(target, STR("://")) < target.n)
        return parse_absolute(target, req);
    return http_is_authority(target) ? H1_TARGET_FORM : H1_BAD_TARGET;
}

/* Why the target ends at `p` without a space. */
static enum h1_error refuse_target(const char *p, const char *end)
{
    if (is_crlf(p, end) || *p == ' ')
        return H1_BAD_START_LINE;
    if (*p == '#')
        return H1_FRAGMENT;
    return refuse_line_end(p, end, H1_BAD_TARGET_BYTE);
}

/* method SP target SP version CRLF; *ret_rest is the rest. */
static enum h1_error parse_request_line(struct str head, size_t target_bytes_max,
                                        struct h1_request *req, const char **ret_rest)
{
    const char *p = head.p, *end = head.p + head.n, *target, *version;
    enum h1_error e;

    while (http_byte_is(*p, HTTP_BYTE_TOKEN))
        p++;
    if (p == head.p || *p != ' ' || p - head.p > METHOD_BYTES_MAX)
        return H1_BAD_METHOD;
    req->method_name = str_make(head.p, (size_t)(p - head.p));
    req->method = http_method_of(req->method_name);
    target = ++p;
    while (http_byte_is(*p, HTTP_BYTE_TARGET))
        p++;
    if (p == target || *p != ' ')
        return refuse_target(p, end);
    req->target = str_make(target, (size_t)(p - target));
    if (req->target.n > target_bytes_max)
        return H1_TARGET_TOO_LONG;
    version = ++p;
    p = http_skip_value(p, end);
    if (!is_crlf(p, end))
        return refuse_line_end(p, end, H1_BAD_START_LINE);
    e = parse_version(str_make(version, (size_t)(p - version)), &req->minor);
    if (e == H1_OTHER_VERSION && str_starts(head, STR("PRI * HTTP/2.0\r\n")))
        return H1_HTTP2_PREFACE;
    *ret_rest = p + 2;
    return e;
}

/* One Host in HTTP/1.1, at most one in 1.0; a host in the target overrides it (RFC 9112 3.2.2). */
static enum h1_error check_host(struct h1_request *req)
{
    unsigned int count = req->fields.count[H1_HOST];

    if (count > 1)
        return H1_MANY_HOSTS;
    if (count == 0)
        return req->minor == 0 ? H1_OK : H1_NO_HOST;
    if (!http_is_authority(req->fields.value[H1_HOST]))
        return H1_BAD_HOST;
    if (!req->host.p)
        req->host = req->fields.value[H1_HOST];
    return H1_OK;
}

static struct http_headers rows_within(const struct http_headers *room, size_t max)
{
    return (struct http_headers){room->rows, 0, min_size(room->max, max)};
}

enum h1_error h1_parse_request(struct str head, const struct h1_limits *limits,
                               const struct http_headers *room, struct h1_request *ret)
{
    struct h1_request req;
    const char *rest;
    enum h1_error e;

    if (!str_ends(head, HEAD_END))
        return H1_BAD_START_LINE;
    req.query = req.host = STR_NONE;
    req.headers = rows_within(room, limits->headers_max);
    e = parse_request_line(head, limits->target_bytes_max, &req, &rest);
    if (!e)
        e = parse_target(&req);
    if (!e)
        e = parse_headers(rest, head.p + head.n, &req.headers, &req.fields);
    if (!e)
        e = check_host(&req);
    if (!e)
        *ret = req;
    return e;
}

/* version SP status [SP reason] CRLF. RFC 9112 4 requires the space after the status; some servers
 * omit it together with the reason, which is unambiguous. */
static enum h1_error parse_status_line(struct str head, struct h1_response *res,
                                       const char **ret_rest)
{
    const char *p = http_skip_value(head.p, head.p + head.n);
    struct str line = str_make(head.p, (size_t)(p - head.p)), digits, version;
    uint64_t status;
    enum h1_error e;

    if (!is_crlf(p, head.p + head.n))
        return refuse_line_end(p, head.p + head.n, H1_BAD_START_LINE);
    *ret_rest = p + 2;
    if (!str_cut(&line, ' ', &version) || !line.p)
        return H1_BAD_START_LINE;
    e = parse_version(version, &res->minor);
    if (e)
        return e;
    str_cut(&line, ' ', &digits);
    if (digits.n != 3 || str_to_u64_range(digits, 100, 599, &status) < 0)
        return H1_BAD_STATUS;
    res->status = (int)status;
    res->reason = line.p ? line : str_make(digits.p + 3, 0);
    return H1_OK;
}

enum h1_error h1_parse_response(struct str head, const struct h1_limits *limits,
                                const struct http_headers *room, struct h1_response *ret)
{
    struct h1_response res;
    const char *rest;
    enum h1_error e;

    if (!str_ends(head, HEAD_END))
        return H1_BAD_START_LINE;
    res.headers = rows_within(room, limits->headers_max);
    e = parse_status_line(head, &res, &rest);
    if (!e)
        e = parse_headers(rest, head.p + head.n, &res.headers, &res.fields);
    if (!e)
        *ret = res;
    return e;
}
