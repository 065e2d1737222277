/* telemetry_export.h - sends metrics or spans to a collector periodically, on the common loop.
 *
 * If a collector is slow, down or misconfigured, this only causes a rare warning: metrics are
 * cumulative, and spans are kept, so the next export includes what was not accepted. Host names are
 * resolved in a separate process, before the first export and after a failure. Loop thread only. */
#pragma once

#include "execd/core/child.h"
#include "execd/metrics/telemetry_conf.h"
#include "net/http_client.h"

enum {
    TELEMETRY_BODY_BYTES_MAX = 4 << 20,
    TELEMETRY_ANSWER_BYTES_MAX = 64 << 10,
    TELEMETRY_TIMEOUT_MS = 10 * 1000,
    TELEMETRY_LOOKUP_S = 10,
    TELEMETRY_WARN_MS = 10 * 60 * 1000, /* minimum time between warnings */
};

struct telemetry_export_conf { /* copied; what it points to stays the caller's */
    struct loop *loop;
    struct http_client *client;
    const struct child_place *place; /* for the process that resolves host names */
    const struct telemetry_conf *to;
    int (*make)(void *user, struct buf *body); /* appends the body: 0, -EAGAIN = none, -errno */
    void (*done)(void *user, bool taken);      /* the end of what `make` made; may be NULL */
    void *user;
};

struct telemetry_export {
    struct telemetry_export_conf conf;
    struct loop_timer timer;
    struct sock_addr addr;  /* size 0: unknown, or outdated */
    struct loop_io lookup;  /* fd is -EBADF unless a lookup is running */
    struct http_call *call; /* NULL: no request is running */
    uint64_t call_ns;       /* when the request began */
    int status;             /* HTTP status of its reply */
    size_t answer_bytes;
    uint64_t lost;      /* failed exports since the last success */
    uint64_t warned_ns; /* 0: never */
};

/* Sends the first export after one interval. */
void telemetry_export_start(struct telemetry_export *x, const struct telemetry_export_conf *conf);
/* Call before the client is freed. Cancels a running request. */
void telemetry_export_stop(struct telemetry_export *x);
