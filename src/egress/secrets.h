/* secrets.h - routes for the server: secretEnv of sandboxes. Both collect their body in locked
 * memory (ROUTE_STREAM_BODY). Loop thread only. */
#pragma once

struct http_req;

/* POST /sandboxes/{id}/secrets, with {"secretEnv":{...}} for a new sandbox, {"from":"ID"} for a
 * fork of one, {} for one that is started again: answers {"NAME":"placeholder"}. */
void secrets_handle_put(struct http_req *req);
/* POST /check-secrets {"policy":{...},"secretEnv":{...}}: 204, or 400 with the reason. */
void secrets_handle_check(struct http_req *req);
