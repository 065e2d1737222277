/* telemetry_export.h - sends figures to a collector, again and again, on the loop of everything
 * else.
 *
 * A collector that is slow, gone or wrong costs a warning now and then, and nothing else: what was
 * not taken is part of the next. A name is looked up in a process of its own, before the first and
 * after a failure. Loop thread only. */
#pragma once

#include "execd/core/child.h"
#include "execd/metrics/telemetry_conf.h"
#include "net/http_client.h"

enum {
    TELEMETRY_BODY_BYTES_MAX = 4 << 20,
    TELEMETRY_ANSWER_BYTES_MAX = 64 << 10,
    TELEMETRY_TIMEOUT_MS = 10 * 1000,
    TELEMETRY_LOOKUP_S = 10,
    TELEMETRY_WARN_MS = 10 * 60 * 1000, /* no two warnings are closer */
};

struct telemetry_export_conf { /* all but the struct itself stays the caller's */
    struct loop *loop;
    struct http_client *client;
    const struct child_place *place; /* of the process that looks a name up */
    const struct telemetry_conf *to;
    int (*make)(void *user, struct buf *body); /* appends what is to be sent: 0, or -errno */
    void *user;
};

struct telemetry_export {
    struct telemetry_export_conf conf;
    struct loop_timer timer;
    struct sock_addr addr;  /* size 0: not known, or not any more */
    struct loop_io lookup;  /* fd is -EBADF unless one goes on */
    struct http_call *call; /* NULL: none goes on */
    uint64_t call_ns;       /* when it began */
    int status;             /* of its answer */
    size_t answer_bytes;
    uint64_t lost;      /* since the last that was taken */
    uint64_t warned_ns; /* 0: never */
};

/* The first is sent after one interval. */
void telemetry_export_start(struct telemetry_export *x, const struct telemetry_export_conf *conf);
/* Before the client is freed. What is under way is given up. */
void telemetry_export_stop(struct telemetry_export *x);
