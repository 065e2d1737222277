/* series.h - histograms of durations, one per instrument and labels. Beyond a maximum number,
 * further labels share one histogram per instrument. Cumulative. */
#pragma once

#include <stdbool.h>

#include "base/otlp.h"

enum {
    SERIES_MAX = 256,
    SERIES_BOUNDS = 15,
};

extern const double series_bounds_ms[SERIES_BOUNDS]; /* OpenTelemetry's default bounds */

struct series_key {
    unsigned instrument;
    const char *labels[2]; /* static strings, compared by address; NULL = none */
    int status;            /* 0 = none */
};

struct series {
    struct series_key key;
    bool overflow; /* shared by labels without a row; the labels are meaningless */
    uint64_t count;
    double sum_ms, min_ms, max_ms;
    uint64_t buckets[SERIES_BOUNDS + 1];
};

struct series_set { /* zeroed before first use; grows as needed */
    struct series *rows;
    size_t count, room;
};

void series_set_done(struct series_set *s);
void series_set_add(struct series_set *s, const struct series_key *key, double ms);
