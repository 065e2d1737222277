/* pools_api.c - the routes below /pools: the server's own pools, or those of a runtime that has its
 * own. */
#include <errno.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "server/http/server_internal.h"

enum { POOL_JSON_MAX = 4 << 20 };

/* False: this runtime has no pools, and that was replied. */
static bool have_pools(struct http_req *req)
{
    if (server_of(req)->pools)
        return true;
    http_reply_error(req, 501, "KUBERNETES::POOL_NOT_SUPPORTED",
                     "pools need another runtime; this server has the %s runtime",
                     server_of(req)->runtime->name);
    return false;
}

/* The pool that the path names. False: there is none, and 404 was replied. */
static bool require_pool(struct http_req *req, struct pool_view *ret)
{
    struct str name = http_req_param(req, "poolName");

    if (pools_view(server_of(req)->pools, name, ret) &&
        principal_sees(guard_principal(req), ret->tenant.p))
        return true;
    http_reply_error(req, 404, "KUBERNETES::POOL_NOT_FOUND", "there is no pool '%s'",
                     api_show(name).text);
    return false;
}

struct pool_sum {
    const char *tenant;
    struct str except;
    int64_t sum;
};

static void add_pool(void *user, const struct pool_view *view)
{
    struct pool_sum *s = user;

    if (str_eq(view->tenant, str_of(s->tenant)) && !str_eq(view->name, s->except))
        s->sum += view->capacity.pool_max;
}

/* Sandboxes that wait in pools do not count by themselves, so what pools may have is bounded by the
 * quota. False when that was replied. */
static bool quota_allows(struct http_req *req, const char *tenant, struct str except,
                         int64_t pool_max)
{
    const struct tenant *t = tenants_find(server_of(req)->tenants, str_of(tenant));
    struct pool_sum s = {tenant, except, pool_max};

    pools_each(server_of(req)->pools, add_pool, &s);
    if (!t || t->quota.at[QUOTA_SANDBOXES] < 0 || s.sum <= t->quota.at[QUOTA_SANDBOXES])
        return true;
    http_reply_error(req, 403, "QUOTA_EXCEEDED",
                     "capacitySpec.poolMax: pools of tenant '%s' would have up to %lld sandboxes, "
                     "and its quota is %lld",
                     tenant, (long long)s.sum, (long long)t->quota.at[QUOTA_SANDBOXES]);
    return false;
}

static void write_pool(struct json_writer *w, const struct pool_view *v)
{
    json_write_object(w);
    json_member_string(w, STR("name"), v->name);
    json_write_key(w, STR("capacitySpec"));
    json_write_object(w);
    json_member_i64(w, STR("bufferMax"), v->capacity.buffer_max);
    json_member_i64(w, STR("bufferMin"), v->capacity.buffer_min);
    json_member_i64(w, STR("poolMax"), v->capacity.pool_max);
    json_member_i64(w, STR("poolMin"), v->capacity.pool_min);
    json_write_object_end(w);
    json_write_key(w, STR("status"));
    json_write_object(w);
    json_member_u64(w, STR("total"), v->total);
    json_member_u64(w, STR("allocated"), v->allocated);
    json_member_u64(w, STR("available"), v->available);
    json_member_string(w, STR("revision"), v->revision);
    if (v->message.n)
        json_member_string(w, STR("message"), v->message);
    json_write_object_end(w);
    json_member_time(w, STR("createdAt"), v->created_us);
    json_write_object_end(w);
}

/* --- pools of the runtime --- */

static bool runtime_has_pools(struct http_req *req)
{
    return runtime_can(server_of(req)->runtime, RUNTIME_CAN_OWN_POOLS);
}

struct runtime_call {
    struct pending pending;
    struct pool_job job;
    enum runtime_pool_verb verb;
    int status; /* of a success */
    struct arena arena;
    struct api_pool pool;
    struct json_writer w;
    struct buf body;
    struct api_fail fail;
    int written;
};

static void write_runtime_pool(void *user, const struct runtime_pool *p)
{
    struct json_writer *w = user;

    json_write_object(w);
    json_member_string(w, STR("name"), p->name);
    json_write_key(w, STR("capacitySpec"));
    json_write_object(w);
    json_member_i64(w, STR("bufferMax"), p->capacity.buffer_max);
    json_member_i64(w, STR("bufferMin"), p->capacity.buffer_min);
    json_member_i64(w, STR("poolMax"), p->capacity.pool_max);
    json_member_i64(w, STR("poolMin"), p->capacity.pool_min);
    json_write_object_end(w);
    if (p->has_status) {
        json_write_key(w, STR("status"));
        json_write_object(w);
        json_member_i64(w, STR("total"), p->total);
        json_member_i64(w, STR("allocated"), p->allocated);
        json_member_i64(w, STR("available"), p->available);
        json_member_string(w, STR("revision"), p->revision);
        json_write_object_end(w);
    }
    json_member_time(w, STR("createdAt"), p->created_us);
    json_write_object_end(w);
}

static void runtime_call_free(struct pending *p)
{
    struct runtime_call *c = container_of(p, struct runtime_call, pending);

    buf_done(&c->body);
    arena_done(&c->arena);
    free(c);
}

static void runtime_call_work(struct pool_job *job)
{
    struct runtime_call *c = container_of(job, struct runtime_call, job);
    struct runtime *rt = c->pending.server->runtime;
    bool list = c->verb == RUNTIME_POOL_LIST;
    int r;

    json_write_begin(&c->w, &c->body);
    if (list) {
        json_write_object(&c->w);
        json_write_key(&c->w, STR("items"));
        json_write_array(&c->w);
    }
    r = rt->ops->pools(rt, c->verb, &c->pool, write_runtime_pool, &c->w, &c->fail);
    if (list) {
        json_write_array_end(&c->w);
        json_write_object_end(&c->w);
    }
    if (r >= 0 && c->verb != RUNTIME_POOL_DELETE)
        c->written = json_write_end(&c->w);
}

static void runtime_call_done(struct pool_job *job, int error)
{
    struct runtime_call *c = container_of(job, struct runtime_call, job);
    struct http_req *req = c->pending.req;

    if (error)
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE",
                           "the server is too busy, try again");
    if (req && c->fail.status)
        reply_fail(req, &c->fail);
    else if (req && c->status == 204)
        http_reply(req, 204, STR_NONE, STR_NONE);
    else if (req)
        reply_json(req, c->status, &c->body, c->written);
    pending_end(&c->pending);
}

/* `pool` may be NULL: then the name is that of the path, if any. Its template is copied. */
static void call_runtime(struct http_req *req, enum runtime_pool_verb verb,
                         const struct api_pool *pool, int status)
{
    struct server *s = server_of(req);
    struct runtime_call *c = mem_new(struct runtime_call);
    AUTO_BUF(text, POOL_JSON_MAX);
    struct json_writer w;
    struct json *copy = NULL;
    int r = 0;

    pending_init(&c->pending, req, runtime_call_free);
    arena_init(&c->arena, 4 * POOL_JSON_MAX);
    buf_init(&c->body, POOL_JSON_MAX);
    c->verb = verb;
    c->status = status;
    if (pool)
        c->pool.capacity = pool->capacity;
    c->pool.name =
        arena_str(&c->arena, pool && pool->name.n ? pool->name : http_req_param(req, "poolName"));
    if (pool && pool->template) {
        json_write_begin(&w, &text);
        json_write_value(&w, pool->template);
        r = json_write_end(&w);
        if (r == 0)
            r = json_parse(&c->arena, buf_str(&text), NULL, &copy, NULL);
        c->pool.template = copy;
    }
    if (r < 0 ||
        pool_submit(s->pool, &c->job, s->loop, runtime_call_work, runtime_call_done, 0) < 0)
        runtime_call_done(&c->job, EAGAIN);
}

static void reply_pool(struct http_req *req, int status, const struct pool_view *v)
{
    struct json_writer w;
    AUTO_BUF(body, POOL_JSON_MAX);

    json_write_begin(&w, &body);
    write_pool(&w, v);
    reply_json(req, status, &body, json_write_end(&w));
}

/* --- changes --- */

struct pool_request {
    struct pending pending;
    int status; /* of a success; 204 has no body */
};

static void on_changed(void *user, const struct pool_view *view, const struct api_fail *fail)
{
    struct pool_request *r = user;
    struct http_req *req = r->pending.req;

    if (req && fail)
        reply_fail(req, fail);
    else if (req && r->status == 204)
        http_reply(req, 204, STR_NONE, STR_NONE);
    else if (req && view)
        reply_pool(req, r->status, view);
    else if (req)
        http_reply_error(req, 404, "KUBERNETES::POOL_NOT_FOUND", "the pool is gone");
    pending_end(&r->pending);
}

static struct pool_request *request_new(struct http_req *req, int status)
{
    struct pool_request *r = mem_new(struct pool_request);

    pending_init(&r->pending, req, NULL);
    r->status = status;
    return r;
}

/* False: a mistake in the body was replied, or that there are no pools. */
static bool read_body(struct http_req *req, struct arena *a, bool create, struct api_pool *ret)
{
    struct api_fail f = {0};

    if (api_pool_parse(a, http_req_header(req, STR("Content-Type")), req->body, create, ret, &f) <
        0) {
        reply_fail(req, &f);
        return false;
    }
    return runtime_has_pools(req) || have_pools(req);
}

void handle_pools_post(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *by = guard_principal(req);
    struct sandbox_checks checks;
    struct api_create_host host = sandboxes_create_host(s->sandboxes, by, 0, &checks);
    AUTO_ARENA(arena, POOL_JSON_MAX);
    struct api_pool pool;

    if (!read_body(req, &arena, true, &pool))
        return;
    if (runtime_has_pools(req))
        call_runtime(req, RUNTIME_POOL_CREATE, &pool, 201);
    else if (quota_allows(req, by->tenant, STR_NONE, pool.capacity.pool_max))
        pools_create(s->pools, guard_principal(req), &pool, &host, on_changed,
                     request_new(req, 201));
}

void handle_pool_put(struct http_req *req)
{
    AUTO_ARENA(arena, POOL_JSON_MAX);
    struct pool_view view;
    struct api_pool pool;

    if (!read_body(req, &arena, false, &pool))
        return;
    if (runtime_has_pools(req))
        call_runtime(req, RUNTIME_POOL_RESIZE, &pool, 200);
    else if (require_pool(req, &view) &&
             quota_allows(req, view.tenant.p, view.name, pool.capacity.pool_max))
        pools_resize(server_of(req)->pools, http_req_param(req, "poolName"), &pool.capacity,
                     on_changed, request_new(req, 200));
}

void handle_pool_delete(struct http_req *req)
{
    struct pool_view view;

    if (runtime_has_pools(req))
        call_runtime(req, RUNTIME_POOL_DELETE, NULL, 204);
    else if (have_pools(req) && require_pool(req, &view))
        pools_delete(server_of(req)->pools, http_req_param(req, "poolName"), on_changed,
                     request_new(req, 204));
}

/* --- list and get --- */

struct pool_list {
    struct json_writer w;
    const struct principal *by;
};

static void add_item(void *user, const struct pool_view *view)
{
    struct pool_list *list = user;

    if (principal_sees(list->by, view->tenant.p))
        write_pool(&list->w, view);
}

void handle_pools_get(struct http_req *req)
{
    struct pool_list list = {.by = guard_principal(req)};
    AUTO_BUF(body, POOL_JSON_MAX);

    if (runtime_has_pools(req)) {
        call_runtime(req, RUNTIME_POOL_LIST, NULL, 200);
        return;
    }
    if (!have_pools(req))
        return;
    json_write_begin(&list.w, &body);
    json_write_object(&list.w);
    json_write_key(&list.w, STR("items"));
    json_write_array(&list.w);
    pools_each(server_of(req)->pools, add_item, &list);
    json_write_array_end(&list.w);
    json_write_object_end(&list.w);
    reply_json(req, 200, &body, json_write_end(&list.w));
}

void handle_pool_get(struct http_req *req)
{
    struct pool_view view;

    if (runtime_has_pools(req))
        call_runtime(req, RUNTIME_POOL_GET, NULL, 200);
    else if (have_pools(req) && require_pool(req, &view))
        reply_pool(req, 200, &view);
}
