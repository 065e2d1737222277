/* otlp_json.h - encodes spans, log records and metrics as OpenTelemetry JSON, one object at a time,
 * and the text that goes around them in an export request (OTLP 1.x, JSON Protobuf Encoding: ids in
 * hex, 64-bit integers as texts).
 *
 *     otlp_json_head(&body, OTLP_TRACES, &conf);
 *     otlp_json_span(&body, &row);                  each but the first after a comma
 *     otlp_json_tail(&body);
 *
 * Functions return 0, or the error of the buf, which is then as before. Bytes only: no clock, no
 * socket. */
#pragma once

#include "base/buf.h"
#include "base/log.h"
#include "base/otlp.h"
#include "base/trace.h"

enum otlp_signal { OTLP_TRACES, OTLP_METRICS, OTLP_LOGS, OTLP_SIGNAL_COUNT };

/* Of conf: the resource's attributes, scope and version. */
int otlp_json_head(struct buf *out, enum otlp_signal signal, const struct otlp_conf *conf);
int otlp_json_tail(struct buf *out);

int otlp_json_span(struct buf *out, const struct trace_row *row);

struct otlp_log {
    uint64_t time_ns; /* since 1970 */
    enum log_level level;
    const char *message;
    const struct log_field *fields;      /* ends with a NULL key; secrets are not read */
    const struct trace_context *context; /* NULL = none */
};
int otlp_json_log(struct buf *out, const struct otlp_log *log);

/* A metric with its points: begin, points, end. */
struct otlp_json_metric {
    struct json_writer *w; /* private */
    enum otlp_kind kind;
    uint64_t begin_ns, now_ns; /* since 1970; the start of counters and histograms */
};
struct json_writer;
void otlp_json_metric_begin(struct otlp_json_metric *m, struct json_writer *w, struct str name,
                            struct str help, struct str unit);
void otlp_json_point(struct otlp_json_metric *m, const struct trace_attribute *labels, size_t n,
                     double value, bool is_integer);
/* Of h: count, sum, bounds and buckets. */
void otlp_json_point_histogram(struct otlp_json_metric *m, const struct trace_attribute *labels,
                               size_t n, const struct otlp_histogram *h);
void otlp_json_metric_end(struct otlp_json_metric *m);
