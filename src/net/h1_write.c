#include "net/h1_write.h"

#include <errno.h>

#include "net/http_bytes.h"

/* Appends to room that was reserved. */
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

/* Days since 1970-01-01 to a date of the Gregorian calendar, by counting in years that begin in
 * March: the leap day is then the last of its year. */
static void civil_of_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t since = days + 719468; /* from 0000-03-01 */
    int64_t era = since / 146097, of_era = since % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t march = (5 * of_year + 2) / 153; /* months since March */

    *ret_day = (int)(of_year - (153 * march + 2) / 5 + 1);
    *ret_month = (int)(march < 10 ? march + 3 : march - 9);
    *ret_year = (int)(year + era * 400 + (*ret_month <= 2));
}

static char *put_digits(char *at, int value, int digits)
{
    for (int i = digits; i-- > 0; value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + digits;
}

void h1_format_date(char out[static HTTP_DATE_BYTES], int64_t unix_s)
{
    static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970 began on a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const int64_t last = INT64_C(253402300799); /* the end of 9999 */
    int64_t s = unix_s < 0 ? 0 : unix_s > last ? last : unix_s;
    int year, month, day, of_day = (int)(s % 86400);

    civil_of_days(s / 86400, &year, &month, &day);
    out = put(out, str_make(days + s / 86400 % 7 * 3, 3));
    out = put_digits(put(out, STR(", ")), day, 2);
    *out++ = ' ';
    out = put(out, str_make(months + (month - 1) * 3, 3));
    *out++ = ' ';
    out = put_digits(out, year, 4);
    *out++ = ' ';
    out = put_digits(out, of_day / 3600, 2);
    *out++ = ':';
    out = put_digits(out, of_day / 60 % 60, 2);
    *out++ = ':';
    out = put_digits(out, of_day % 60, 2);
    put(out, STR(" GMT"));
}

struct str h1_date_line(struct h1_date_cache *cache, int64_t unix_s)
{
    if (cache->line_bytes == 0 || cache->unix_s != unix_s) {
        char *at = put(cache->line, STR("Date: "));

        h1_format_date(at, unix_s);
        at = put(at + HTTP_DATE_BYTES, STR("\r\n"));
        cache->line_bytes = (size_t)(at - cache->line);
        cache->unix_s = unix_s;
    }
    return str_make(cache->line, cache->line_bytes);
}
