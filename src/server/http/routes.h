/* routes.h - the route table. */
#pragma once

#include "net/http_server.h"
#include "net/router.h"
#include "server/tenants/principal.h"

/* Bits of http_route.flags, above those of the router. */
enum {
    ROUTE_ROLE_SHIFT = 20,
    ROUTE_ROLE_MASK = 7 << ROUTE_ROLE_SHIFT,
    ROUTE_GLOBAL = 1 << 24,     /* only for those who see all tenants */
    ROUTE_OF_SANDBOX = 1 << 25, /* also for those who have only the sandbox of the path */
};
#define ROUTE_NEEDS(role) ((role) << ROUTE_ROLE_SHIFT)

/* All rows; those that exist under /v1 as well appear twice. Made once, never freed. */
const struct http_route *server_routes(size_t *ret_count);
/* Whether the request's row has this handler; the table's own looks for other servers first. */
bool route_is(const struct http_req *req, void (*handler)(struct http_req *req));
