/* metrics.h - numbers about the server, in the text format that Prometheus reads (0.0.4).
 *
 * Requests and creations are counted as they end; what has a value at any time is given when the
 * text is made. The number of series is bounded by the route table: paths, ids and other words of
 * clients never become labels. Loop thread only, but for metrics_read_process. */
#pragma once

#include "api/state.h"
#include "base/buf.h"
#include "net/router.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics;

/* The table stays the caller's and must outlive the metrics. */
struct metrics *metrics_new(const struct http_route *routes, size_t route_count);
void metrics_free(struct metrics *m); /* NULL is fine */

/* A request that is over. route: a row of the table, or NULL when none answered. status: 0 when the
 * client left before it had one. */
void metrics_request(struct metrics *m, const struct http_route *route, enum http_method method,
                     int status, uint64_t duration_ns);
/* A sandbox that was created and answered for. */
void metrics_create(struct metrics *m, uint64_t duration_ns);

/* The values of this moment, and counters that others keep. */
struct metrics_gauges {
    uint64_t sandboxes[SANDBOX_STATE_COUNT];
    bool has_slots; /* else the runtime could not be asked for them, and they are left out */
    uint64_t slots_ready, slots_ready_wanted, slots_live;
    uint64_t loop_lag_ns; /* since the last reading */
    uint64_t gateway_forwarded, gateway_refused, gateway_failed;
    uint64_t connections_accepted, connections, connections_idle;
    uint64_t jobs_running, jobs_queued; /* of the workers */
    uint64_t resident_bytes, open_fds, started_us;
};

/* Fills resident_bytes and open_fds, from /proc/self; 0 where that cannot be read. Any thread.
 * Kernels before 6.2 list the descriptors, at about a microsecond each: there it is for workers. */
void metrics_read_process(struct metrics_gauges *g);

/* Appends the whole text. -EMSGSIZE or -ENOMEM, and `out` is then as it was. Series that never
 * counted anything are left out. */
int metrics_render(const struct metrics *m, const struct metrics_gauges *g, struct buf *out);
