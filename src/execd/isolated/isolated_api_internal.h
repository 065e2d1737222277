/* isolated_api_internal.h - shared by the routes of isolated sessions. */
#pragma once

#include "base/json_write.h"
#include "execd/isolated/isolated.h"
#include "execd/isolated/isolated_request.h"
#include "net/http_server.h"

/* On false or NULL each has sent the reply: 503 if sessions cannot be created here, 404 for an
 * unknown id, 409 while a commit has exclusive use of the session. */
bool isolated_need(struct http_req *req);
struct isolated *isolated_need_session(struct http_req *req); /* also returns retained ones */
struct isolated *isolated_need_living(struct http_req *req);

void isolated_write_time(struct json_writer *w, struct str key, int64_t us); /* writes null for 0 */

/* Starts a run in the background and replies at once. */
void isolated_run_background(struct http_req *req, struct arena *a, struct isolated *s,
                             const struct isolated_job *want);
