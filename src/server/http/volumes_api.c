/* volumes_api.c - the routes below /volumes. A worker answers: the runtime looks at directories. */
#include <errno.h>

#include "api/named_volume.h"
#include "base/mem.h"
#include "base/url.h"
#include "server/core/volume_names.h"
#include "server/http/server_internal.h"

enum { VOLUMES_JSON_MAX = 16 << 20, BODY_ARENA_MAX = 1 << 20 };

struct query {
    struct pending pending;
    struct pool_job job;
    struct runtime *runtime;
    int (*work)(struct query *q, struct err *e);
    char name[VOLUME_NAME_MAX]; /* of the runtime */
    struct principal by;
    uint64_t skip, at, seen; /* of a list */
    uint64_t size_bytes;
    uint32_t page, page_size;
    struct api_page list;
    struct buf out;
    int status; /* of a success */
    struct api_fail fail;
};

static void query_free(struct pending *p)
{
    struct query *q = container_of(p, struct query, pending);

    buf_done(&q->out);
    free(q);
}

static void query_failed(struct query *q, const struct err *e)
{
    static const struct {
        int code, status;
        const char *text;
    } rows[] = {
        {ENOENT,  404, "VOLUME::NOT_FOUND"          },
        {EEXIST,  409, "VOLUME::ALREADY_EXISTS"     },
        {EBUSY,   409, "VOLUME::IN_USE"             },
        {ENOTSUP, 400, "VOLUME::LIMIT_NOT_SUPPORTED"},
        {EINVAL,  400, "VOLUME::INVALID_SIZE"       },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == e->code) {
            (void)api_fail_set(&q->fail, rows[i].status, rows[i].text, "%s", e->msg);
            return;
        }
    (void)api_fail_set(&q->fail, 500, "VOLUME::PVC_INSPECT_FAILED", "%s", e->msg);
}

static void query_work(struct pool_job *job)
{
    struct query *q = container_of(job, struct query, job);
    struct err e = {0};

    if (q->work(q, &e) < 0)
        query_failed(q, &e);
}

static void query_done(struct pool_job *job, int error)
{
    struct query *q = container_of(job, struct query, job);
    struct http_req *req = q->pending.req;

    if (error)
        (void)api_fail_set(&q->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    if (req && q->fail.status)
        reply_fail(req, &q->fail);
    else if (req)
        http_reply(req, q->status, q->out.n ? STR("application/json") : STR_NONE, buf_str(&q->out));
    pending_end(&q->pending);
}

static bool have_volumes(struct http_req *req)
{
    struct runtime *r = server_of(req)->runtime;

    if (runtime_can(r, RUNTIME_CAN_VOLUME_CLAIM) && r->ops->volume_list)
        return true;
    http_reply_error(req, 501, "SANDBOX::API_NOT_SUPPORTED", "this runtime keeps no named volumes");
    return false;
}

/* NULL: the request was answered. */
static struct query *query_new(struct http_req *req, int (*work)(struct query *, struct err *),
                               int status)
{
    struct str raw = http_req_param(req, "volumeName"), name = STR_NONE;
    char inside[VOLUME_NAME_MAX] = "";
    struct query *q;

    if (!have_volumes(req))
        return NULL;
    if (raw.n &&
        (url_decode_in(&req->arena, raw, 0, &name) < 0 || name.n > API_CLAIM_BYTES_MAX ||
         str_has_nul(name) || volume_name_inside(guard_principal(req), name, inside) < 0)) {
        http_reply_error(req, 404, "VOLUME::NOT_FOUND", "there is no volume '%s'",
                         api_show(raw).text);
        return NULL;
    }
    q = mem_new(struct query);
    q->runtime = server_of(req)->runtime;
    q->work = work;
    q->status = status;
    buf_init(&q->out, VOLUMES_JSON_MAX);
    memcpy(q->name, inside, sizeof(q->name));
    q->by = *guard_principal(req);
    pending_init(&q->pending, req, query_free);
    return q;
}

static void query_start(struct query *q)
{
    struct server *s = q->pending.server;

    if (pool_submit(s->pool, &q->job, s->loop, query_work, query_done, POOL_SLOW) == 0)
        return;
    http_reply_error(q->pending.req, 503, "SERVICE_UNAVAILABLE",
                     "the server is too busy, try again");
    pending_end(&q->pending);
}

static struct api_named_volume volume_view(const struct runtime_volume *v)
{
    return (struct api_named_volume){
        .name = v->name,
        .created_us = v->created_us,
        .has_limit = v->size_bytes > 0,
        .size_bytes = v->size_bytes,
        .used_is_known = v->used_is_known,
        .used_bytes = v->used_bytes,
        .used_by = v->used_by,
        .used_by_count = v->used_by_count,
    };
}

/* --- list --- */

static void list_add(void *user, const struct runtime_volume *v)
{
    struct query *q = user;
    struct api_named_volume view = volume_view(v);

    if (!volume_name_outside(&q->by, v->name, &view.name))
        return;
    if (q->at++ < q->skip || q->seen == q->page_size)
        return;
    q->seen++;
    api_page_add_named_volume(&q->list, &view);
}

static int list_work(struct query *q, struct err *e)
{
    uint64_t first = (uint64_t)(q->page - 1) * q->page_size, total = 0;
    uint32_t count = q->page_size;
    int r;

    if (!q->by.everywhere) { /* of others there may be any number in between */
        q->skip = first;
        first = 0;
        count = UINT32_MAX;
    }
    api_page_begin(&q->list, &q->out, q->page, q->page_size);
    r = q->runtime->ops->volume_list(q->runtime, first, count, list_add, q, &total, e);
    if (!q->by.everywhere)
        total = q->at;
    if (r == 0 && api_page_end(&q->list, total) < 0)
        r = err_set(e, EMSGSIZE, "the answer is too large; ask for fewer by pageSize");
    return r;
}

void handle_volumes_get(struct http_req *req)
{
    struct api_list_query page = {0};
    struct api_fail f = {0};
    struct query *q;

    if (api_list_query_parse(&req->arena, req->head.query, &page, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    q = query_new(req, list_work, 200);
    if (!q)
        return;
    q->page = page.page;
    q->page_size = page.page_size;
    query_start(q);
}

/* --- one --- */

static void get_write(void *user, const struct runtime_volume *v)
{
    struct query *q = user;
    struct api_named_volume view = volume_view(v);

    (void)volume_name_outside(&q->by, v->name, &view.name);
    if (api_named_volume_write(&q->out, &view) < 0)
        (void)api_fail_set(&q->fail, 500, "GENERAL::UNKNOWN_ERROR", "the answer is too large");
}

static int get_work(struct query *q, struct err *e)
{
    return q->runtime->ops->volume_get(q->runtime, str_of(q->name), get_write, q, e);
}

void handle_volume_get(struct http_req *req)
{
    struct query *q = query_new(req, get_work, 200);

    if (q)
        query_start(q);
}

static int create_work(struct query *q, struct err *e)
{
    int r = q->runtime->ops->volume_create(q->runtime, str_of(q->name), q->size_bytes, e);

    return r < 0 ? r : get_work(q, e);
}

void handle_volumes_post(struct http_req *req)
{
    struct api_named_volume_create create;
    struct api_fail f = {0};
    struct query *q;
    AUTO_ARENA(arena, BODY_ARENA_MAX);

    if (api_named_volume_create_parse(&arena, http_req_header(req, STR("Content-Type")), req->body,
                                      &create, &f) < 0) {
        reply_fail(req, &f);
        return;
    }
    q = query_new(req, create_work, 201);
    if (!q)
        return;
    if (volume_name_inside(&q->by, create.name, q->name) < 0) {
        http_reply_error(req, 400, "VOLUME::INVALID_PVC_NAME",
                         "name: it is too long for this tenant, or begins with 't--'");
        pending_end(&q->pending);
        return;
    }
    q->size_bytes = create.size_bytes;
    query_start(q);
}

static int delete_work(struct query *q, struct err *e)
{
    return q->runtime->ops->volume_remove(q->runtime, str_of(q->name), e);
}

void handle_volume_delete(struct http_req *req)
{
    struct query *q = query_new(req, delete_work, 204);

    if (q)
        query_start(q);
}
