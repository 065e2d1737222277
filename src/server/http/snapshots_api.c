/* snapshots_api.c - the routes of snapshots. */
#include <errno.h>

#include "base/mem.h"
#include "server/http/server_internal.h"

enum { SNAPSHOT_JSON_MAX = 64 << 10, LIST_JSON_MAX = 16 << 20 };

static void reply_snapshot(struct http_req *req, int status, const struct snapshot *s)
{
    AUTO_BUF(body, SNAPSHOT_JSON_MAX);
    struct api_snapshot view;

    snapshot_view(s, &view);
    reply_json(req, status, &body, api_snapshot_write(&body, &view));
}

/* The snapshot that the path names. NULL: there is none, and 404 was replied. */
static struct snapshot *require_snapshot(struct http_req *req)
{
    struct str id = http_req_param(req, "snapshotId");
    struct snapshot *s = snapshots_find(server_of(req)->snapshots, id);

    if (s && !s->hidden && principal_sees(guard_principal(req), s->tenant))
        return s;
    http_reply_error(req, 404, "SNAPSHOT::NOT_FOUND", "there is no snapshot '%.*s'", STR_ARG(id));
    return NULL;
}

static void on_accepted(void *user, struct snapshot *s, const struct api_fail *fail)
{
    struct pending *p = user;

    if (p->req && fail) {
        reply_fail(p->req, fail);
    } else if (p->req) {
        AUTO_BUF(location, 128);

        (void)buf_addf(&location, "/v1/snapshots/%s", s->id);
        (void)http_reply_header(p->req, STR("Location"), buf_str(&location));
        reply_snapshot(p->req, 202, s);
    }
    pending_end(p);
}

void handle_snapshots_post(struct http_req *req)
{
    struct sandbox *sb = require_sandbox(req);
    struct api_fail f = {0};
    struct api_snapshot_create body = {0};
    struct snapshot_request request = {0};
    struct pending *p;

    if (!sb)
        return;
    if (api_snapshot_create_parse(&req->arena, http_req_header(req, STR("Content-Type")), req->body,
                                  &body, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    if (sb->state != SANDBOX_RUNNING &&
        runtime_can(server_of(req)->runtime, RUNTIME_CAN_SNAPSHOT)) {
        http_reply_error(req, 409, "SNAPSHOT::INVALID_SOURCE_STATE",
                         "sandbox %s is %s; a snapshot needs one that is Running", sb->id,
                         sandbox_state_name(sb->state));
        return;
    }
    request.sandbox_id = str_of(sb->id);
    request.tenant = str_of(sb->owner.tenant);
    request.name = body.name;
    request.memory = body.memory;
    p = mem_new(struct pending);
    pending_init(p, req, NULL);
    snapshots_create(server_of(req)->snapshots, guard_principal(req), &request, on_accepted, NULL,
                     p);
}

static bool matches(const struct snapshot *s, const struct api_snapshot_query *q,
                    const struct principal *by)
{
    if (!principal_sees(by, s->tenant))
        return false;
    if ((q->states || q->unknown_state) && !(q->states & STATE_BIT(s->state)))
        return false;
    if (q->name.p && !str_eq(q->name, str_of(s->name)))
        return false;
    return q->sandbox_id.n == 0 || str_eq(q->sandbox_id, str_of(s->sandbox_id));
}

void handle_snapshots_get(struct http_req *req)
{
    struct snapshots *t = server_of(req)->snapshots;
    struct api_snapshot_query q = {0};
    struct api_fail f = {0};
    struct api_page page;
    uint64_t total = 0, first;
    AUTO_BUF(body, LIST_JSON_MAX);

    if (api_snapshot_query_parse(&req->arena, req->head.query, &q, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    first = (uint64_t)(q.page - 1) * q.page_size;
    api_page_begin(&page, &body, q.page, q.page_size);
    for (struct snapshot *s = snapshots_newest(t); s; s = snapshots_older(t, s)) {
        struct api_snapshot view;

        if (!matches(s, &q, guard_principal(req)))
            continue;
        if (total >= first && total < first + q.page_size) {
            snapshot_view(s, &view);
            api_page_add_snapshot(&page, &view);
        }
        total++;
    }
    reply_json(req, 200, &body, api_page_end(&page, total));
}

void handle_snapshot_get(struct http_req *req)
{
    struct snapshot *s = require_snapshot(req);

    if (s)
        reply_snapshot(req, 200, s);
}

static void on_deleted(void *user, struct snapshot *s UNUSED, const struct api_fail *fail)
{
    struct pending *p = user;

    if (p->req && fail)
        reply_fail(p->req, fail);
    else if (p->req)
        http_reply(p->req, 204, STR_NONE, STR_NONE);
    pending_end(p);
}

void handle_snapshot_delete(struct http_req *req)
{
    struct snapshot *s = require_snapshot(req);
    struct pending *p;

    if (!s)
        return;
    p = mem_new(struct pending);
    pending_init(p, req, NULL);
    snapshot_delete(s, guard_principal(req), on_deleted, p);
}
