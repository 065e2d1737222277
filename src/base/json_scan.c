#include "base/json_internal.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

enum {
    JSON_DIGITS_EXACT = 19,      /* decimal digits that always fit uint64_t */
    JSON_EXPONENT_CLAMP = 99999, /* far outside the range of a double */
};

/* --- errors --- */

int json_fail_at(struct json_parser *p, int code, size_t offset, const char *what)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < offset; i++) {
        if (p->text.p[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)p->text.p[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    return err_set(p->e, code, "line %zu, column %zu: %s", line, column, what);
}

int json_fail(struct json_parser *p, const char *what)
{
    return json_fail_at(p, EBADMSG, (size_t)(p->at - p->copy), what);
}

int json_fail_limit(struct json_parser *p, const char *what)
{
    return json_fail_at(p, EMSGSIZE, (size_t)(p->at - p->copy), what);
}

/* "expected X, got Y", where Y is the text at the cursor. */
int json_fail_expected(struct json_parser *p, const char *expected)
{
    size_t offset = (size_t)(p->at - p->copy);
    unsigned char c = offset < p->text.n ? (unsigned char)p->text.p[offset] : 0;
    char what[96];

    if (offset >= p->text.n)
        snprintf(what, sizeof(what), "expected %s, got the end of the text", expected);
    else if (c > 0x20 && c < 0x7f)
        snprintf(what, sizeof(what), "expected %s, got '%c'", expected, c);
    else if (c < 0x80)
        snprintf(what, sizeof(what), "expected %s, got byte 0x%02x", expected, c);
    else
        snprintf(what, sizeof(what), "expected %s, got a non-ASCII character", expected);
    return json_fail(p, what);
}

/* --- strings --- */

/* Bytes before the first quote, backslash or control character. Stops at the NULs after the
 * text. */
static size_t json_plain_run(const char *s)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    size_t i = 0;

    for (uint64_t word;; i += sizeof(word)) {
        uint64_t quote, slash, hits;

        memcpy(&word, s + i, sizeof(word));
        quote = word ^ (ones * '"');
        slash = word ^ (ones * '\\');
        hits =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((word - ones * 0x20) & ~word);
        if (hits & highs)
            break;
    }
    while (s[i] != '"' && s[i] != '\\' && (unsigned char)s[i] >= 0x20)
        i++;
    return i;
}

/* Reads four hexadecimal digits. */
static int json_read_hex4(struct json_parser *p, uint32_t *ret)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, p->at++) {
        int digit = ascii_hex_value(*p->at);

        if (digit < 0)
            return json_fail_expected(p, "a hexadecimal digit");
        v = v << 4 | (uint32_t)digit;
    }
    *ret = v;
    return 0;
}

/* Reads what follows "\u", with the second half of a surrogate pair. */
static int json_read_unicode(struct json_parser *p, uint32_t *ret_code)
{
    char *start = p->at;
    uint32_t high, low = 0;
    int r = json_read_hex4(p, &high);

    if (r < 0)
        return r;
    if (high < 0xd800 || high > 0xdfff) {
        *ret_code = high;
        return 0;
    }
    if (high < 0xdc00 && p->at[0] == '\\' && p->at[1] == 'u') {
        char *second = p->at;

        p->at += 2;
        r = json_read_hex4(p, &low);
        if (r < 0)
            return r;
        if (low >= 0xdc00 && low <= 0xdfff) {
            *ret_code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return 0;
        }
        p->at = second;
    }
    if (!p->limits.replace_invalid) {
        p->at = start - 2;
        return json_fail(p, "expected a surrogate pair, got half of one");
    }
    *ret_code = 0xfffd;
    return 0;
}

/* Decodes the escape at the cursor to *to. */
static int json_read_escape(struct json_parser *p, char **to)
{
    static const char plain[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    uint32_t code = 0;
    int r;

    p->at++;
    if (plain[(unsigned char)*p->at]) {
        *(*to)++ = plain[(unsigned char)*p->at++];
        return 0;
    }
    if (*p->at != 'u')
        return json_fail_expected(p, "one of \"\\/bfnrtu behind a backslash");
    p->at++;
    r = json_read_unicode(p, &code);
    if (r < 0)
        return r;
    *to += utf8_encode(code, *to);
    return 0;
}

int json_read_string(struct json_parser *p, struct str *ret)
{
    char *from = ++p->at, *to = from;

    for (;;) {
        size_t run = json_plain_run(p->at);
        int r;

        if (to != p->at)
            memmove(to, p->at, run);
        to += run;
        p->at += run;
        if (*p->at == '"')
            break;
        if (*p->at != '\\')
            return json_fail_expected(p, "the closing quote of a string");
        r = json_read_escape(p, &to);
        if (r < 0)
            return r;
    }
    if ((size_t)(to - from) > p->limits.string_bytes_max)
        return json_fail_limit(p, "string too long");
    p->at++;
    *to = '\0';
    *ret = str_make(from, (size_t)(to - from));
    return 0;
}

/* --- numbers --- */

/* A decimal number in parts: mantissa * 10^exponent, if digits <= JSON_DIGITS_EXACT. */
struct json_decimal {
    uint64_t mantissa;
    int64_t exponent;
    size_t digits;
    bool negative, integral;
};

static int json_read_digits(struct json_parser *p, struct json_decimal *d)
{
    char *from = p->at;

    for (; ascii_is_digit(*p->at); p->at++)
        d->mantissa = d->mantissa * 10 + (uint64_t)(*p->at - '0');
    if (p->at == from)
        return json_fail_expected(p, "a digit");
    d->digits += (size_t)(p->at - from);
    return 0;
}

static int json_read_exponent(struct json_parser *p, struct json_decimal *d)
{
    bool negative;
    int64_t v = 0;

    p->at++;
    negative = *p->at == '-';
    if (*p->at == '-' || *p->at == '+')
        p->at++;
    if (!ascii_is_digit(*p->at))
        return json_fail_expected(p, "a digit");
    for (; ascii_is_digit(*p->at); p->at++)
        if (v < JSON_EXPONENT_CLAMP)
            v = v * 10 + (*p->at - '0');
    d->exponent += negative ? -v : v;
    return 0;
}

static int json_read_decimal(struct json_parser *p, struct json_decimal *d)
{
    char *from;
    int r;

    *d = (struct json_decimal){.negative = *p->at == '-', .integral = true};
    p->at += d->negative;
    if (*p->at == '0' && ascii_is_digit(p->at[1]))
        return json_fail(p, "expected no digit behind a leading 0");
    r = json_read_digits(p, d);
    if (r == 0 && *p->at == '.') {
        d->integral = false;
        from = ++p->at;
        r = json_read_digits(p, d);
        d->exponent = -(p->at - from);
    }
    if (r == 0 && (*p->at == 'e' || *p->at == 'E')) {
        d->integral = false;
        r = json_read_exponent(p, d);
    }
    return r;
}

/* Powers of ten that a double represents exactly. A product or quotient of one with an exact
 * integer is rounded once and therefore correctly. */
static const double json_powers[] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static double json_decimal_to_double(const struct json_decimal *d, const char *text)
{
    const int64_t limit = (int64_t)ARRAY_LEN(json_powers);
    double v;

    if (FLT_EVAL_METHOD != 0 || d->digits > JSON_DIGITS_EXACT || d->mantissa >> 53 ||
        d->exponent >= limit || d->exponent <= -limit)
        return strtod(text, NULL); /* stops at the end of the token, which was checked */
    v = (double)d->mantissa;
    v = d->exponent < 0 ? v / json_powers[-d->exponent] : v * json_powers[d->exponent];
    return d->negative ? -v : v;
}

/* True when the value is a 64-bit integer; it is then stored in `v`. */
static bool json_decimal_to_integer(const struct json_decimal *d, struct json *v)
{
    uint64_t magnitude = d->mantissa;
    struct str digits = str_skip(v->text, d->negative);

    if (!d->integral)
        return false;
    if (d->digits > JSON_DIGITS_EXACT && str_to_u64(digits, &magnitude) < 0)
        return false;
    if (magnitude <= (uint64_t)INT64_MAX + d->negative) {
        v->number = JSON_INT;
        v->i64 = (int64_t)(d->negative ? 0 - magnitude : magnitude);
        return true;
    }
    v->number = JSON_UINT;
    v->u64 = magnitude;
    return !d->negative;
}

int json_read_number(struct json_parser *p, struct json *v)
{
    char *from = p->at;
    struct json_decimal d;
    int r = json_read_decimal(p, &d);

    if (r < 0)
        return r;
    v->text = str_make(from, (size_t)(p->at - from));
    if (json_decimal_to_integer(&d, v))
        return 0;
    v->number = JSON_REAL;
    v->real = json_decimal_to_double(&d, from);
    if (isinf(v->real)) {
        p->at = from;
        return json_fail(p, "expected a number in the range of a double");
    }
    return 0;
}
