/* pool.c - pools of sandboxes made ahead. */
#include <errno.h>

#include "api/request.h"
#include "sdk.h"

enum { TEMPLATE_ARENA_BYTES_MAX = 64 << 20 };

struct osb_pool {
    struct view v;
};

size_t osb_pool_count(const struct osb_answer *answer)
{
    return answer->view_count;
}

const struct osb_pool *osb_pool_at(const struct osb_answer *answer, size_t index)
{
    return (const struct osb_pool *)view_at(answer, index);
}

static struct view status_of(const struct osb_pool *pool)
{
    return (struct view){json_get(pool->v.json, STR("status")), pool->v.answer};
}

const char *osb_pool_name(const struct osb_pool *pool)
{
    return view_text(&pool->v, "name");
}

int64_t osb_pool_total(const struct osb_pool *pool)
{
    struct view status = status_of(pool);

    return view_int(&status, "total", 0);
}

int64_t osb_pool_allocated(const struct osb_pool *pool)
{
    struct view status = status_of(pool);

    return view_int(&status, "allocated", 0);
}

int64_t osb_pool_available(const struct osb_pool *pool)
{
    struct view status = status_of(pool);

    return view_int(&status, "available", 0);
}

const char *osb_pool_message(const struct osb_pool *pool)
{
    struct view status = status_of(pool);

    return view_text(&status, "message");
}

const char *osb_pool_json(const struct osb_pool *pool)
{
    return view_json(&pool->v);
}

/* --- requests --- */

static void target_pool(struct target *t, const char *name)
{
    target_init(t, "/pools/");
    target_segment(t, name);
}

static struct api_capacity capacity_of(const struct osb_capacity *c)
{
    return (struct api_capacity){.buffer_max = c->buffer_max,
                                 .buffer_min = c->buffer_min,
                                 .pool_max = c->pool_max,
                                 .pool_min = c->pool_min};
}

/* {"a":1} and a member more. The document belongs to the arena, and so does the member. */
static int add_text(struct arena *a, struct json *object, const char *key, const char *text)
{
    struct json *node = arena_new(a, struct json), **end = &object->first;

    if (!node)
        return -ENOMEM;
    node->type = JSON_STRING;
    node->key = str_of(key);
    node->string = str_of(text);
    while (*end)
        end = &(*end)->next;
    *end = node;
    object->count++;
    return 0;
}

static int make_template(struct osb_client *c, const struct osb_pool_create *o, struct arena *a,
                         const struct json **ret)
{
    struct json_limits limits = {.text_bytes_max = SDK_REQUEST_BYTES_MAX};
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct json *tree;
    struct str text;
    struct err e;
    int r = 0;

    if (!o->sandbox == !o->template_json)
        return fail(c, EINVAL, "a pool wants either sandbox or template_json");
    if (o->sandbox) {
        OPTIONS_COPY(struct osb_create, create, o->sandbox);

        create.timeout_s = -1; /* what is claimed has the lifetime of the claim */
        r = create_write(c, &create, a, &body);
    }
    if (r < 0)
        return r;
    text = arena_str(a, o->sandbox ? buf_str(&body) : str_of(o->template_json));
    if (!text.p)
        return fail(c, ENOMEM, "the template is too large");
    if (json_parse(a, text, &limits, &tree, &e) < 0)
        return fail(c, EINVAL, "template_json: %s", e.msg);
    if (tree->type != JSON_OBJECT)
        return fail(c, EINVAL, "template_json: expected an object");
    if (o->warm_up && add_text(a, tree, "warmUp", o->warm_up) < 0)
        return fail(c, ENOMEM, "the template is too large");
    *ret = tree;
    return 0;
}

int osb_pool_create(struct osb_client *client, const struct osb_pool_create *create,
                    struct osb_answer **ret_answer)
{
    OPTIONS_COPY(struct osb_pool_create, o, create);
    struct api_pool pool = {.name = str_or_empty(o.name), .capacity = capacity_of(&o.capacity)};
    AUTO_ARENA(arena, TEMPLATE_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct target t;
    struct simple s = {&client->server, HTTP_POST, &t, &body, 0};
    int r = make_template(client, &o, &arena, &pool.template);

    if (r < 0)
        return r;
    s.body_error = api_pool_write(&body, &pool, true);
    target_init(&t, "/pools");
    return view_call(client, &s, ret_answer);
}

int osb_pool_get(struct osb_client *client, const char *name, struct osb_answer **ret_answer)
{
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_pool(&t, name);
    return view_call(client, &s, ret_answer);
}

int osb_pool_list(struct osb_client *client, struct osb_answer **ret_answer)
{
    struct target t;
    struct simple s = {&client->server, HTTP_GET, &t, NULL, 0};

    target_init(&t, "/pools");
    return view_call(client, &s, ret_answer);
}

int osb_pool_resize(struct osb_client *client, const char *name,
                    const struct osb_capacity *capacity, struct osb_answer **ret_answer)
{
    struct api_pool pool = {.capacity = capacity_of(capacity)};
    AUTO_BUF(body, 1024);
    struct target t;
    struct simple s = {&client->server, HTTP_PUT, &t, &body, api_pool_write(&body, &pool, false)};

    target_pool(&t, name);
    return view_call(client, &s, ret_answer);
}

int osb_pool_delete(struct osb_client *client, const char *name)
{
    struct target t;
    struct simple s = {&client->server, HTTP_DELETE, &t, NULL, 0};

    target_pool(&t, name);
    return simple_call(client, &s, NULL);
}
