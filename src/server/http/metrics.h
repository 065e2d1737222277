/* metrics.h - the server's metrics in the Prometheus text format (0.0.4).
 *
 * Requests and creations are counted when they end; gauges are passed in when the text is made. The
 * route table bounds the number of series: paths, ids and other input of clients never become
 * labels. Loop thread only, except metrics_read_process. */
#pragma once

#include "api/state.h"
#include "base/buf.h"
#include "base/otlp_json.h"
#include "net/router.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics;

/* The caller keeps the table, which must outlive the metrics. */
struct metrics *metrics_new(const struct http_route *routes, size_t route_count);
void metrics_free(struct metrics *m); /* NULL is fine */

/* Counts a request that ended. route: a row of the table, or NULL when none matched. status: 0 when
 * the client left before the answer. */
void metrics_request(struct metrics *m, const struct http_route *route, enum http_method method,
                     int status, uint64_t duration_ns);
/* Counts a sandbox that was created and reported to the client. */
void metrics_create(struct metrics *m, uint64_t duration_ns);

/* Current values, and counters that other modules keep. */
struct metrics_gauges {
    uint64_t sandboxes[SANDBOX_STATE_COUNT];
    bool has_slots; /* false: the runtime did not answer, and slots are left out */
    uint64_t slots_ready, slots_ready_wanted, slots_live;
    uint64_t loop_lag_ns; /* since the last reading */
    uint64_t gateway_forwarded, gateway_refused, gateway_failed;
    uint64_t connections_accepted, connections, connections_idle;
    uint64_t jobs_running, jobs_queued; /* in the worker pool */
    uint64_t resident_bytes, open_fds, started_us;
    bool has_egress;    /* false: no process filters networks, and its rows are left out */
    uint64_t egress_up; /* 0: it does not answer, and the others of it are left out */
    uint64_t egress_sandboxes, egress_queries, egress_failed, egress_denied, egress_changes;
    uint64_t egress_rule_errors, egress_vault_uses, egress_vaults_lost;
    bool has_telemetry; /* false: none is sent, and its rows are left out */
    struct {
        uint64_t sent, dropped, failures;
    } telemetry[OTLP_SIGNAL_COUNT];
};

/* Fills resident_bytes and open_fds from /proc/self; 0 when unreadable. Any thread. Kernels before
 * 6.2 need a listing of the descriptors, about a microsecond each: there, call it on a worker. */
void metrics_read_process(struct metrics_gauges *g);

/* Appends the whole text. On -EMSGSIZE or -ENOMEM `out` is unchanged. Leaves out series without a
 * count. */
int metrics_render(const struct metrics *m, const struct metrics_gauges *g, struct buf *out);

/* The same rows as objects of OTLP JSON, separated by commas; *ret_count: how many. `clock` has the
 * times. Errors as above. */
int metrics_render_otlp(const struct metrics *m, const struct metrics_gauges *g,
                        const struct otlp_json_metric *clock, struct buf *out, uint64_t *ret_count);
