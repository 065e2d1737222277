/* forks_api.c - the routes that make sandboxes of others. */
#include <errno.h>

#include "base/mem.h"
#include "server/core/forks.h"
#include "server/http/server_internal.h"

enum { FORK_ARENA_MAX = 4 << 20, FORK_JSON_MAX = 64 << 20 };

static int write_items(struct buf *out, struct sandbox *const *made, size_t count)
{
    int r = buf_add(out, STR("{\"items\":["));

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct api_sandbox view;

        sandbox_view(made[i], &view);
        r = i ? buf_add_char(out, ',') : 0;
        if (r == 0)
            r = api_created_write(out, &view);
    }
    return r < 0 ? r : buf_add(out, STR("]}"));
}

static void on_forked(void *user, struct sandbox *const *made, size_t count,
                      const struct api_fail *fail)
{
    struct pending *p = user;

    if (p->req && fail) {
        reply_fail(p->req, fail);
    } else if (p->req) {
        AUTO_BUF(body, FORK_JSON_MAX);

        reply_json(p->req, 202, &body, write_items(&body, made, count));
    }
    pending_end(p);
}

void handle_sandbox_fork(struct http_req *req)
{
    struct server *s = server_of(req);
    struct sandbox *sb = require_sandbox(req);
    struct api_fork fork = {0};
    struct api_fail f = {0};
    struct pending *p;
    AUTO_ARENA(arena, FORK_ARENA_MAX);

    if (!sb)
        return;
    if (api_fork_parse(&arena, http_req_header(req, STR("Content-Type")), req->body, &fork, &f) <
        0) {
        reply_fail(req, &f);
        return;
    }
    p = mem_new(struct pending);
    pending_init(p, req, NULL);
    sandbox_fork(sb, guard_principal(req), &fork, s->config->server.max_sandbox_timeout_seconds,
                 on_forked, p);
}
