/* isolated_api_internal.h - what the routes of isolated sessions share. */
#pragma once

#include "base/json_write.h"
#include "execd/isolated/isolated.h"
#include "execd/isolated/isolated_request.h"
#include "net/http_server.h"

/* Each replies when there is none: 503 where sessions cannot be made, 404 for an id nobody has, and
 * 409 while the session is being changed by somebody who needs it alone. */
bool isolated_need(struct http_req *req);
struct isolated *isolated_need_session(struct http_req *req); /* retained ones, too */
struct isolated *isolated_need_living(struct http_req *req);

void isolated_write_time(struct json_writer *w, struct str key, int64_t us); /* 0 is null */

/* A run that nobody follows; replies at once. */
void isolated_run_background(struct http_req *req, struct arena *a, struct isolated *s,
                             const struct isolated_job *want);
