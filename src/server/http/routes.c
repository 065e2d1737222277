#include "server/http/routes.h"

#include <stdio.h>

#include "server/http/server_internal.h"

enum {
    GET = HTTP_BIT(HTTP_GET),
    POST = HTTP_BIT(HTTP_POST),
    PUT = HTTP_BIT(HTTP_PUT),
    PATCH = HTTP_BIT(HTTP_PATCH),
    DELETE = HTTP_BIT(HTTP_DELETE),
    ANY = HTTP_ANY_METHOD,

    V1 = 1 << 16, /* also under /v1 */
    /* The same, and which role it needs; without one, none, or the handler decides. */
    LOOK = V1 | ROUTE_NEEDS(ROLE_READ_ONLY),
    LOOK_OWN = LOOK | ROUTE_OF_SANDBOX,
    CHANGE = V1 | ROUTE_NEEDS(ROLE_OPERATOR),
    CHANGE_OWN = CHANGE | ROUTE_OF_SANDBOX,
    MANAGE = V1 | ROUTE_NEEDS(ROLE_ADMIN),
    GLOBAL = MANAGE | ROUTE_GLOBAL,
    METERS = ROUTE_NEEDS(ROLE_READ_ONLY) | ROUTE_GLOBAL, /* not under /v1 */
    STREAM = ROUTE_STREAM_BODY,
    NO_BODY = ROUTE_STREAM_BODY, /* needs no key, so it does not wait for a body */
};

static void handle_proxy(struct http_req *req)
{
    gateway_serve(server_of(req)->gateway, req);
}

/* clang-format off */
static const struct http_route rows[] = {
    {POST,   "/sandboxes",                                   CHANGE, handle_sandboxes_post, 0},
    {GET,    "/sandboxes",                                   LOOK, handle_sandboxes_get, 0},
    {DELETE, "/sandboxes",                                   CHANGE, handle_sandboxes_delete, 0},
    {GET,    "/sandboxes/{sandboxId}",                       LOOK_OWN, handle_sandbox_get, 0},
    {DELETE, "/sandboxes/{sandboxId}",                       CHANGE, handle_sandbox_delete, 0},
    {PATCH,  "/sandboxes/{sandboxId}/metadata",              CHANGE, handle_sandbox_patch, 0},
    {POST,   "/sandboxes/{sandboxId}/pause",                 CHANGE, handle_sandbox_pause, 0},
    {POST,   "/sandboxes/{sandboxId}/resume",                CHANGE, handle_sandbox_resume, 0},
    {POST,   "/sandboxes/{sandboxId}/renew-expiration",      CHANGE, handle_sandbox_renew, 0},
    {POST,   "/sandboxes/{sandboxId}/fork",                  CHANGE, handle_sandbox_fork, 0},
    {POST,   "/sandboxes/{sandboxId}/rollback",              CHANGE, handle_sandbox_rollback, 0},
    {POST,   "/sandboxes/{sandboxId}/stop",                  CHANGE, handle_sandbox_stop, 0},
    {POST,   "/sandboxes/{sandboxId}/start",                 CHANGE, handle_sandbox_start, 0},
    {GET,    "/sandboxes/{sandboxId}/endpoints/{port}",      CHANGE_OWN, handle_endpoint_get, 0},
    {POST,   "/sandboxes/{sandboxId}/previews/{port}",       CHANGE_OWN, handle_preview_post, 0},
    {POST,   "/sandboxes/{sandboxId}/snapshots",             CHANGE, handle_snapshots_post, 0},
    {GET,    "/snapshots",                                   LOOK, handle_snapshots_get, 0},
    {GET,    "/snapshots/{snapshotId}",                      LOOK, handle_snapshot_get, 0},
    {DELETE, "/snapshots/{snapshotId}",                      CHANGE, handle_snapshot_delete, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/logs",      LOOK_OWN, handle_diagnostics_logs, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/events",    LOOK_OWN, handle_diagnostics_events, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/inspect",   LOOK_OWN, handle_diagnostics_inspect, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/summary",   LOOK_OWN, handle_diagnostics_summary, 0},
    {GET,    "/images",                                      LOOK, handle_images_get, 0},
    {POST,   "/images/pull",                                 CHANGE, handle_images_pull, 0},
    {POST,   "/images/import",                               STREAM | GLOBAL, handle_images_import, 0},
    {POST,   "/images/prune",                                GLOBAL, handle_images_prune, 0},
    {GET,    "/images/{image}",                              LOOK, handle_image_get, 0},
    {DELETE, "/images/{image}",                              GLOBAL, handle_image_delete, 0},
    {GET,    "/images/{image}/export",                       GLOBAL, handle_image_export, 0},
    {GET,    "/volumes",                                     LOOK, handle_volumes_get, 0},
    {POST,   "/volumes",                                     CHANGE, handle_volumes_post, 0},
    {GET,    "/volumes/{volumeName}",                        LOOK, handle_volume_get, 0},
    {DELETE, "/volumes/{volumeName}",                        CHANGE, handle_volume_delete, 0},
    {POST,   "/pools",                                       MANAGE, handle_pools_post, 0},
    {GET,    "/pools",                                       LOOK, handle_pools_get, 0},
    {GET,    "/pools/{poolName}",                            LOOK, handle_pool_get, 0},
    {PUT,    "/pools/{poolName}",                            MANAGE, handle_pool_put, 0},
    {DELETE, "/pools/{poolName}",                            MANAGE, handle_pool_delete, 0},
    {GET,    "/whoami",                                      LOOK_OWN, handle_whoami_get, 0},
    {GET,    "/tenants",                                     LOOK, handle_tenants_get, 0},
    {POST,   "/tenants",                                     GLOBAL, handle_tenants_post, 0},
    {GET,    "/tenants/{tenantName}",                        LOOK, handle_tenant_get, 0},
    {PATCH,  "/tenants/{tenantName}",                        GLOBAL, handle_tenant_patch, 0},
    {DELETE, "/tenants/{tenantName}",                        GLOBAL, handle_tenant_delete, 0},
    {GET,    "/keys",                                        MANAGE, handle_keys_get, 0},
    {POST,   "/keys",                                        MANAGE, handle_keys_post, 0},
    {GET,    "/keys/{keyId}",                                MANAGE, handle_key_get, 0},
    {DELETE, "/keys/{keyId}",                                MANAGE, handle_key_delete, 0},
    {POST,   "/keys/{keyId}/rotate",                         MANAGE, handle_key_rotate, 0},
    {GET,    "/audit",                                       MANAGE, handle_audit_get, 0},
    {GET,    "/events",                                      LOOK, handle_events_get, 0},
    {ANY,    "/sandboxes/{sandboxId}/proxy/{port}",          V1 | STREAM, handle_proxy, 0},
    {ANY,    "/sandboxes/{sandboxId}/proxy/{port}/*",        V1 | STREAM, handle_proxy, 0},
    {ANY,    "/preview/{ticket}",                            STREAM, handle_proxy, 0},
    {ANY,    "/preview/{ticket}/*",                          STREAM, handle_proxy, 0},
    {POST,   "/metrics/events",                              LOOK, handle_events_post, 0},
    {GET,    "/version",                                     V1 | NO_BODY, handle_version_get, 0},
    {GET,    "/health",                                      NO_BODY, handle_health_get, 0},
    {GET,    "/ready",                                       NO_BODY, handle_ready_get, 0},
    {GET,    "/metrics",                                     METERS, handle_metrics_get, 0},
    {GET,    "/openapi.json",                                NO_BODY, handle_openapi_get, 0},
    {GET,    "/docs",                                        NO_BODY, handle_docs_get, 0},
    {GET,    "/redoc",                                       NO_BODY, handle_docs_get, 0},
    {GET,    "/auth/session",                                V1 | NO_BODY, handle_auth_session_get, 0},
    {GET,    "/auth/login",                                  NO_BODY, handle_auth_login_get, 0},
    {GET,    "/auth/callback",                               NO_BODY, handle_auth_callback_get, 0},
    {POST,   "/auth/logout",                                 NO_BODY, handle_auth_logout_post, 0},
    {POST,   "/auth/token",                                  V1, handle_auth_token_post, 0},
    {GET,    "/console",                                     NO_BODY, handle_console_get, 0},
    {GET,    "/console/*",                                   NO_BODY, handle_console_get, 0},
    {GET,    "/",                                            NO_BODY, handle_root_get, 0},
};
/* clang-format on */

/* Of the rows of server_routes(); filled with them. */
static void (*handlers[2 * ARRAY_LEN(rows)])(struct http_req *req);

/* The handler of a row, which is here; the table has handle_anywhere, which looks first whether
 * another server holds what the request is about. */
void handle_here(struct http_req *req)
{
    size_t count, at = (size_t)(req->route - server_routes(&count));

    handlers[at](req);
}

bool route_is(const struct http_req *req, void (*handler)(struct http_req *req))
{
    size_t count;

    return req->route && handlers[req->route - server_routes(&count)] == handler;
}

const struct http_route *server_routes(size_t *ret_count)
{
    static struct http_route table[2 * ARRAY_LEN(rows)]; /* filled once, read-only from then on */
    static char paths[ARRAY_LEN(rows)][64];
    static size_t count;

    if (count) {
        *ret_count = count;
        return table;
    }
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        table[count] = rows[i];
        table[count].handler = handle_anywhere;
        handlers[count] = rows[i].handler;
        table[count++].flags &= ~(unsigned)V1;
        if (!(rows[i].flags & V1))
            continue;
        (void)snprintf(paths[i], sizeof(paths[i]), "/v1%s", rows[i].path);
        table[count] = table[count - 1];
        handlers[count] = rows[i].handler;
        table[count++].path = paths[i];
    }
    *ret_count = count;
    return table;
}
