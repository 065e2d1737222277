/* sse_internal.h - shared by single event streams and hubs. */
#pragma once

#include "net/sse.h"

/* Sends the head of an event stream. */
void sse_reply_head(struct http_req *req);
