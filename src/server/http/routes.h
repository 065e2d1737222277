/* routes.h - the route table. */
#pragma once

#include "net/http_server.h"
#include "net/router.h"

/* All rows; those that exist under /v1 as well appear twice. Made once, never freed. */
const struct http_route *server_routes(size_t *ret_count);

/* Answers a path that matches only without its final slash: 307 to that path, with the query and
 * without a host. True when it has replied. */
bool server_redirect(struct http_req *req);
