/* routes.h - what the server answers to. */
#pragma once

#include "net/http_server.h"
#include "net/router.h"

/* Every row, those that exist under /v1 too in both spellings. Made once, kept for good. */
const struct http_route *server_routes(size_t *ret_count);

/* Answers a path that is none but for the slash at its end: 307 to the one without, by path and
 * query alone. True when it has replied. */
bool server_redirect(struct http_req *req);
