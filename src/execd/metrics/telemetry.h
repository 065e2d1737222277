/* telemetry.h - what execd did, and what its sandbox uses, told to an OpenTelemetry collector.
 *
 *   execd.http.request.duration            how long requests took, to the end of their reply
 *   execd.execution.duration               how long commands, runs in sessions and cells took
 *   execd.filesystem.operations.duration   how long requests about files took
 *   execd.system.*                         processes, cpu, memory, network, when it is sent
 *
 * telemetry_conf.h says what turns it on. Off, there is no struct telemetry: NULL is fine
 * everywhere below, and costs nothing. Loop thread only. */
#pragma once

#include "execd/core/child.h"
#include "execd/core/trim.h"
#include "execd/metrics/metrics.h"
#include "net/http_client.h"
#include "net/http_server.h"

struct telemetry;

enum telemetry_run { TELEMETRY_RUN_CODE, TELEMETRY_RUN_COMMAND, TELEMETRY_RUN_IN_SESSION };

struct telemetry_parts { /* all stay the caller's, and outlive it */
    struct loop *loop;
    struct http_client *client;
    struct trim *trim;
    const struct child_place *place; /* of a process that looks a name up */
    const struct metrics_source *metrics;
};

/* NULL when nothing asks for it, or cannot have it: then a warning was logged. */
struct telemetry *telemetry_start(const struct telemetry_parts *parts, const char *const *env);
void telemetry_stop(struct telemetry *t);

/* For http_server_conf.on_done. */
void telemetry_request(struct telemetry *t, const struct http_req *req, int error);
void telemetry_executed(struct telemetry *t, enum telemetry_run run, bool success, uint64_t ns);
