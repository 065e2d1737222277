/* execd_call.h - one request of the server itself to the execd of a sandbox. Loop thread only. */
#pragma once

#include "base/buf.h"
#include "net/http_client.h"
#include "server/runtime/runtime.h"

struct execd_call {
    /* Called once, unless it was cancelled. code 0 = it succeeded. */
    void (*done)(struct execd_call *c, const struct err *e);

    /* The remaining fields are private. */
    struct loop *loop;
    struct http_call *call; /* NULL = not under way */
    struct loop_timer timer;
    struct buf text; /* the answer; of a stream of events the part that may hold the last one */
    struct err why;  /* what the last event said; code 0 = success */
    bool is_stream, settled;
};

struct execd_request {
    struct str sandbox_id;
    struct str target;       /* "/command" */
    struct str content_type; /* of the body */
    struct str body;
    /* The answer is a stream of events: it succeeds by execution_complete, fails by an error, and
     * is not read further than either. Else any 2xx is a success. */
    bool is_stream;
    uint32_t limit_ms;
};

/* A zeroed call is one that is not under way. On failure done is not called. */
int execd_call_start(struct execd_call *c, struct http_client *client, struct runtime *rt,
                     const struct execd_request *request,
                     void (*done)(struct execd_call *c, const struct err *e), struct err *e);
void execd_call_cancel(struct execd_call *c); /* nothing if it is not under way */
