#include "execd/routes.h"

#include "execd/answer.h"
#include "execd/command_api.h"
#include "execd/command_request.h"
#include "execd/file_routes.h"
#include "execd/port_proxy.h"

#define TOKEN_HEADER "X-EXECD-ACCESS-TOKEN"

static void get_ping(struct http_req *req)
{
    answer_empty(req);
}

#define GET  HTTP_BIT(HTTP_GET)
#define POST HTTP_BIT(HTTP_POST)
#define DEL  HTTP_BIT(HTTP_DELETE)

const struct http_route execd_routes[] = {
    {GET,             "/ping",                0,                 get_ping,           0                     },
    {POST,            "/command",             0,                 post_command,       COMMAND_BODY_BYTES_MAX},
    {DEL,             "/command",             0,                 delete_command,     0                     },
    {GET,             "/command/status/{id}", 0,                 get_command_status, 0                     },
    {GET,             "/command/{id}/logs",   0,                 get_command_logs,   0                     },
    {GET,             "/metrics",             0,                 get_metrics,        0                     },
    {GET,             "/metrics/watch",       0,                 get_metrics_watch,  0                     },
    {GET,             "/files/info",          0,                 files_info,         0                     },
    {DEL,             "/files",               0,                 files_delete,       0                     },
    {POST,            "/files/permissions",   0,                 files_permissions,  FILE_BODY_BYTES_MAX   },
    {POST,            "/files/mv",            0,                 files_move,         FILE_BODY_BYTES_MAX   },
    {GET,             "/files/search",        0,                 files_search,       0                     },
    {POST,            "/files/replace",       0,                 files_replace,      FILE_BODY_BYTES_MAX   },
    {POST,            "/files/upload",        ROUTE_STREAM_BODY, files_upload,       0                     },
    {GET,             "/files/download",      0,                 files_download,     0                     },
    {GET,             "/directories/list",    0,                 directories_list,   0                     },
    {POST,            "/directories",         0,                 directories_make,   FILE_BODY_BYTES_MAX   },
    {DEL,             "/directories",         0,                 directories_delete, 0                     },
    {HTTP_ANY_METHOD, "/proxy/{port}",        ROUTE_STREAM_BODY, port_proxy,         0                     },
    {HTTP_ANY_METHOD, "/proxy/{port}/*",      ROUTE_STREAM_BODY, port_proxy,         0                     },
    {HTTP_ANY_METHOD, "/proxy/*",             0,                 port_proxy_no_port, 0                     },
};
const size_t execd_route_count = ARRAY_LEN(execd_routes);

bool execd_on_request(struct http_req *req)
{
    const struct execd_api *api = req->server_user;
    struct str wanted = str_of(api->access_token);

    if (wanted.n == 0 || str_eq_secret(http_req_header(req, STR(TOKEN_HEADER)), wanted))
        return true;
    answer_json(req, 401,
                STR("{\"error\":\"Unauthorized: invalid or missing header " TOKEN_HEADER "\"}"));
    return false;
}

void execd_on_unrouted(struct http_req *req, unsigned allowed UNUSED)
{
    http_reply(req, 404, STR("text/plain"), STR("404 page not found"));
}
