/* server_internal.h - the parts of the server that handlers use. */
#pragma once

#include "base/log.h"
#include "net/http_server.h"
#include "net/pool.h"
#include "server/audit/audit.h"
#include "server/config/config.h"
#include "server/core/events.h"
#include "server/core/idempotency.h"
#include "server/core/sandboxes.h"
#include "server/core/snapshots.h"
#include "server/gateway/gateway.h"
#include "server/gateway/previews.h"
#include "server/http/guard.h"
#include "server/http/metrics.h"
#include "server/pools/pools.h"
#include "server/telemetry/telemetry.h"
#include "server/tenants/tenants.h"

struct asking;
struct oidc;
struct cluster;
struct forwarding;
struct others_events;

/* State of request_log.c. */
enum { REQUEST_LOG_STATUS_COUNT = 600 };

struct request_log {
    struct log_limit limits[REQUEST_LOG_STATUS_COUNT]; /* per status, for failed requests */
    struct loop_timer timer; /* runs while lines were left out and not yet reported */
};

struct server {
    const struct config *config;
    struct loop *loop;
    struct pool *pool;
    struct store *store;
    struct runtime *runtime;
    struct sandboxes *sandboxes;
    struct snapshots *snapshots;
    struct pools *pools; /* NULL = the runtime has none */
    struct tenants *tenants;
    struct audit *audit; /* NULL = none is kept */
    struct events *events;
    struct idempotency *idempotency;
    size_t watchers, waiters; /* of events; for the state of a sandbox */
    struct guard guard;
    struct oidc *oidc; /* NULL = nobody signs in by a provider */
    struct gateway *gateway;
    struct previews *previews;
    struct cluster *cluster;             /* NULL = this server is the only one, as .. */
    struct forwarding *forwarding;       /* .. this is then, .. */
    struct others_events *others_events; /* .. and this */
    struct metrics *metrics;
    struct telemetry *telemetry; /* NULL = none is sent */
    struct logfile *access_log;  /* NULL = use the program's log */
    struct http_server *http;
    struct request_log request_log;
    struct log_limit
        sign_in_limit;       /* of lines about sign-ins that were refused: anyone can cause them */
    struct asking *asking;   /* current round for /ready and /metrics, if any; other_api.c */
    struct err not_ready;    /* last logged reason; code 0 = it was ready */
    uint64_t ready_until_ns; /* until then /ready answers without asking */
    struct err blocked; /* why no sandbox could start at the last check; code 0 = none blocked */
    int64_t started_us;
    bool stopping;
};

static inline struct server *server_of(const struct http_req *req)
{
    return req->server_user;
}

/* --- access.c: what a principal may request --- */

/* Whether the role of the principal is enough for the route, and its tenant within its rate; false
 * when it has replied. */
bool access_check(struct http_req *req);

/* --- reply.c: answers, at once or later --- */

void reply_fail(struct http_req *req, const struct api_fail *f);
/* Replies with the JSON body, or with 500 when `written`, the result of making it, is negative. */
void reply_json(struct http_req *req, int status, struct buf *body, int written);

/* The sandbox that the path names. NULL: there is none, and 404 was replied. */
struct sandbox *require_sandbox(struct http_req *req);

/* A request that waits for an operation. Freed when both the request and the operation have
 * ended. */
struct pending {
    struct http_req *req; /* NULL once the client left or was answered */
    struct server *server;
    bool working;
    void (*finish)(struct pending *p); /* frees the struct that contains it; NULL: free(p) */
};

/* Sets req->ops and req->user. The operation counts as running. */
void pending_init(struct pending *p, struct http_req *req, void (*finish)(struct pending *p));
/* The on_close that pending_init sets, for a request with further ops. */
void pending_on_close(struct http_req *req, int error);
/* The operation has ended. */
void pending_end(struct pending *p);

/* --- routes.c, forward.c: what another server holds --- */

/* The handler of every row: forwards what another server holds, else calls handle_here(). */
void handle_anywhere(struct http_req *req);
void handle_here(struct http_req *req); /* the row's own handler */
/* Of the body of a create: the snapshot that it names. False: none, or none that can be. */
bool create_snapshot_id(struct str body, char id[ID_UUID_MAX]);

/* shared.c: of a request about what other servers of a cluster make, too. True: it calls
 * handle_here() once this one knows of it. */
bool shared_wait(struct http_req *req);

/* Starts to forward; s->cluster is there. */
int forwarding_new(struct server *s, struct err *e);
void forwarding_free(struct forwarding *f); /* after the server of the requests; NULL is fine */
/* For on_request, of one with CLUSTER_HEADER: false when it was refused. Sets its id and its
 * principal. */
bool forwarding_admit(struct http_req *req);
/* The client of a peer, and the header that a request to it needs; false when out of memory. */
struct http_client *forwarding_client(struct forwarding *f);
bool forwarding_sign(struct http_req *req, struct str to, struct str method, struct str target,
                     struct http_header *ret);

/* --- others_api.c: lists over all servers --- */

void others_list(struct http_req *req, const struct api_list_query *q);
/* Deletes those of other servers that the query asks for, at most `max`: `one` is called for each,
 * NULL = deleted, then `done` once; both later. For a request that waits, and has parsed the query
 * before. */
struct others_delete {
    void (*one)(void *user, const char *id, const struct api_fail *fail);
    void (*done)(void *user, const struct api_fail *fail);
    void *user;
};
void others_delete(struct http_req *req, size_t max, const struct others_delete *then);
/* --- others_events.c: events of all servers --- */

/* Follows what the other servers tell; s->forwarding is there. */
void others_events_start(struct server *s);
void others_events_stop(struct server *s); /* before forwarding_free(); not started is fine */

/* Whether it exists for the principal, and is one of those that the query asks for. */
bool metadata_matches(struct arena *a, struct str metadata, const struct api_list_query *q);

/* --- watch_api.c, sandboxes_api.c: shared by the handlers of sandboxes --- */

/* With an ETag. */
void reply_sandbox(struct http_req *req, int status, const struct sandbox *sb);
/* The same, as soon as it is in the state that the query waits for, or its time is up. */
void reply_sandbox_waiting(struct http_req *req, const struct sandbox *sb);
/* Whether the sandbox is of the version that If-Match names; false when 412 was replied. */
bool check_match(struct http_req *req, const struct sandbox *sb);
/* Whether it exists for the principal, and is one of those that the query asks for. */
bool sandbox_matches(struct arena *a, const struct sandbox *sb, const struct api_list_query *q,
                     const struct principal *by);

/* --- keys_api.c --- */

/* A key that was made, with its secret, so the answer is overwritten at its end. */
void reply_key(struct http_req *req, int status, const struct api_key *k, const char *secret);

/* --- auth_token_api.c: sign-in for a command line --- */

/* For GET /auth/login: the port and the challenge of its query, as the cookie keeps them, in `a`;
 * "" without them. -EBADMSG: `f` says what is wrong. */
int auth_command_line(struct http_req *req, struct arena *a, struct str *ret, struct api_fail *f);
/* Leads the browser of a user who signed in to that port, with a code. */
void auth_lead_back(struct http_req *req, const struct principal *p, struct str command_line);
/* 303, which no cache keeps. */
void auth_redirect(struct http_req *req, struct str to);

/* --- audit_api.c --- */

void audit_request(struct http_req *req, uint64_t ns); /* a request is over */
/* Egress control decided something. */
void audit_decision(struct server *s, const struct runtime_decision *decision);

/* --- other_api.c --- */

void server_metrics_due(void *user); /* telemetry_parts.on_metrics_due; user is the server */

/* --- request_log.c: a line per request; the rate of failures is limited --- */

void request_log_write(struct http_req *req, int error); /* for on_done */
void request_log_done(struct server *s); /* reports left-out lines; stops the timer */

/* --- auth_api.c: who signed in --- */

/* What the console sends with each request that its cookie should count for. */
#define AUTH_CONSOLE_HEADER "X-OpenSandbox-Console"

/* The principal of the request's cookie; NULL = none. Valid during the current loop turn. */
const struct principal *auth_session(const struct server *s, const struct http_req *req);
/* The same, or that of its access token; when that is refused, `why` says it. */
const struct principal *auth_principal(const struct server *s, struct http_req *req,
                                       struct err *why);

/* --- handlers, by file --- */

/* sandboxes_api.c */
void handle_sandboxes_post(struct http_req *req);
void handle_sandboxes_get(struct http_req *req);
void handle_sandbox_get(struct http_req *req);
void handle_sandbox_delete(struct http_req *req);
void handle_sandbox_patch(struct http_req *req);
void handle_sandbox_pause(struct http_req *req);
void handle_sandbox_resume(struct http_req *req);
void handle_sandbox_stop(struct http_req *req);
void handle_sandbox_start(struct http_req *req);
void handle_sandbox_rollback(struct http_req *req);
void handle_sandbox_renew(struct http_req *req);
/* endpoints_api.c */
void handle_endpoint_get(struct http_req *req);
/* console_api.c */
void handle_console_get(struct http_req *req);
void handle_preview_post(struct http_req *req);
/* diagnostics_api.c */
void handle_diagnostics_logs(struct http_req *req);
void handle_diagnostics_events(struct http_req *req);
void handle_diagnostics_inspect(struct http_req *req);
void handle_diagnostics_summary(struct http_req *req);
/* forks_api.c */
void handle_sandbox_fork(struct http_req *req);
/* snapshots_api.c */
void handle_snapshots_post(struct http_req *req);
void handle_snapshots_get(struct http_req *req);
void handle_snapshot_get(struct http_req *req);
void handle_snapshot_delete(struct http_req *req);
/* images_api.c, images_pull_api.c, images_import_api.c */
void handle_images_get(struct http_req *req);
void handle_image_get(struct http_req *req);
void handle_image_delete(struct http_req *req);
void handle_images_prune(struct http_req *req);
void handle_image_export(struct http_req *req);
void handle_images_pull(struct http_req *req);
void handle_images_import(struct http_req *req);
/* volumes_api.c */
void handle_volumes_get(struct http_req *req);
void handle_volumes_post(struct http_req *req);
void handle_volume_get(struct http_req *req);
void handle_volume_delete(struct http_req *req);
/* watch_api.c */
void handle_sandboxes_delete(struct http_req *req);
/* auth_api.c */
void handle_auth_session_get(struct http_req *req);
void handle_auth_login_get(struct http_req *req);
void handle_auth_callback_get(struct http_req *req);
void handle_auth_logout_post(struct http_req *req);
/* auth_token_api.c */
void handle_auth_token_post(struct http_req *req);
/* audit_api.c */
void handle_audit_get(struct http_req *req);
/* events_api.c */
void handle_events_get(struct http_req *req);
/* tenants_api.c */
void handle_whoami_get(struct http_req *req);
void handle_tenants_get(struct http_req *req);
void handle_tenants_post(struct http_req *req);
void handle_tenant_get(struct http_req *req);
void handle_tenant_patch(struct http_req *req);
void handle_tenant_delete(struct http_req *req);
/* keys_api.c */
void handle_keys_get(struct http_req *req);
void handle_keys_post(struct http_req *req);
void handle_key_get(struct http_req *req);
void handle_key_delete(struct http_req *req);
void handle_key_rotate(struct http_req *req);
/* pools_api.c */
void handle_pools_post(struct http_req *req);
void handle_pools_get(struct http_req *req);
void handle_pool_get(struct http_req *req);
void handle_pool_put(struct http_req *req);
void handle_pool_delete(struct http_req *req);
/* other_api.c */
void handle_health_get(struct http_req *req);
void handle_ready_get(struct http_req *req);
void handle_version_get(struct http_req *req);
void handle_metrics_get(struct http_req *req);
void handle_events_post(struct http_req *req);
void handle_openapi_get(struct http_req *req);
void handle_docs_get(struct http_req *req);
void handle_root_get(struct http_req *req);
