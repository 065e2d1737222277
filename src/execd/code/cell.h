/* cell.h - runs one cell and streams its events as the reply to a request, at the client's pace.
 * Loop thread only. */
#pragma once

#include "execd/code/contexts.h"
#include "net/http_server.h"

struct cell_run {
    struct context *context;
    struct str code;
    uint64_t timeout_ms; /* 0 = none */
    /* The context had died and was restarted; the client is told so. */
    bool revived;
};

/* Answers the request: sends `init` at once, then the events. If the client disconnects, the cell
 * is interrupted (context_leave()). */
void cell_start(struct http_req *req, const struct cell_run *run);
