/* telemetry.h - sends the server's traces, metrics and logs to an OpenTelemetry collector.
 *
 * [telemetry] of the configuration enables it, or the standard OTEL_ variables. If it is disabled
 * there is no struct telemetry, and nothing is installed: no sink of spans, no tap of the log.
 *
 * Spans (base/trace.h) and log lines of all threads go to queues of limited size; exporter.h says
 * what happens to them. Metrics are asked for when they are due. */
#pragma once

#include "net/pool.h"
#include "server/config/config.h"
#include "server/telemetry/exporter.h"

struct telemetry;

enum {
    TELEMETRY_ATTRIBUTES_MAX = 32, /* of the resource; further ones are dropped */
    TELEMETRY_BYTES_MAX = 4096,    /* of one attribute or header */
    TELEMETRY_FLUSH_MS = 2000,     /* at the end of the server */
};

struct telemetry_parts {
    struct loop *loop;
    struct pool *pool;
    /* Metrics are due: answer by telemetry_metrics(), now or later. */
    void (*on_metrics_due)(void *user);
    void *user;
};

/* 0 with *ret NULL if it is disabled. The configuration must outlive it. Call it before workers
 * have anything to do. */
int telemetry_start(const struct config *config, const struct telemetry_parts *parts,
                    struct telemetry **ret, struct err *e);
/* Runs the loop until all that waits is sent, for TELEMETRY_FLUSH_MS at most. The loop must have
 * been stopped. NULL is fine. */
void telemetry_flush(struct telemetry *t);
/* Takes away sink and tap, and frees the rest, after the workers have ended. NULL is fine. */
void telemetry_stop(struct telemetry *t);

/* For metrics: when counting began, and now. */
void telemetry_clock(const struct telemetry *t, struct otlp_json_metric *m);
/* Objects of metrics, separated by commas. */
void telemetry_metrics(struct telemetry *t, struct str items, uint64_t count);

/* All 0 for a signal that is not sent. NULL is fine. */
void telemetry_stats(const struct telemetry *t, struct exporter_stats ret[OTLP_SIGNAL_COUNT]);
