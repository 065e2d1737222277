/* metrics.h - what a worker counted, and all of it as text for Prometheus. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"

/* In the order of the rows in metrics.c. */
enum metric {
    METRIC_PROXIED,     /* requests sent to a sandbox */
    METRIC_TUNNELS,     /* upgraded connections, since the start */
    METRIC_TUNNELS_NOW, /* a gauge, as the next */
    METRIC_CONNECTIONS_NOW,
    METRIC_FOUND, /* lookups, by result; in the order of enum place_state */
    METRIC_NOT_READY,
    METRIC_PAUSED,
    METRIC_NOT_FOUND,
    METRIC_AMBIGUOUS,
    METRIC_LOOKUP_FAILED,
    METRIC_DENIED,   /* by the access check */
    METRIC_LIMITED,  /* by limits of a source: requests, as the next */
    METRIC_GUESSING, /* wrong secrets, beyond the limit */
    METRIC_CONN_LIMITED,
    METRIC_BACKEND_FAILED,
    METRIC_WOKEN,
    METRIC_RETRIED, /* looked up again after a server's refusal, or tried again after ECONNREFUSED */
    METRIC_COUNT,
};

enum { METRIC_BUCKETS = 14, METRIC_STATUS_MIN = 100, METRIC_STATUS_MAX = 599 };

struct histogram {
    _Atomic uint64_t buckets[METRIC_BUCKETS + 1]; /* not cumulative; the last has no bound */
    _Atomic uint64_t sum_us;
};

/* Written by one thread, read by any. */
struct metrics {
    _Atomic uint64_t at[METRIC_COUNT];
    _Atomic uint64_t status[METRIC_STATUS_MAX - METRIC_STATUS_MIN + 1];
    struct histogram requests, lookups;
};

/* One thread adds: no locked instruction is needed. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);

    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

static inline void metric_add(struct metrics *m, enum metric which, int64_t n)
{
    counter_add(&m->at[which], (uint64_t)n);
}

void metric_status(struct metrics *m, int status);
void metric_observe(struct histogram *h, uint64_t ns);

struct intents_stats;

/* What is not counted by workers. */
struct metrics_rest {
    const struct intents_stats *intents; /* NULL = none */
    uint64_t sandboxes;                  /* known by watching */
    int64_t watch_lag_s;                 /* -1 = no watch */
    uint64_t cpu_us, memory_bytes;
    bool draining;
};

/* Appends everything, summed over the workers. Fails as buf_add() does. */
int metrics_write(struct buf *out, struct metrics *const *workers, size_t count,
                  const struct metrics_rest *rest) MUST_USE;
