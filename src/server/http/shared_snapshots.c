/* shared_snapshots.c - requests about snapshots wait until this server knows what others made. */
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

/* Whether it is about a snapshot; *ret_id: which one, "" = all. */
static bool is_about(const struct http_req *req, struct str *ret_id)
{
    *ret_id = STR("");
    if (route_is(req, handle_snapshots_get))
        return true;
    if (route_is(req, handle_sandboxes_post))
        return str_find_str(req->body, STR("\"snapshotId\"")) < req->body.n;
    if (!route_is(req, handle_snapshot_get) && !route_is(req, handle_snapshot_delete))
        return false;
    *ret_id = http_req_param(req, "snapshotId");
    return true;
}

bool shared_snapshots_wait(struct http_req *req)
{
    static const struct http_req_ops ops = {.on_close = on_close};
    struct snapshots *t = server_of(req)->snapshots;
    struct wait *w;
    struct str id;

    if (!t || !snapshots_shared(t) || !is_about(req, &id))
        return false;
    w = mem_new(struct wait);
    w->req = req;
    w->body = req->body.n ? arena_str(&req->arena, req->body) : STR_NONE;
    if (req->body.n && !w->body.p) {
        free(w);
        http_reply_error(req, 503, "SERVICE_UNAVAILABLE", "out of memory for this request");
        return true;
    }
    req->ops = &ops;
    req->user = w;
    snapshots_look(t, id, on_looked, w);
    return true;
}
