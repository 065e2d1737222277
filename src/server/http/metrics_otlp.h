/* metrics_otlp.h - rows of metrics.c as OTLP JSON. Private to metrics.c. */
#pragma once

#include "base/json_write.h"
#include "base/otlp_json.h"

enum { METRICS_OTLP_LABELS_MAX = 4, METRICS_OTLP_KEY_MAX = 32 };

struct metrics_otlp {
    struct buf *out;
    size_t before;
    struct json_writer w;
    struct otlp_json_metric metric;
    bool open;
    uint64_t count;
};

void metrics_otlp_begin(struct metrics_otlp *o, const struct otlp_json_metric *clock,
                        struct buf *out);
/* type: "gauge", "counter" or "histogram". Rows of it follow. */
void metrics_otlp_head(struct metrics_otlp *o, const char *name, const char *type,
                       const char *help);
/* labels: `name="value",name="value"`, without escapes. */
void metrics_otlp_value(struct metrics_otlp *o, const char *labels, double value, bool is_integer);
void metrics_otlp_histogram(struct metrics_otlp *o, const char *labels,
                            const struct otlp_histogram *h);
/* 0, or the first error, and then `out` is as before. */
int metrics_otlp_end(struct metrics_otlp *o, uint64_t *ret_count) MUST_USE;
