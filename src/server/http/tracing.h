/* tracing.h - the trace of a request: what its traceparent says, its span, what goes on with it.
 *
 * While no telemetry is sent all of it does nothing, and headers pass as they are. */
#pragma once

#include "base/trace.h"
#include "net/http_server.h"

/* Reads the headers, decides whether the request is recorded, and begins its span: for
 * on_request. */
void tracing_begin(struct http_req *req);
/* Around the handler: what begins in it is part of the trace. */
void tracing_enter(struct http_req *req);
void tracing_leave(struct http_req *req);
/* The sandbox that the request made. */
void tracing_note_sandbox(struct http_req *req, const char *id);
/* The context of the request's span; NULL when it is not recorded. */
const struct trace_context *tracing_of(const struct http_req *req);
/* Whether traceparent and tracestate of the client may be passed on. */
bool tracing_keeps_state(const struct http_req *req);
void tracing_end(struct http_req *req, int error); /* the request is over */
