#include "base/otlp_json.h"

#include <stdio.h>

#include "base/codec.h"
#include "base/json_write.h"

enum { CUMULATIVE = 2, STATUS_ERROR = 2, NUMBER_MAX = 24 };

/* --- attributes --- */

static void number_text(struct json_writer *w, struct str key, int64_t v)
{
    char text[NUMBER_MAX];

    (void)snprintf(text, sizeof(text), "%lld", (long long)v);
    json_member_string(w, key, str_of(text));
}

static void clock_text(struct json_writer *w, struct str key, uint64_t ns)
{
    char text[NUMBER_MAX];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)ns);
    json_member_string(w, key, str_of(text));
}

static void attribute(struct json_writer *w, struct str key, struct str text, int64_t number)
{
    json_write_object(w);
    json_member_string(w, STR("key"), key);
    json_write_key(w, STR("value"));
    json_write_object(w);
    if (text.p)
        json_member_string(w, STR("stringValue"), text);
    else
        number_text(w, STR("intValue"), number);
    json_write_object_end(w);
    json_write_object_end(w);
}

static void attributes(struct json_writer *w, const struct trace_attribute *rows, size_t n)
{
    if (n == 0)
        return;
    json_write_key(w, STR("attributes"));
    json_write_array(w);
    for (size_t i = 0; i < n; i++)
        attribute(w, str_of(rows[i].key), rows[i].text, rows[i].number);
    json_write_array_end(w);
}

static void member_hex(struct json_writer *w, struct str key, const uint8_t *p, size_t n)
{
    char text[2 * TRACE_ID_BYTES + 1];

    (void)hex_encode(str_make((const char *)p, n), text);
    json_member_string(w, key, str_make(text, 2 * n));
}

/* --- around the objects --- */

static const struct {
    const char *resources, *scopes, *rows;
} words[OTLP_SIGNAL_COUNT] = {
    [OTLP_TRACES] = {"resourceSpans",   "scopeSpans",   "spans"     },
    [OTLP_METRICS] = {"resourceMetrics", "scopeMetrics", "metrics"   },
    [OTLP_LOGS] = {"resourceLogs",    "scopeLogs",    "logRecords"},
};

static int resource_text(struct buf *out, const struct otlp_conf *conf)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_array(&w);
    for (size_t i = 0; i < conf->resource_count; i++)
        attribute(&w, conf->resource[i].key, conf->resource[i].text, conf->resource[i].number);
    json_write_array_end(&w);
    return json_write_end(&w);
}

static int scope_text(struct buf *out, const struct otlp_conf *conf)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("name"), conf->scope);
    json_member_string(&w, STR("version"), conf->version);
    json_write_object_end(&w);
    return json_write_end(&w);
}

int otlp_json_head(struct buf *out, enum otlp_signal signal, const struct otlp_conf *conf)
{
    size_t before = out->n;
    int r = buf_addf(out, "{\"%s\":[{\"resource\":{\"attributes\":", words[signal].resources);

    if (r >= 0)
        r = resource_text(out, conf);
    if (r >= 0)
        r = buf_addf(out, "},\"%s\":[{\"scope\":", words[signal].scopes);
    if (r >= 0)
        r = scope_text(out, conf);
    if (r >= 0)
        r = buf_addf(out, ",\"%s\":[", words[signal].rows);
    if (r < 0)
        buf_cut(out, before);
    return r < 0 ? r : 0;
}

int otlp_json_tail(struct buf *out)
{
    return buf_add(out, STR("]}]}]}"));
}

/* --- spans --- */

int otlp_json_span(struct buf *out, const struct trace_row *row)
{
    static const uint8_t none[TRACE_SPAN_BYTES];
    const struct trace_span *s = row->span;
    const struct trace_note *note = row->note;
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    member_hex(&w, STR("traceId"), s->context.trace_id, sizeof(s->context.trace_id));
    member_hex(&w, STR("spanId"), s->context.span_id, sizeof(s->context.span_id));
    if (memcmp(s->parent_id, none, sizeof(none)) != 0)
        member_hex(&w, STR("parentSpanId"), s->parent_id, sizeof(s->parent_id));
    json_member_string(&w, STR("name"), note->name);
    json_member_i64(&w, STR("kind"), note->kind);
    clock_text(&w, STR("startTimeUnixNano"), row->begin_ns);
    clock_text(&w, STR("endTimeUnixNano"), row->end_ns);
    attributes(&w, note->attributes, note->attribute_count);
    if (note->failed) {
        json_write_key(&w, STR("status"));
        json_write_object(&w);
        json_member_i64(&w, STR("code"), STATUS_ERROR);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* --- log records --- */

static void log_attribute(struct json_writer *w, const struct log_field *f)
{
    struct str text = f->str;

    if (f->kind == LOG_FIELD_STR)
        text = text.p ? text : STR("");
    else if (f->kind == LOG_FIELD_BOOL)
        text = f->yes ? STR("true") : STR("false");
    else if (f->kind == LOG_FIELD_SECRET)
        text = STR("<redacted>");
    else
        text = STR_NONE;
    attribute(w, str_of(f->key), text, f->kind == LOG_FIELD_I64 ? f->i64 : (int64_t)f->u64);
}

int otlp_json_log(struct buf *out, const struct otlp_log *log)
{
    static const struct {
        int number; /* SeverityNumber */
        const char *text;
    } levels[] = {
        [LOG_ERROR] = {17, "ERROR"},
        [LOG_WARN] = {13, "WARN" },
        [LOG_INFO] = {9,  "INFO" },
        [LOG_DEBUG] = {5,  "DEBUG"},
    };
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    clock_text(&w, STR("timeUnixNano"), log->time_ns);
    json_member_i64(&w, STR("severityNumber"), levels[log->level].number);
    json_member_string(&w, STR("severityText"), str_of(levels[log->level].text));
    json_write_key(&w, STR("body"));
    json_write_object(&w);
    json_member_string(&w, STR("stringValue"), str_of(log->message));
    json_write_object_end(&w);
    json_write_key(&w, STR("attributes"));
    json_write_array(&w);
    for (const struct log_field *f = log->fields; f->key; f++)
        log_attribute(&w, f);
    json_write_array_end(&w);
    if (log->context) {
        member_hex(&w, STR("traceId"), log->context->trace_id, sizeof(log->context->trace_id));
        member_hex(&w, STR("spanId"), log->context->span_id, sizeof(log->context->span_id));
    }
    json_write_object_end(&w);
    return json_write_end(&w);
}

/* --- metrics --- */

void otlp_json_metric_begin(struct otlp_json_metric *m, struct json_writer *w, struct str name,
                            struct str help, struct str unit)
{
    static const char *const kinds[] = {
        [OTLP_GAUGE] = "gauge", [OTLP_COUNTER] = "sum", [OTLP_HISTOGRAM] = "histogram"};

    m->w = w;
    json_write_object(w);
    json_member_string(w, STR("name"), name);
    json_member_string(w, STR("description"), help);
    json_member_string(w, STR("unit"), unit);
    json_write_key(w, str_of(kinds[m->kind]));
    json_write_object(w);
    if (m->kind != OTLP_GAUGE)
        json_member_i64(w, STR("aggregationTemporality"), CUMULATIVE);
    if (m->kind == OTLP_COUNTER)
        json_member_bool(w, STR("isMonotonic"), true);
    json_write_key(w, STR("dataPoints"));
    json_write_array(w);
}

static void point_begin(struct otlp_json_metric *m, const struct trace_attribute *labels, size_t n)
{
    json_write_object(m->w);
    attributes(m->w, labels, n);
    if (m->kind != OTLP_GAUGE)
        clock_text(m->w, STR("startTimeUnixNano"), m->begin_ns);
    clock_text(m->w, STR("timeUnixNano"), m->now_ns);
}

void otlp_json_point(struct otlp_json_metric *m, const struct trace_attribute *labels, size_t n,
                     double value, bool is_integer)
{
    point_begin(m, labels, n);
    if (is_integer)
        number_text(m->w, STR("asInt"), (int64_t)value);
    else
        json_member_double(m->w, STR("asDouble"), value);
    json_write_object_end(m->w);
}

void otlp_json_point_histogram(struct otlp_json_metric *m, const struct trace_attribute *labels,
                               size_t n, const struct otlp_histogram *h)
{
    point_begin(m, labels, n);
    clock_text(m->w, STR("count"), h->count);
    json_member_double(m->w, STR("sum"), h->sum);
    json_write_key(m->w, STR("bucketCounts"));
    json_write_array(m->w);
    for (size_t i = 0; i <= h->bound_count; i++) {
        char text[NUMBER_MAX];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)h->buckets[i]);
        json_write_string(m->w, str_of(text));
    }
    json_write_array_end(m->w);
    json_write_key(m->w, STR("explicitBounds"));
    json_write_array(m->w);
    for (size_t i = 0; i < h->bound_count; i++)
        json_write_double(m->w, h->bounds[i]);
    json_write_array_end(m->w);
    json_write_object_end(m->w);
}

void otlp_json_metric_end(struct otlp_json_metric *m)
{
    json_write_array_end(m->w);
    json_write_object_end(m->w);
    json_write_object_end(m->w);
}
