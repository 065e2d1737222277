/* series.h - durations, counted in histograms: one for each instrument and its labels, up to a
 * ceiling, behind which the rest share one per instrument. Cumulative. */
#pragma once

#include <stdbool.h>

#include "execd/metrics/otlp.h"

enum {
    SERIES_MAX = 256,
    SERIES_BOUNDS = 15,
};

extern const double series_bounds_ms[SERIES_BOUNDS]; /* OpenTelemetry's own */

struct series_key {
    unsigned instrument;
    const char *labels[2]; /* static texts, compared by address; NULL = none */
    int status;            /* 0 = none */
};

struct series {
    struct series_key key;
    bool overflow; /* of all that found no room; the labels mean nothing */
    uint64_t count;
    double sum_ms, min_ms, max_ms;
    uint64_t buckets[SERIES_BOUNDS + 1];
};

struct series_set { /* zeroed before the first; allocates as it grows */
    struct series *rows;
    size_t count, room;
};

void series_set_done(struct series_set *s);
void series_set_add(struct series_set *s, const struct series_key *key, double ms);
