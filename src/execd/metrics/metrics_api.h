/* metrics_api.h - the routes of metrics. Loop thread only.
 *
 * cpu_used_pct is over the time since the last request, if that was METRICS_SPAN_MS_MIN to
 * METRICS_SPAN_MS_MAX ago; sooner, it is what that one was told; else the reply waits for the
 * shortest span. */
#pragma once

#include "execd/metrics/metrics.h"
#include "net/http_server.h"

enum { METRICS_SPAN_MS_MIN = 100, METRICS_SPAN_MS_MAX = 5000, METRICS_WATCH_MS = 1000 };

struct metrics_memory { /* what the routes remember; zeroed before the first request */
    struct metrics_point last;
    double last_pct;
    bool measured; /* last_pct is one */
};

void get_metrics(struct http_req *req);       /* GET /metrics */
void get_metrics_watch(struct http_req *req); /* GET /metrics/watch: one a second, for ever */
