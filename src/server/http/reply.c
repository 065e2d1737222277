/* reply.c - answers, at once or later. */
#include <errno.h>

#include "base/mem.h"
#include "server/http/server_internal.h"

void reply_fail(struct http_req *req, const struct api_fail *f)
{
    http_reply_error(req, f->status, runtime_code(server_of(req)->runtime, f->code), "%s",
                     f->message);
}

void reply_json(struct http_req *req, int status, struct buf *body, int written)
{
    if (written < 0)
        http_reply_error(req, 500, "GENERAL::UNKNOWN_ERROR", "the answer is too large");
    else
        http_reply(req, status, STR("application/json"), buf_str(body));
}

struct sandbox *require_sandbox(struct http_req *req)
{
    struct str id = http_req_param(req, "sandboxId");
    struct sandbox *sb = sandboxes_find(server_of(req)->sandboxes, id);

    if (sb && !principal_sees_sandbox(guard_principal(req), sb->owner.tenant, sb->id))
        sb = NULL; /* what is another tenant's does not exist */
    if (!sb)
        http_reply_error(req, 404,
                         runtime_code(server_of(req)->runtime, "DOCKER::SANDBOX_NOT_FOUND"),
                         "there is no sandbox '%.*s'", STR_ARG(id));
    return sb;
}

static void pending_release(struct pending *p)
{
    if (p->req || p->working)
        return;
    if (p->finish)
        p->finish(p);
    else
        free(p);
}

void pending_on_close(struct http_req *req, int error UNUSED)
{
    struct pending *p = req->user;

    p->req = NULL;
    pending_release(p);
}

static const struct http_req_ops pending_ops = {.on_close = pending_on_close};

void pending_init(struct pending *p, struct http_req *req, void (*finish)(struct pending *p))
{
    *p = (struct pending){req, server_of(req), true, finish};
    req->ops = &pending_ops;
    req->user = p;
}

void pending_end(struct pending *p)
{
    p->working = false;
    pending_release(p);
}
