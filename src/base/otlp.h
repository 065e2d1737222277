/* otlp.h - encodes metrics as OpenTelemetry protobuf: an ExportMetricsServiceRequest with one
 * resource and one scope. Bytes only: no clock, no socket.
 *
 *     otlp_begin(&o, &body, &conf);
 *     otlp_metric_begin(&o, OTLP_GAUGE, "cpu", "%");
 *     otlp_point_double(&o, 12.5, attributes, 1);
 *     otlp_metric_end(&o);
 *     r = otlp_end(&o);
 *
 * otlp_end() returns the first error of all calls. Sums and histograms are cumulative. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum { OTLP_DEPTH_MAX = 8 };

struct otlp_attribute {
    struct str key;
    struct str text; /* p == NULL: the value is `number` */
    int64_t number;
};

struct otlp_conf { /* borrowed until otlp_end() */
    const struct otlp_attribute *resource;
    size_t resource_count;
    const struct otlp_attribute *common; /* attributes of every point */
    size_t common_count;
    struct str scope, version;
    uint64_t begin_ns; /* start of sums and histograms; ns since 1970, like now_ns */
    uint64_t now_ns;
};

enum otlp_kind { OTLP_GAUGE, OTLP_COUNTER, OTLP_HISTOGRAM };

struct otlp_histogram {
    uint64_t count;
    double sum, min, max;
    const double *bounds; /* ascending; bucket i counts values <= bounds[i] */
    size_t bound_count;
    const uint64_t *buckets; /* bound_count + 1 */
};

struct otlp {
    struct buf *out;
    const struct otlp_conf *conf;
    enum otlp_kind kind; /* of the current metric */
    size_t open[OTLP_DEPTH_MAX];
    size_t depth;
    int error;
};

/* Appends to `out`, up to its limit. */
void otlp_begin(struct otlp *o, struct buf *out, const struct otlp_conf *conf);
void otlp_metric_begin(struct otlp *o, enum otlp_kind kind, const char *name, const char *unit);
void otlp_point_double(struct otlp *o, double value, const struct otlp_attribute *own, size_t n);
void otlp_point_i64(struct otlp *o, int64_t value, const struct otlp_attribute *own, size_t n);
void otlp_point_histogram(struct otlp *o, const struct otlp_histogram *h,
                          const struct otlp_attribute *own, size_t n);
void otlp_metric_end(struct otlp *o);
int otlp_end(struct otlp *o) MUST_USE; /* 0, or the error of buf_add() */

/* The next entry of a list of the environment, "k=v,k2=v2": both parts trimmed, percent-decoded if
 * `encoded`, and copied into the arena. False at its end. Skips what has no key or no value, is
 * longer than bytes_max, or is no text in UTF-8. */
bool otlp_list_next(struct str *list, struct arena *a, bool encoded, size_t bytes_max,
                    struct str *ret_key, struct str *ret_value);
