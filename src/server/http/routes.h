/* routes.h - the route table. */
#pragma once

#include "net/http_server.h"
#include "net/router.h"

/* All rows; those that exist under /v1 as well appear twice. Made once, never freed. */
const struct http_route *server_routes(size_t *ret_count);
