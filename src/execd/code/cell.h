/* cell.h - one run of a cell as the reply to a request: a stream of events at its client's pace.
 * Loop thread only. */
#pragma once

#include "execd/code/contexts.h"
#include "net/http_server.h"

struct cell_run {
    struct context *context;
    struct str code;
    uint64_t timeout_ms; /* 0 = none */
    /* The context died before, and was started anew: its client is told, too. */
    bool revived;
};

/* Answers the request: `init` at once, and from then on whatever comes. A client that leaves
 * interrupts the cell (context_leave). */
void cell_start(struct http_req *req, const struct cell_run *run);
