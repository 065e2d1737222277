/* metrics_api.h - HTTP routes of metrics. Loop thread only.
 *
 * cpu_used_pct covers the time since the last request if that was METRICS_SPAN_MS_MIN to
 * METRICS_SPAN_MS_MAX ago. A request that comes sooner gets the previous value. After a longer
 * pause the reply waits for the shortest span. */
#pragma once

#include "execd/metrics/metrics.h"
#include "net/http_server.h"

enum { METRICS_SPAN_MS_MIN = 100, METRICS_SPAN_MS_MAX = 5000, METRICS_WATCH_MS = 1000 };

struct metrics_memory { /* state between requests; zeroed before the first one */
    struct metrics_point last;
    double last_pct;
    bool measured; /* last_pct is valid */
};

void get_metrics(struct http_req *req);       /* GET /metrics */
void get_metrics_watch(struct http_req *req); /* GET /metrics/watch: one per second, without end */
