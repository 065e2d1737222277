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
    STREAM = ROUTE_STREAM_BODY,
    NO_BODY = ROUTE_STREAM_BODY, /* needs no key, so it does not wait for a body */
};

static void handle_proxy(struct http_req *req)
{
    gateway_serve(server_of(req)->gateway, req);
}

/* clang-format off */
static const struct http_route rows[] = {
    {POST,   "/sandboxes",                                    V1, handle_sandboxes_post, 0},
    {GET,    "/sandboxes",                                    V1, handle_sandboxes_get, 0},
    {GET,    "/sandboxes/{sandboxId}",                        V1, handle_sandbox_get, 0},
    {DELETE, "/sandboxes/{sandboxId}",                        V1, handle_sandbox_delete, 0},
    {PATCH,  "/sandboxes/{sandboxId}/metadata",               V1, handle_sandbox_patch, 0},
    {POST,   "/sandboxes/{sandboxId}/pause",                  V1, handle_sandbox_pause, 0},
    {POST,   "/sandboxes/{sandboxId}/resume",                 V1, handle_sandbox_resume, 0},
    {POST,   "/sandboxes/{sandboxId}/renew-expiration",       V1, handle_sandbox_renew, 0},
    {POST,   "/sandboxes/{sandboxId}/fork",                   V1, handle_sandbox_fork, 0},
    {POST,   "/sandboxes/{sandboxId}/rollback",               V1, handle_sandbox_rollback, 0},
    {POST,   "/sandboxes/{sandboxId}/stop",                   V1, handle_sandbox_stop, 0},
    {POST,   "/sandboxes/{sandboxId}/start",                  V1, handle_sandbox_start, 0},
    {GET,    "/sandboxes/{sandboxId}/endpoints/{port}",       V1, handle_endpoint_get, 0},
    {POST,   "/sandboxes/{sandboxId}/snapshots",              V1, handle_snapshots_post, 0},
    {GET,    "/snapshots",                                    V1, handle_snapshots_get, 0},
    {GET,    "/snapshots/{snapshotId}",                       V1, handle_snapshot_get, 0},
    {DELETE, "/snapshots/{snapshotId}",                       V1, handle_snapshot_delete, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/logs",       V1, handle_diagnostics_logs, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/events",     V1, handle_diagnostics_events, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/inspect",    V1, handle_diagnostics_inspect, 0},
    {GET,    "/sandboxes/{sandboxId}/diagnostics/summary",    V1, handle_diagnostics_summary, 0},
    {GET,    "/images",                                       V1, handle_images_get, 0},
    {POST,   "/images/pull",                                  V1, handle_images_pull, 0},
    {POST,   "/images/import",                       V1 | STREAM, handle_images_import, 0},
    {POST,   "/images/prune",                                 V1, handle_images_prune, 0},
    {GET,    "/images/{image}",                               V1, handle_image_get, 0},
    {DELETE, "/images/{image}",                               V1, handle_image_delete, 0},
    {GET,    "/images/{image}/export",                        V1, handle_image_export, 0},
    {GET,    "/volumes",                                      V1, handle_volumes_get, 0},
    {POST,   "/volumes",                                      V1, handle_volumes_post, 0},
    {GET,    "/volumes/{volumeName}",                         V1, handle_volume_get, 0},
    {DELETE, "/volumes/{volumeName}",                         V1, handle_volume_delete, 0},
    {POST,   "/pools",                                        V1, handle_pools_post, 0},
    {GET,    "/pools",                                        V1, handle_pools_get, 0},
    {GET,    "/pools/{poolName}",                             V1, handle_pool_get, 0},
    {PUT,    "/pools/{poolName}",                             V1, handle_pool_put, 0},
    {DELETE, "/pools/{poolName}",                             V1, handle_pool_delete, 0},
    {ANY,    "/sandboxes/{sandboxId}/proxy/{port}",  V1 | STREAM, handle_proxy, 0},
    {ANY,    "/sandboxes/{sandboxId}/proxy/{port}/*", V1 | STREAM, handle_proxy, 0},
    {POST,   "/metrics/events",                               V1, handle_events_post, 0},
    {GET,    "/version",                            V1 | NO_BODY, handle_version_get, 0},
    {GET,    "/health",                                  NO_BODY, handle_health_get, 0},
    {GET,    "/ready",                                   NO_BODY, handle_ready_get, 0},
    {GET,    "/metrics",                                       0, handle_metrics_get, 0},
    {GET,    "/openapi.json",                            NO_BODY, handle_openapi_get, 0},
    {GET,    "/docs",                                    NO_BODY, handle_docs_get, 0},
    {GET,    "/redoc",                                   NO_BODY, handle_docs_get, 0},
    {GET,    "/",                                        NO_BODY, handle_root_get, 0},
};
/* clang-format on */

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
        table[count++].flags &= ~(unsigned)V1;
        if (!(rows[i].flags & V1))
            continue;
        (void)snprintf(paths[i], sizeof(paths[i]), "/v1%s", rows[i].path);
        table[count] = table[count - 1];
        table[count++].path = paths[i];
    }
    *ret_count = count;
    return table;
}
