#include "base/otlp.h"

#include <assert.h>
#include <string.h>

#include "base/url.h"
#include "base/utf8.h"

/* Wire types of protobuf. */
enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

/* Numbers of the fields used, grouped by message. */
enum {
    REQUEST_RESOURCE_METRICS = 1,
    RESOURCE_METRICS_RESOURCE = 1,
    RESOURCE_METRICS_SCOPE_METRICS = 2,
    RESOURCE_ATTRIBUTES = 1,
    SCOPE_METRICS_SCOPE = 1,
    SCOPE_METRICS_METRICS = 2,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    METRIC_NAME = 1,
    METRIC_UNIT = 3,
    DATA_POINTS = 1, /* of a gauge, a sum and a histogram */
    DATA_TEMPORALITY = 2,
    SUM_IS_MONOTONIC = 3,
    POINT_BEGIN = 2, /* of numbers and histograms */
    POINT_NOW = 3,
    NUMBER_DOUBLE = 4,
    NUMBER_INT = 6,
    NUMBER_ATTRIBUTES = 7,
    HISTOGRAM_COUNT = 4,
    HISTOGRAM_SUM = 5,
    HISTOGRAM_BUCKETS = 6,
    HISTOGRAM_BOUNDS = 7,
    HISTOGRAM_ATTRIBUTES = 9,
    HISTOGRAM_MIN = 11,
    HISTOGRAM_MAX = 12,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    ANY_TEXT = 1,
    ANY_INT = 3,
    TEMPORALITY_CUMULATIVE = 2,
};

enum { VARINT_BYTES_MAX = 10, FIXED64_BYTES = 8 };

/* --- protobuf --- */

static void put(struct otlp *o, const char *p, size_t n)
{
    if (o->error == 0)
        o->error = buf_add(o->out, str_make(p, n));
}

static size_t varint_format(uint64_t v, char out[VARINT_BYTES_MAX])
{
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        out[n++] = (char)(v | 0x80);
    out[n++] = (char)v;
    return n;
}

static void put_varint(struct otlp *o, uint64_t v)
{
    char bytes[VARINT_BYTES_MAX];

    put(o, bytes, varint_format(v, bytes));
}

static void put_tag(struct otlp *o, unsigned field, enum wire wire)
{
    put_varint(o, field << 3 | wire);
}

static void put_u64(struct otlp *o, unsigned field, uint64_t v)
{
    put_tag(o, field, WIRE_VARINT);
    put_varint(o, v);
}

static void put_fixed64_bare(struct otlp *o, uint64_t v)
{
    char bytes[FIXED64_BYTES];

    for (size_t i = 0; i < FIXED64_BYTES; i++)
        bytes[i] = (char)(v >> (8 * i));
    put(o, bytes, sizeof(bytes));
}

static void put_fixed64(struct otlp *o, unsigned field, uint64_t v)
{
    put_tag(o, field, WIRE_FIXED64);
    put_fixed64_bare(o, v);
}

static uint64_t double_bits(double v)
{
    uint64_t bits;

    static_assert(sizeof(bits) == sizeof(v), "a double is what IEEE 754 says");
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void put_double(struct otlp *o, unsigned field, double v)
{
    put_fixed64(o, field, double_bits(v));
}

static void put_text(struct otlp *o, unsigned field, struct str s)
{
    put_tag(o, field, WIRE_BYTES);
    put_varint(o, s.n);
    put(o, s.p, s.n);
}

/* A nested message: its length precedes it, but is known only at its end. */
static void message_begin(struct otlp *o, unsigned field)
{
    assert(o->depth < OTLP_DEPTH_MAX);
    put_tag(o, field, WIRE_BYTES);
    o->open[o->depth++] = o->out->n;
}

static void message_end(struct otlp *o)
{
    char bytes[VARINT_BYTES_MAX];
    size_t at, body, n;

    assert(o->depth > 0);
    at = o->open[--o->depth];
    if (o->error < 0)
        return;
    body = o->out->n - at;
    n = varint_format(body, bytes);
    put(o, bytes, n); /* makes room for the length */
    if (o->error < 0)
        return;
    memmove(o->out->p + at + n, o->out->p + at, body);
    memcpy(o->out->p + at, bytes, n);
}

/* --- metrics --- */

static void put_attributes(struct otlp *o, unsigned field, const struct otlp_attribute *rows,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        message_begin(o, field);
        put_text(o, KEY_VALUE_KEY, rows[i].key);
        message_begin(o, KEY_VALUE_VALUE);
        if (rows[i].text.p)
            put_text(o, ANY_TEXT, rows[i].text);
        else
            put_u64(o, ANY_INT, (uint64_t)rows[i].number);
        message_end(o);
        message_end(o);
    }
}

void otlp_begin(struct otlp *o, struct buf *out, const struct otlp_conf *conf)
{
    *o = (struct otlp){.out = out, .conf = conf};
    message_begin(o, REQUEST_RESOURCE_METRICS);
    message_begin(o, RESOURCE_METRICS_RESOURCE);
    put_attributes(o, RESOURCE_ATTRIBUTES, conf->resource, conf->resource_count);
    message_end(o);
    message_begin(o, RESOURCE_METRICS_SCOPE_METRICS);
    message_begin(o, SCOPE_METRICS_SCOPE);
    put_text(o, SCOPE_NAME, conf->scope);
    put_text(o, SCOPE_VERSION, conf->version);
    message_end(o);
}

int otlp_end(struct otlp *o)
{
    message_end(o);
    message_end(o);
    assert(o->depth == 0);
    return o->error;
}

void otlp_metric_begin(struct otlp *o, enum otlp_kind kind, const char *name, const char *unit)
{
    static const unsigned fields[] = {[OTLP_GAUGE] = 5, [OTLP_COUNTER] = 7, [OTLP_HISTOGRAM] = 9};

    o->kind = kind;
    message_begin(o, SCOPE_METRICS_METRICS);
    put_text(o, METRIC_NAME, str_of(name));
    if (unit[0])
        put_text(o, METRIC_UNIT, str_of(unit));
    message_begin(o, fields[kind]);
}

void otlp_metric_end(struct otlp *o)
{
    if (o->kind != OTLP_GAUGE)
        put_u64(o, DATA_TEMPORALITY, TEMPORALITY_CUMULATIVE);
    if (o->kind == OTLP_COUNTER)
        put_u64(o, SUM_IS_MONOTONIC, true);
    message_end(o);
    message_end(o);
}

/* A gauge has no start time. */
static void point_begin(struct otlp *o, unsigned attributes, const struct otlp_attribute *own,
                        size_t n)
{
    message_begin(o, DATA_POINTS);
    if (o->kind != OTLP_GAUGE)
        put_fixed64(o, POINT_BEGIN, o->conf->begin_ns);
    put_fixed64(o, POINT_NOW, o->conf->now_ns);
    put_attributes(o, attributes, o->conf->common, o->conf->common_count);
    put_attributes(o, attributes, own, n);
}

void otlp_point_double(struct otlp *o, double value, const struct otlp_attribute *own, size_t n)
{
    point_begin(o, NUMBER_ATTRIBUTES, own, n);
    put_double(o, NUMBER_DOUBLE, value);
    message_end(o);
}

void otlp_point_i64(struct otlp *o, int64_t value, const struct otlp_attribute *own, size_t n)
{
    point_begin(o, NUMBER_ATTRIBUTES, own, n);
    put_fixed64(o, NUMBER_INT, (uint64_t)value);
    message_end(o);
}

void otlp_point_histogram(struct otlp *o, const struct otlp_histogram *h,
                          const struct otlp_attribute *own, size_t n)
{
    point_begin(o, HISTOGRAM_ATTRIBUTES, own, n);
    put_fixed64(o, HISTOGRAM_COUNT, h->count);
    put_double(o, HISTOGRAM_SUM, h->sum);
    put_double(o, HISTOGRAM_MIN, h->min);
    put_double(o, HISTOGRAM_MAX, h->max);
    message_begin(o, HISTOGRAM_BUCKETS);
    for (size_t i = 0; i <= h->bound_count; i++)
        put_fixed64_bare(o, h->buckets[i]);
    message_end(o);
    message_begin(o, HISTOGRAM_BOUNDS);
    for (size_t i = 0; i < h->bound_count; i++)
        put_fixed64_bare(o, double_bits(h->bounds[i]));
    message_end(o);
    message_end(o);
}

/* --- lists --- */

static bool list_text(struct arena *a, struct str s, bool encoded, size_t bytes_max,
                      struct str *ret)
{
    if (encoded && url_decode_in(a, s, 0, &s) < 0)
        return false;
    if (s.n > bytes_max || !utf8_valid(s))
        return false;
    *ret = arena_str(a, s);
    return ret->p != NULL;
}

bool otlp_list_next(struct str *list, struct arena *a, bool encoded, size_t bytes_max,
                    struct str *ret_key, struct str *ret_value)
{
    struct str entry;

    while (list->n > 0 && str_cut(list, ',', &entry)) {
        size_t at = str_find(entry, '=');
        struct str key = str_trim(str_make(entry.p, at)), value;

        if (at >= entry.n || key.n == 0)
            continue;
        value = str_trim(str_skip(entry, at + 1));
        if (value.n > 0 && list_text(a, key, encoded, bytes_max, ret_key) &&
            list_text(a, value, encoded, bytes_max, ret_value))
            return true;
    }
    return false;
}
