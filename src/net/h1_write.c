#include "net/h1_write.h"

#include <errno.h>

#include "net/http_bytes.h"

/* Appends to reserved room. */
static char *put(char *at, struct str s)
{
    if (s.n)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

int h1_write_status(struct buf *b, int status)
{
    struct str line = http_status_line(status);

    if (status < 100 || status > 599)
        return -EINVAL;
    return line.n ? buf_add(b, line) : buf_addf(b, "HTTP/1.1 %d \r\n", status);
}

static bool is_target(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!http_byte_is(s.p[i], HTTP_BYTE_TARGET))
            return false;
    return s.n > 0;
}

int h1_write_request_line(struct buf *b, struct str method, struct str target)
{
    const struct str version = STR(" HTTP/1.1\r\n");
    size_t n = method.n + 1 + target.n + version.n;
    char *at;
    int r;

    if (!http_is_token(method) || !is_target(target))
        return -EINVAL;
    r = buf_reserve(b, n);
    if (r < 0)
        return r;
    at = put(b->p + b->n, method);
    *at++ = ' ';
    at = put(at, target);
    put(at, version);
    buf_claim(b, n);
    return 0;
}

int h1_write_header(struct buf *b, struct str name, struct str value)
{
    size_t n = name.n + 2 + value.n + 2;
    char *at;
    int r;

    if (!http_is_token(name) || !http_is_value(value))
        return -EINVAL;
    r = buf_reserve(b, n);
    if (r < 0)
        return r;
    at = put(b->p + b->n, name);
    at = put(at, STR(": "));
    at = put(at, value);
    put(at, STR("\r\n"));
    buf_claim(b, n);
    return 0;
}

int h1_write_header_u64(struct buf *b, struct str name, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);

    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    return h1_write_header(b, name, str_make(digits + at, sizeof(digits) - at));
}

int h1_write_end(struct buf *b)
{
    return buf_add(b, STR("\r\n"));
}
