#include "execd/routes.h"

#include "net/http_server.h"

static void get_ping(struct http_req *req)
{
    http_reply(req, 200, STR_NONE, STR_NONE);
}

const struct http_route execd_routes[] = {
    {HTTP_BIT(HTTP_GET), "/ping", 0, get_ping, 0},
};
const size_t execd_route_count = ARRAY_LEN(execd_routes);
