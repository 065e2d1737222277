/* code_api.h - HTTP routes of code contexts and cells. Loop thread only. */
#pragma once

#include "net/http_server.h"

enum { CODE_BODY_BYTES_MAX = 8 << 20, CONTEXT_BODY_BYTES_MAX = 1 << 20 };

void post_code(struct http_req *req);            /* POST /code */
void post_code_context(struct http_req *req);    /* POST /code/context */
void get_code_contexts(struct http_req *req);    /* GET /code/contexts?language= */
void delete_code_contexts(struct http_req *req); /* DELETE /code/contexts?language= */
void get_code_context(struct http_req *req);     /* GET /code/contexts/{id} */
void delete_code_context(struct http_req *req);  /* DELETE /code/contexts/{id} */

/* DELETE /code?id= and /command?id= for a context. Returns false without a reply when the id is not
 * a context's. */
bool code_interrupt_answer(struct http_req *req, struct str id);
