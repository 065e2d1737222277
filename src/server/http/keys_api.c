/* keys_api.c - the routes of API keys. */
#include <errno.h>

#include "api/body.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/http/server_internal.h"

enum { KEYS_JSON_MAX = 16 << 20, BODY_ARENA_MAX = 1 << 20 };

/* --- answers --- */

static void write_members(struct json_writer *w, const struct api_key *k)
{
    const struct principal *p = &k->principal;

    json_member_string(w, STR("id"), str_of(k->id));
    json_member_string(w, STR("name"), str_of(k->name));
    json_member_string(w, STR("role"), str_of(principal_role_name(p->role)));
    if (!p->everywhere)
        json_member_string(w, STR("tenant"), str_of(p->tenant));
    if (p->sandbox[0])
        json_member_string(w, STR("sandboxId"), str_of(p->sandbox));
    if (p->user[0])
        json_member_string(w, STR("user"), str_of(p->user));
    json_member_time(w, STR("createdAt"), k->created_us);
    json_member_string(w, STR("createdBy"), str_of(k->created_by));
    if (k->rotated_us)
        json_member_time(w, STR("rotatedAt"), k->rotated_us);
    if (k->expires_us)
        json_member_time(w, STR("expiresAt"), k->expires_us);
    if (k->used_us)
        json_member_time(w, STR("lastUsedAt"), k->used_us);
    json_member_bool(w, STR("builtin"), false);
}

static void write_key(struct json_writer *w, const struct api_key *k)
{
    json_write_object(w);
    write_members(w, k);
    json_write_object_end(w);
}

static void write_builtin(struct json_writer *w, const struct server *s, const struct principal *p)
{
    json_write_object(w);
    json_member_string(w, STR("id"), str_skip(str_of(p->key_id), STR("key:").n));
    json_member_string(w, STR("name"), STR("configuration"));
    json_member_string(w, STR("role"), str_of(principal_role_name(p->role)));
    json_member_time(w, STR("createdAt"), s->started_us);
    json_member_bool(w, STR("builtin"), true);
    json_write_object_end(w);
}

/* Whether it exists for the principal. Keys of all tenants are for those who see all. */
static bool sees_key(const struct principal *by, const struct api_key *k)
{
    return by->everywhere ||
           (!k->principal.everywhere && strcmp(by->tenant, k->principal.tenant) == 0);
}

void handle_keys_get(struct http_req *req)
{
    const struct server *s = server_of(req);
    const struct principal *by = guard_principal(req);
    AUTO_BUF(body, KEYS_JSON_MAX);
    struct json_writer w;
    struct api_key *k;
    size_t at = 0;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("items"));
    json_write_array(&w);
    for (size_t i = 0; by->everywhere && i < s->guard.key_count; i++)
        write_builtin(&w, s, &s->guard.principals[i]);
    while ((k = keys_next(s->tenants, &at)))
        if (sees_key(by, k))
            write_key(&w, k);
    json_write_array_end(&w);
    json_write_object_end(&w);
    reply_json(req, 200, &body, json_write_end(&w));
}

static const struct principal *find_builtin(const struct http_req *req, struct str id)
{
    const struct guard *g = &server_of(req)->guard;

    for (size_t i = 0; guard_principal(req)->everywhere && i < g->key_count; i++)
        if (str_eq(id, str_skip(str_of(g->principals[i].key_id), STR("key:").n)))
            return &g->principals[i];
    return NULL;
}

static void reply_no_key(struct http_req *req, struct str id)
{
    http_reply_error(req, 404, "KEY::NOT_FOUND", "there is no key '%s'", api_show(id).text);
}

void handle_key_get(struct http_req *req)
{
    struct str id = http_req_param(req, "keyId");
    const struct principal *builtin = find_builtin(req, id);
    const struct api_key *k = keys_find(server_of(req)->tenants, id);
    AUTO_BUF(body, KEYS_JSON_MAX);
    struct json_writer w;

    if (!builtin && (!k || !sees_key(guard_principal(req), k))) {
        reply_no_key(req, id);
        return;
    }
    json_write_begin(&w, &body);
    if (builtin)
        write_builtin(&w, server_of(req), builtin);
    else
        write_key(&w, k);
    reply_json(req, 200, &body, json_write_end(&w));
}

/* --- changes --- */

struct key_pending {
    struct pending pending;
    int status;
};

void reply_key(struct http_req *req, int status, const struct api_key *k, const char *secret)
{
    AUTO_BUF(body, KEYS_JSON_MAX);
    struct json_writer w;

    req->secret = true;
    json_write_begin(&w, &body);
    json_write_object(&w);
    write_members(&w, k);
    json_member_string(&w, STR("key"), str_of(secret));
    json_write_object_end(&w);
    reply_json(req, status, &body, json_write_end(&w));
    mem_wipe(body.p, body.n);
}

static void on_changed(void *user, const struct api_key *k, const char *secret,
                       const struct api_fail *fail)
{
    struct key_pending *p = user;
    struct http_req *req = p->pending.req;

    if (req && fail)
        reply_fail(req, fail);
    else if (req && p->status == 204)
        http_reply(req, 204, STR_NONE, STR_NONE);
    else if (req && k)
        reply_key(req, p->status, k, secret);
    else if (req)
        http_reply_error(req, 404, "KEY::NOT_FOUND", "the key is gone");
    pending_end(&p->pending);
}

static struct key_pending *pending_new(struct http_req *req, int status)
{
    struct key_pending *p = mem_new(struct key_pending);

    pending_init(&p->pending, req, NULL);
    p->status = status;
    return p;
}

/* False: there is no such key that may be changed here, and that was replied. */
static bool require_key(struct http_req *req)
{
    struct str id = http_req_param(req, "keyId");
    const struct api_key *k = keys_find(server_of(req)->tenants, id);

    if (k && sees_key(guard_principal(req), k))
        return true;
    if (find_builtin(req, id))
        http_reply_error(req, 409, "KEY::BUILTIN",
                         "key '%s' is one of the configuration; change server.api_keys there",
                         api_show(id).text);
    else
        reply_no_key(req, id);
    return false;
}

struct key_body {
    struct str name, role, tenant, sandbox;
    int64_t expires_us;
};
static const struct json_field key_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct key_body, name, .min = 1,
               .max = KEY_NAME_MAX - 1),
    JSON_FIELD("role", JSON_AS_STR, JSON_REQUIRED, struct key_body, role),
    JSON_FIELD("tenant", JSON_AS_STR, JSON_NULLABLE, struct key_body, tenant),
    JSON_FIELD("sandboxId", JSON_AS_STR, JSON_NULLABLE, struct key_body, sandbox),
    JSON_FIELD("expiresAt", JSON_AS_CUSTOM, JSON_NULLABLE, struct key_body, expires_us,
               .parse = api_parse_time),
};
static const struct json_table key_table = JSON_TABLE(struct key_body, key_fields, JSON_SNAKE);

static bool is_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return true;
}

/* Nobody makes a key that may do more than its own. */
static int check_scope(const struct principal *by, struct key_request *r, struct api_fail *f)
{
    if (!by->everywhere && r->tenant.n && !str_eq(r->tenant, str_of(by->tenant)))
        return api_fail_set(f, 404, "TENANT::NOT_FOUND", "tenant: there is no tenant '%s'",
                            api_show(r->tenant).text);
    if (!by->everywhere)
        r->tenant = str_of(by->tenant);
    if (r->role > by->role)
        return api_fail_set(f, 403, "FORBIDDEN", "role: this key has the role %s itself",
                            principal_role_name(by->role));
    return 0;
}

/* A key of one sandbox is of the sandbox's tenant. */
static int check_sandbox(struct server *s, const struct principal *by, struct key_request *r,
                         struct api_fail *f)
{
    const struct sandbox *sb;

    if (r->role != ROLE_SANDBOX)
        return r->sandbox.n ? api_fail_invalid(f, "sandboxId: only with the role sandbox") : 0;
    if (!r->sandbox.n)
        return api_fail_invalid(f, "sandboxId: required with the role sandbox");
    sb = sandboxes_find(s->sandboxes, r->sandbox);
    if (!sb || !principal_sees(by, sb->owner.tenant) ||
        (r->tenant.n && !str_eq(r->tenant, str_of(sb->owner.tenant))))
        return api_fail_set(f, 404, "DOCKER::SANDBOX_NOT_FOUND",
                            "sandboxId: there is no sandbox '%s'", api_show(r->sandbox).text);
    r->tenant = str_of(sb->owner.tenant);
    return 0;
}

static int parse_key(struct http_req *req, struct arena *a, struct key_request *ret,
                     struct api_fail *f)
{
    const struct principal *by = guard_principal(req);
    struct key_body body = {0};

    if (api_body_bind(a, http_req_header(req, STR("Content-Type")), req->body, &key_table, &body,
                      f) < 0)
        return -EBADMSG;
    *ret = (struct key_request){.name = body.name,
                                .tenant = body.tenant,
                                .sandbox = body.sandbox,
                                .expires_us = body.expires_us};
    if (!is_printable(body.name))
        return api_fail_invalid(f, "name: must not hold control characters");
    if (principal_role_parse(body.role, &ret->role) < 0)
        return api_fail_invalid(f, "role: expected read_only, operator, admin or sandbox");
    if (ret->expires_us && ret->expires_us <= time_wall_us())
        return api_fail_invalid(f, "expiresAt: must lie in the future");
    if (check_scope(by, ret, f) < 0)
        return -EBADMSG;
    return check_sandbox(server_of(req), by, ret, f);
}

void handle_keys_post(struct http_req *req)
{
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct key_request request;
    struct api_fail f = {0};

    if (parse_key(req, &arena, &request, &f) < 0)
        reply_fail(req, &f);
    else
        key_create(server_of(req)->tenants, guard_principal(req), &request, on_changed,
                   pending_new(req, 201));
}

void handle_key_delete(struct http_req *req)
{
    if (require_key(req))
        key_delete(server_of(req)->tenants, http_req_param(req, "keyId"), on_changed,
                   pending_new(req, 204));
}

struct rotate_body {
    uint32_t grace_s;
};
static const struct json_field rotate_fields[] = {
    JSON_FIELD("graceSeconds", JSON_AS_U32, JSON_NULLABLE, struct rotate_body, grace_s, .min = 0,
               .max = KEY_GRACE_S_MAX),
};
static const struct json_table rotate_table =
    JSON_TABLE(struct rotate_body, rotate_fields, JSON_SNAKE);

void handle_key_rotate(struct http_req *req)
{
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct rotate_body body = {0};
    struct api_fail f = {0};

    if (!require_key(req))
        return;
    if (req->body.n && api_body_bind(&arena, http_req_header(req, STR("Content-Type")), req->body,
                                     &rotate_table, &body, &f) < 0)
        reply_fail(req, &f);
    else
        key_rotate(server_of(req)->tenants, http_req_param(req, "keyId"), body.grace_s, on_changed,
                   pending_new(req, 200));
}
