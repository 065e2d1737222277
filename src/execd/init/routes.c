#include "execd/core/routes.h"

#include "base/mem.h"
#include "execd/code/code_api.h"
#include "execd/command/command_api.h"
#include "execd/command/command_request.h"
#include "execd/core/answer.h"
#include "execd/files/file_identity.h"
#include "execd/files/file_routes.h"
#include "execd/init/port_proxy.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_request.h"
#include "execd/metrics/metrics_api.h"
#include "execd/pty/pty_api.h"
#include "execd/shell/session_api.h"

static void get_ping(struct http_req *req)
{
    answer_empty(req);
}

/* DELETE /command?id= and /code?id=: the id is that of a code context, a command or a session. */
static void delete_run(struct http_req *req)
{
    struct str id;

    if (answer_query_need(req, STR("id"), &id) && !code_interrupt_answer(req, id) &&
        !command_interrupt_answer(req, id) && !session_interrupt_answer(req, id))
        answer_error(req, 500, "RUNTIME_ERROR",
                     "error interruptting code context. no such session");
}

#define GET  HTTP_BIT(HTTP_GET)
#define POST HTTP_BIT(HTTP_POST)
#define DEL  HTTP_BIT(HTTP_DELETE)

/* clang-format off */
const struct http_route execd_routes[] = {
    {GET,             "/ping",                                     0,                 get_ping,                  0},
    {POST,            "/command",                                  0,                 post_command,              COMMAND_BODY_BYTES_MAX},
    {DEL,             "/command",                                  0,                 delete_run,                0},
    {GET,             "/command/status/{id}",                      0,                 get_command_status,        0},
    {GET,             "/command/{id}/logs",                        0,                 get_command_logs,          0},
    {POST,            "/command/{id}/stdin",                       ROUTE_STREAM_BODY, post_command_stdin,        0},
    {POST,            "/session",                                  0,                 post_session,              FILE_BODY_BYTES_MAX},
    {POST,            "/session/{id}/run",                         0,                 post_session_run,          SESSION_BODY_BYTES_MAX},
    {DEL,             "/session/{id}",                             0,                 delete_session,            0},
    {POST,            "/code",                                     0,                 post_code,                 CODE_BODY_BYTES_MAX},
    {DEL,             "/code",                                     0,                 delete_run,                0},
    {POST,            "/code/context",                             0,                 post_code_context,         CONTEXT_BODY_BYTES_MAX},
    {GET,             "/code/contexts",                            0,                 get_code_contexts,         0},
    {DEL,             "/code/contexts",                            0,                 delete_code_contexts,      0},
    {GET,             "/code/contexts/{id}",                       0,                 get_code_context,          0},
    {DEL,             "/code/contexts/{id}",                       0,                 delete_code_context,       0},
    {POST,            "/pty",                                      0,                 post_pty,                  PTY_BODY_BYTES_MAX},
    {GET,             "/pty/{id}",                                 0,                 get_pty,                   0},
    {DEL,             "/pty/{id}",                                 0,                 delete_pty,                0},
    {GET,             "/pty/{id}/ws",                              0,                 get_pty_ws,                0},
    {0,               "",                                          0,                 NULL,                      0,                       &file_routes},
    {0,               "",                                          0,                 NULL,                      0,                       &archive_routes},
    {0,               "/v1/filesystem/{uid}/{gid}",                ROUTE_STREAM_BODY, identity_files,            0,                       &file_routes},
    {0,               "/v1/filesystem/{uid}/{gid}",                ROUTE_STREAM_BODY, identity_files,            0,                       &archive_routes},
    {GET,             "/v1/isolated/capabilities",                 0,                 get_isolated_capabilities, 0},
    {GET,             "/v1/isolated/sessions",                     0,                 get_isolated_sessions,     0},
    {POST,            "/v1/isolated/session",                      0,                 post_isolated_session,     ISOLATED_BODY_BYTES_MAX},
    {GET,             "/v1/isolated/session/{id}",                 0,                 get_isolated_session,      0},
    {DEL,             "/v1/isolated/session/{id}",                 0,                 delete_isolated_session,   0},
    {POST,            "/v1/isolated/session/{id}/run",             0,                 post_isolated_run,         ISOLATED_RUN_BYTES_MAX},
    {GET,             "/v1/isolated/session/{id}/runs/{run}",      0,                 get_isolated_run,          0},
    {GET,             "/v1/isolated/session/{id}/runs/{run}/logs", 0,                 get_isolated_run_logs,     0},
    {GET,             "/v1/isolated/session/{id}/diff",            0,                 get_isolated_diff,         0},
    {POST,            "/v1/isolated/session/{id}/commit",          0,                 post_isolated_commit,      ISOLATED_BODY_BYTES_MAX},
    {0,               "/v1/isolated/session/{id}",                 ROUTE_STREAM_BODY, isolated_files,            0,                       &file_routes},
    {GET,             "/metrics",                                  0,                 get_metrics,               0},
    {GET,             "/metrics/watch",                            0,                 get_metrics_watch,         0},
    {HTTP_ANY_METHOD, "/proxy/{port}",                             ROUTE_STREAM_BODY, port_proxy,                0},
    {HTTP_ANY_METHOD, "/proxy/{port}/*",                           ROUTE_STREAM_BODY, port_proxy,                0},
    {HTTP_ANY_METHOD, "/proxy/*",                                  0,                 port_proxy_no_port,        0},
};
/* clang-format on */
const size_t execd_route_count = ARRAY_LEN(execd_routes);

struct http_route *execd_routes_of_user(void)
{
    struct http_route *rows = mem_new_array(struct http_route, execd_route_count);

    memcpy(rows, execd_routes, sizeof(execd_routes));
    for (size_t i = 0; i < execd_route_count; i++)
        if (rows[i].group && rows[i].path[0] == '\0') {
            rows[i].handler = usual_files;
            rows[i].flags = ROUTE_STREAM_BODY;
        }
    return rows;
}

/* The router treats HEAD as GET, but this API has no HEAD. Only routes under /proxy accept it. */
static bool is_head_refused(const struct http_req *req)
{
    const struct http_route *route = NULL;

    if (req->head.method != HTTP_HEAD)
        return false;
    route = http_req_route_at(req, req->head.path);
    return !route || !(route->methods & HTTP_BIT(HTTP_HEAD));
}

bool execd_on_request(struct http_req *req)
{
    struct execd_api *api = req->server_user;
    struct str wanted = str_of(api->access_token);

    trim_soon(&api->trim);
    if (req->head.method != HTTP_HEAD && http_redirect_slash(req, 301))
        return false;
    if (wanted.n && !str_eq_secret(http_req_header(req, STR(EXECD_TOKEN_HEADER)), wanted)) {
        answer_json(
            req, 401,
            STR("{\"error\":\"Unauthorized: invalid or missing header " EXECD_TOKEN_HEADER "\"}"));
        return false;
    }
    if (is_head_refused(req)) {
        execd_on_unrouted(req, 0);
        return false;
    }
    return true;
}

void execd_on_unrouted(struct http_req *req, unsigned allowed UNUSED)
{
    http_reply(req, 404, STR("text/plain"), STR("404 page not found"));
}
