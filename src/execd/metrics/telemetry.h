/* telemetry.h - sends what execd did and what its sandbox uses to an OpenTelemetry collector.
 *
 *   execd.http.request.duration            duration of requests, to the end of their reply
 *   execd.execution.duration               duration of commands, runs in sessions and cells
 *   execd.filesystem.operations.duration   duration of requests about files
 *   execd.system.*                         processes, cpu, memory, network, at the time of sending
 *
 * and spans of requests and of commands, runs and cells whose request came with a traceparent that
 * is sampled; execd begins no traces of its own.
 *
 * telemetry_conf.h describes what enables it. If disabled, there is no struct telemetry: all
 * functions below accept NULL, at no cost. Loop thread only. */
#pragma once

#include "base/trace.h"
#include "execd/core/child.h"
#include "execd/core/trim.h"
#include "execd/metrics/metrics.h"
#include "net/http_client.h"
#include "net/http_server.h"

struct telemetry;

enum telemetry_run { TELEMETRY_RUN_CODE, TELEMETRY_RUN_COMMAND, TELEMETRY_RUN_IN_SESSION };

struct telemetry_parts { /* owned by the caller; must outlive struct telemetry */
    struct loop *loop;
    struct http_client *client;
    struct trim *trim;
    const struct child_place *place; /* for the process that resolves host names */
    const struct metrics_source *metrics;
};

/* NULL if it is not enabled, or not possible; the latter is logged as a warning. */
struct telemetry *telemetry_start(const struct telemetry_parts *parts, const char *const *env);
void telemetry_stop(struct telemetry *t);

/* Called from http_server_conf.on_done. */
void telemetry_request(struct telemetry *t, const struct http_req *req, int error);
/* span: begun when the run began; all 0 = none. */
void telemetry_executed(struct telemetry *t, enum telemetry_run run, bool success, uint64_t ns,
                        const struct trace_span *span);
/* Around the handler of a request: what begins in it belongs to its trace. For
 * http_server_conf.on_handle and on_handled. */
bool telemetry_enter(struct http_req *req);
void telemetry_leave(struct http_req *req);
