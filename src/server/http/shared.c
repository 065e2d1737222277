/* shared.c - requests about what other servers of a cluster make wait until this one knows of it:
 * all about snapshots, and those that name a sandbox that is not here. */
#include "base/mem.h"
#include "server/http/routes.h"
#include "server/http/server_internal.h"
#include "server/http/tracing.h"

struct wait {
    struct http_req *req; /* NULL once the client left */
    struct str body;      /* in the request's arena */
};

static const struct http_req_ops no_ops = {0};

static void on_looked(void *user)
{
    struct wait *w = user;
    struct http_req *req = w->req;
    struct trace_context before;

    if (req) {
        req->ops = &no_ops;
        req->user = NULL;
        before = trace_enter(tracing_of(req)); /* the first handler has returned */
        req->body = w->body;
        handle_here(req);
        req->body = STR_NONE;
        (void)trace_enter(&before);
    }
    free(w);
}

/* The client left: the look goes on. */
static void on_close(struct http_req *req, int error UNUSED)
{
    ((struct wait *)req->user)->req = NULL;
}

/* Whether it is about a snapshot; id: which one, "" = all. */
static bool is_about(const struct http_req *req, char id[ID_UUID_MAX])
{
    id[0] = '\0';
    if (route_is(req, handle_snapshots_get))
        return true;
    if (route_is(req, handle_sandboxes_post))
        return create_snapshot_id(req->body, id);
    if (!route_is(req, handle_snapshot_get) && !route_is(req, handle_snapshot_delete))
        return false;
    return str_copy(id, ID_UUID_MAX, http_req_param(req, "snapshotId")) == 0 && id[0];
}

/* A sandbox that an authorized request names and this server does not know. */
static struct str unknown_sandbox(struct http_req *req)
{
    struct str id = http_req_param(req, "sandboxId");

    if (req->route->flags & ROUTE_STREAM_BODY || guard_principal(req)->role == ROLE_NONE ||
        sandboxes_find(server_of(req)->sandboxes, id))
        return STR_NONE;
    return id;
}

static struct wait *wait_new(struct http_req *req)
{
    static const struct http_req_ops ops = {.on_close = on_close};
    struct wait *w = mem_new(struct wait);

    w->req = req;
    w->body = req->body.n ? arena_str(&req->arena, req->body) : STR_NONE;
    if (req->body.n && !w->body.p) {
        free(w);
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return NULL;
    }
    req->ops = &ops;
    req->user = w;
    return w;
}

bool shared_wait(struct http_req *req)
{
    struct server *s = server_of(req);
    char snapshot[ID_UUID_MAX];
    struct str sandbox = STR_NONE;
    bool snapshots;
    struct wait *w;

    if (!runtime_can(s->runtime, RUNTIME_CAN_SHARE))
        return false;
    snapshots = s->snapshots && snapshots_shared(s->snapshots) && is_about(req, snapshot);
    if (!snapshots)
        sandbox = unknown_sandbox(req);
    if (!snapshots && !sandbox.n)
        return false;
    w = wait_new(req);
    if (w && snapshots)
        snapshots_look(s->snapshots, str_of(snapshot), on_looked, w);
    else if (w)
        sandboxes_ask(s->sandboxes, sandbox, on_looked, w);
    return true;
}
