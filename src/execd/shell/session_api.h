/* session_api.h - the routes of shell sessions. Loop thread only. */
#pragma once

#include "net/http_server.h"

enum { SESSION_BODY_BYTES_MAX = 4 << 20 };

void post_session(struct http_req *req);     /* POST /session */
void post_session_run(struct http_req *req); /* POST /session/{id}/run */
void delete_session(struct http_req *req);   /* DELETE /session/{id} */

/* DELETE /command?id= and /code?id= for a session: replies when its current run has ended, or at
 * once when there is none. Returns false without a reply when the id is not a session's. */
bool session_interrupt_answer(struct http_req *req, struct str id);
