#include "base/json_write.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "base/utf8.h"

void json_write_begin(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out, .start = out->n, .first = true};
}

int json_write_end(struct json_writer *w)
{
    if (w->error) {
        buf_cut(w->out, w->start);
        return w->error;
    }
    assert(w->depth == 0 && !w->first); /* exactly one complete value */
    return 0;
}

static void json_fail_write(struct json_writer *w, int error)
{
    if (!w->error)
        w->error = error;
}

static void json_put(struct json_writer *w, struct str s)
{
    int r = w->error ? 0 : buf_add(w->out, s);

    if (r < 0)
        json_fail_write(w, r);
}

static bool json_in_object(const struct json_writer *w)
{
    return w->depth && (w->objects[(w->depth - 1) / 64] >> ((w->depth - 1) % 64) & 1);
}

/* Called before every value: writes the comma that an array needs. */
static void json_write_item(struct json_writer *w)
{
    if (w->error)
        return;
    assert(json_in_object(w) ? w->keyed : w->depth || w->first);
    if (!w->first && !w->keyed)
        json_put(w, STR(","));
    w->first = w->keyed = false;
}

static void json_write_open(struct json_writer *w, bool object)
{
    uint64_t bit = (uint64_t)1 << (w->depth % 64);
    uint64_t *bits = &w->objects[w->depth / 64];

    json_write_item(w);
    if (w->depth == JSON_WRITE_DEPTH_MAX)
        json_fail_write(w, -ELOOP);
    if (w->error)
        return;
    *bits = object ? *bits | bit : *bits & ~bit;
    w->depth++;
    w->first = true;
    json_put(w, object ? STR("{") : STR("["));
}

static void json_write_close(struct json_writer *w, bool object)
{
    if (w->error)
        return;
    assert(w->depth > 0 && json_in_object(w) == object && !w->keyed);
    w->depth--;
    w->first = false;
    json_put(w, object ? STR("}") : STR("]"));
}

void json_write_object(struct json_writer *w)
{
    json_write_open(w, true);
}

void json_write_object_end(struct json_writer *w)
{
    json_write_close(w, true);
}

void json_write_array(struct json_writer *w)
{
    json_write_open(w, false);
}

void json_write_array_end(struct json_writer *w)
{
    json_write_close(w, false);
}

/* --- strings --- */

/* Bytes that must be escaped: the letter of a short escape, 'u' for \u00xx, '+' for the start of a
 * character that is not ASCII. */
static const char json_escapes[256] = {
    [0x00 ... 0x07] = 'u', ['\b'] = 'b', ['\t'] = 't',          ['\n'] = 'n',          [0x0b] = 'u',
    ['\f'] = 'f',          ['\r'] = 'r', [0x0e ... 0x1f] = 'u', ['"'] = '"',           ['&'] = 'u',
    ['<'] = 'u',           ['>'] = 'u',  ['\\'] = '\\',         [0x80 ... 0xff] = '+',
};

size_t json_plain_bytes(struct str s)
{
    size_t n = 0;

    while (n < s.n && !json_escapes[(unsigned char)s.p[n]])
        n++;
    return n;
}

/* For bytes that json_escapes marks: the code point to escape in place of the first *ret_n bytes of
 * s, or -1 when they are written as they are. */
static int32_t json_escaped_code(struct str s, size_t *ret_n)
{
    unsigned char c = (unsigned char)s.p[0];
    uint32_t code;
    int n;

    *ret_n = 1;
    if (c < 0x80)
        return c;
    n = utf8_decode(s, &code);
    if (n < 0)
        return 0xfffd;
    *ret_n = (size_t)n;
    return code == 0x85 || code == 0x2028 || code == 0x2029 ? (int32_t)code : -1;
}

static void json_put_escape(struct json_writer *w, int32_t code)
{
    char text[6] = {'\\', 'u'};

    if (code < 0x80 && json_escapes[code] != 'u') {
        text[1] = json_escapes[code];
        json_put(w, str_make(text, 2));
        return;
    }
    for (size_t i = sizeof(text); i-- > 2; code >>= 4)
        text[i] = "0123456789abcdef"[code & 15];
    json_put(w, str_make(text, sizeof(text)));
}

static void json_put_string(struct json_writer *w, struct str s)
{
    size_t plain = 0; /* bytes at the start of s that need no escape */

    json_put(w, STR("\""));
    while (plain < s.n && !w->error) {
        size_t n;
        int32_t code;

        if (!json_escapes[(unsigned char)s.p[plain]]) {
            plain++;
            continue;
        }
        code = json_escaped_code(str_skip(s, plain), &n);
        if (code < 0) {
            plain += n;
            continue;
        }
        json_put(w, str_make(s.p, plain));
        json_put_escape(w, code);
        s = str_skip(s, plain + n);
        plain = 0;
    }
    json_put(w, s);
    json_put(w, STR("\""));
}

void json_write_key(struct json_writer *w, struct str key)
{
    if (w->error)
        return;
    assert(json_in_object(w) && !w->keyed);
    if (!w->first)
        json_put(w, STR(","));
    json_put_string(w, key);
    json_put(w, STR(":"));
    w->first = false;
    w->keyed = true;
}

void json_write_string(struct json_writer *w, struct str s)
{
    json_write_item(w);
    json_put_string(w, s);
}

/* --- numbers --- */

enum { DOUBLE_DIGITS_MAX = 17, DOUBLE_TEXT_MAX = 32 };

/* A positive double as d.ddd * 10^exponent. */
struct json_digits {
    char text[DOUBLE_DIGITS_MAX + 1];
    int n, exponent;
};

/* Prints `v` with `n` digits; false when they do not parse back to the same number. */
static bool json_print_digits(struct json_digits *d, double v, int n)
{
    char text[DOUBLE_TEXT_MAX];
    char *e;

    snprintf(text, sizeof(text), "%.*e", n - 1, v);
    e = strchr(text, 'e');
    /* Doubles are denser below a power of two than above it: there the nearest decimal may fail
     * while the next larger one works. */
    if (strtod(text, NULL) != v && (e[-1] == '9' || (e[-1]++, strtod(text, NULL) != v)))
        return false;
    d->exponent = (int)strtol(e + 1, NULL, 10);
    d->n = 0;
    for (const char *c = text; c < e; c++)
        if (*c != '.')
            d->text[d->n++] = *c;
    while (d->n > 1 && d->text[d->n - 1] == '0')
        d->n--;
    return true;
}

/* A decimal of up to 15 digits always survives conversion to a normal double and back, so the 15
 * digit form is the shortest whenever it parses back; subnormals hold fewer digits and need the
 * search from 1. */
static struct json_digits json_shortest_digits(double v)
{
    struct json_digits d = {.n = 0};
    int n = fpclassify(v) == FP_SUBNORMAL ? 1 : 15;

    while (n < DOUBLE_DIGITS_MAX && !json_print_digits(&d, v, n))
        n++;
    if (n == DOUBLE_DIGITS_MAX)
        json_print_digits(&d, v, n);
    return d;
}

static void json_put_zeros(struct json_writer *w, int n)
{
    while (n-- > 0)
        json_put(w, STR("0"));
}

static void json_put_exponential(struct json_writer *w, const struct json_digits *d)
{
    char exponent[16];

    json_put(w, str_make(d->text, 1));
    if (d->n > 1) {
        json_put(w, STR("."));
        json_put(w, str_make(d->text + 1, (size_t)d->n - 1));
    }
    snprintf(exponent, sizeof(exponent), "e%+d", d->exponent);
    json_put(w, str_of(exponent));
}

static void json_put_fixed(struct json_writer *w, const struct json_digits *d)
{
    int whole = d->exponent + 1; /* digits before the decimal point */
    int split = whole < 0 ? 0 : whole > d->n ? d->n : whole;

    if (whole <= 0)
        json_put(w, STR("0"));
    json_put(w, str_make(d->text, (size_t)split));
    json_put_zeros(w, whole - d->n);
    if (split == d->n)
        return;
    json_put(w, STR("."));
    json_put_zeros(w, -whole);
    json_put(w, str_make(d->text + split, (size_t)(d->n - split)));
}

void json_write_double(struct json_writer *w, double v)
{
    struct json_digits d;

    json_write_item(w);
    if (!isfinite(v)) {
        json_fail_write(w, -EDOM);
        return;
    }
    if (signbit(v))
        json_put(w, STR("-"));
    d = json_shortest_digits(fabs(v));
    if (v != 0 && (d.exponent < -6 || d.exponent >= 21))
        json_put_exponential(w, &d);
    else
        json_put_fixed(w, &d);
}

/* Every event of a stream has a number; printf would be most of its cost. */
static void json_write_digits(struct json_writer *w, uint64_t v, bool negative)
{
    char text[24];
    size_t at = sizeof(text);

    do {
        text[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    if (negative)
        text[--at] = '-';
    json_write_raw(w, str_make(text + at, sizeof(text) - at));
}

void json_write_i64(struct json_writer *w, int64_t v)
{
    json_write_digits(w, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0);
}

void json_write_u64(struct json_writer *w, uint64_t v)
{
    json_write_digits(w, v, false);
}

/* --- the rest --- */

void json_write_bool(struct json_writer *w, bool v)
{
    json_write_raw(w, v ? STR("true") : STR("false"));
}

void json_write_null(struct json_writer *w)
{
    json_write_raw(w, STR("null"));
}

void json_write_raw(struct json_writer *w, struct str json)
{
    assert(json.n > 0);
    json_write_item(w);
    json_put(w, json);
}

void json_member_string(struct json_writer *w, struct str key, struct str s)
{
    json_write_key(w, key);
    json_write_string(w, s);
}

void json_member_time(struct json_writer *w, struct str key, int64_t us)
{
    char text[TIME_TEXT_MAX];

    json_member_string(w, key, str_make(text, time_format(us, text)));
}

void json_member_i64(struct json_writer *w, struct str key, int64_t v)
{
    json_write_key(w, key);
    json_write_i64(w, v);
}

void json_member_u64(struct json_writer *w, struct str key, uint64_t v)
{
    json_write_key(w, key);
    json_write_u64(w, v);
}

void json_member_double(struct json_writer *w, struct str key, double v)
{
    json_write_key(w, key);
    json_write_double(w, v);
}

void json_member_bool(struct json_writer *w, struct str key, bool v)
{
    json_write_key(w, key);
    json_write_bool(w, v);
}

/* Writes a scalar, or the opening of an array or object. */
static void json_write_node(struct json_writer *w, const struct json *v)
{
    switch ((enum json_type)v->type) {
    case JSON_OBJECT:
        return json_write_object(w);
    case JSON_ARRAY:
        return json_write_array(w);
    case JSON_STRING:
        return json_write_string(w, v->string);
    case JSON_NUMBER:
        return json_write_raw(w, v->text);
    case JSON_BOOL:
        return json_write_bool(w, v->boolean);
    case JSON_NULL:
        return json_write_null(w);
    }
}

void json_write_value(struct json_writer *w, const struct json *v)
{
    const struct json *open[JSON_DEPTH_CEILING + 1];
    unsigned depth = 0;

    json_write_node(w, v);
    if (v->type < JSON_ARRAY)
        return;
    open[0] = v;
    v = json_first(v);
    for (;;) {
        for (; v; v = v->type < JSON_ARRAY ? v->next : json_first(v)) {
            if (v->key.p)
                json_write_key(w, v->key);
            json_write_node(w, v);
            if (v->type >= JSON_ARRAY) {
                assert(depth < JSON_DEPTH_CEILING);
                open[++depth] = v;
            }
        }
        json_write_close(w, open[depth]->type == JSON_OBJECT);
        if (depth == 0)
            return;
        v = open[depth--]->next;
    }
}
