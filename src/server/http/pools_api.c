/* pools_api.c - the routes below /pools. */
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
    return have_pools(req);
}

void handle_pools_post(struct http_req *req)
{
    struct server *s = server_of(req);
    struct api_create_host host = sandboxes_create_host(s->sandboxes, 0);
    AUTO_ARENA(arena, POOL_JSON_MAX);
    struct api_pool pool;

    if (read_body(req, &arena, true, &pool))
        pools_create(s->pools, guard_principal(req), &pool, &host, on_changed,
                     request_new(req, 201));
}

void handle_pool_put(struct http_req *req)
{
    AUTO_ARENA(arena, POOL_JSON_MAX);
    struct api_pool pool;

    if (read_body(req, &arena, false, &pool))
        pools_resize(server_of(req)->pools, http_req_param(req, "poolName"), &pool.capacity,
                     on_changed, request_new(req, 200));
}

void handle_pool_delete(struct http_req *req)
{
    if (have_pools(req))
        pools_delete(server_of(req)->pools, http_req_param(req, "poolName"), on_changed,
                     request_new(req, 204));
}

/* --- list and get --- */

static void add_item(void *user, const struct pool_view *view)
{
    write_pool(user, view);
}

void handle_pools_get(struct http_req *req)
{
    struct json_writer w;
    AUTO_BUF(body, POOL_JSON_MAX);

    if (!have_pools(req))
        return;
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("items"));
    json_write_array(&w);
    pools_each(server_of(req)->pools, add_item, &w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    reply_json(req, 200, &body, json_write_end(&w));
}

void handle_pool_get(struct http_req *req)
{
    struct str name = http_req_param(req, "poolName");
    struct pool_view view;

    if (!have_pools(req))
        return;
    if (pools_view(server_of(req)->pools, name, &view))
        reply_pool(req, 200, &view);
    else
        http_reply_error(req, 404, "KUBERNETES::POOL_NOT_FOUND", "there is no pool '%s'",
                         api_show(name).text);
}
