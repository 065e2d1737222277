/* tenants_api.c - the routes of tenants, and who a client is. */
#include <errno.h>
#include <stdio.h>

#include "api/body.h"
#include "api/metadata.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "server/http/server_internal.h"
#include "server/oidc/claims.h"

enum { TENANT_JSON_MAX = 1 << 20, BODY_ARENA_MAX = 1 << 20 };

/* --- quotas --- */

struct quota_row {
    const char *name;
    bool text; /* an amount with a unit */
    int64_t max;
};
static const struct quota_row quota_rows[QUOTA_KINDS] = {
    [QUOTA_SANDBOXES] = {"sandboxes",         false, 100 * 1000},
    [QUOTA_CPU] = {"cpu",               true,  0         },
    [QUOTA_MEMORY] = {"memory",            true,  0         },
    [QUOTA_DISK] = {"disk",              true,  0         },
    [QUOTA_CREATES] = {"createsPerMinute",  false, 10 * 1000 },
    [QUOTA_RATE] = {"requestsPerSecond", false, 100 * 1000},
};

static int parse_amount(enum quota_kind kind, struct str text, int64_t *ret)
{
    uint64_t bytes = 0;
    uint32_t millicores = 0;
    int r;

    if (kind == QUOTA_CPU) {
        r = api_millicores_parse(text, &millicores);
        *ret = millicores;
        return r;
    }
    r = api_bytes_parse(text, &bytes);
    if (bytes > INT64_MAX)
        return -ERANGE;
    *ret = (int64_t)bytes;
    return r;
}

static int parse_limit(enum quota_kind kind, const struct json *v, int64_t *ret, struct api_fail *f)
{
    const struct quota_row *row = &quota_rows[kind];
    struct str text;

    if (v->type == JSON_NULL) {
        *ret = -1;
        return 0;
    }
    if (row->text && json_to_str(v, &text) == 0 && parse_amount(kind, text, ret) == 0)
        return 0;
    if (row->text)
        return api_fail_invalid(f, "quota.%s: expected text like %s, or null", row->name,
                                kind == QUOTA_CPU ? "'16' or '500m'" : "'64Gi'");
    if (json_to_i64(v, ret) == 0 && *ret >= (kind == QUOTA_RATE) && *ret <= row->max)
        return 0;
    return api_fail_invalid(f, "quota.%s: expected an integer from %d to %lld, or null", row->name,
                            kind == QUOTA_RATE, (long long)row->max);
}

static int parse_quota(const struct json *v, struct quota *ret, unsigned *ret_given,
                       struct api_fail *f)
{
    *ret = quota_none;
    *ret_given = 0;
    if (!v)
        return 0;
    if (v->type != JSON_OBJECT)
        return api_fail_invalid(f, "quota: expected an object, got %s", json_type_name(v));
    for (size_t i = 0; i < QUOTA_KINDS; i++) {
        const struct json *limit = json_get(v, str_of(quota_rows[i].name));

        if (!limit)
            continue;
        if (parse_limit((enum quota_kind)i, limit, &ret->at[i], f) < 0)
            return -EBADMSG;
        *ret_given |= 1U << i;
    }
    json_each(member, v)
    {
        bool known = false;

        for (size_t i = 0; i < QUOTA_KINDS; i++)
            known |= str_eq(member->key, str_of(quota_rows[i].name));
        if (!known)
            return api_fail_invalid(f,
                                    "quota.%s: unknown; there are sandboxes, cpu, memory, disk, "
                                    "createsPerMinute and requestsPerSecond",
                                    api_show(member->key).text);
    }
    return 0;
}

static void write_quota(struct json_writer *w, const struct quota *quota)
{
    char text[32];

    json_write_key(w, STR("quota"));
    json_write_object(w);
    for (size_t i = 0; i < QUOTA_KINDS; i++) {
        if (quota->at[i] < 0)
            continue;
        (void)snprintf(text, sizeof(text), i == QUOTA_CPU ? "%lldm" : "%lld",
                       (long long)quota->at[i]);
        if (quota_rows[i].text)
            json_member_string(w, str_of(quota_rows[i].name), str_of(text));
        else
            json_member_i64(w, str_of(quota_rows[i].name), quota->at[i]);
    }
    json_write_object_end(w);
}

/* --- answers --- */

static void write_tenant(struct json_writer *w, const struct tenant *t)
{
    json_write_object(w);
    json_member_string(w, STR("name"), str_of(t->name));
    json_member_time(w, STR("createdAt"), t->created_us);
    write_quota(w, &t->quota);
    json_write_key(w, STR("usage"));
    json_write_object(w);
    json_member_u64(w, STR("sandboxes"), t->usage.sandboxes);
    json_member_u64(w, STR("cpuMillicores"), t->usage.cpu_millicores);
    json_member_u64(w, STR("memoryBytes"), t->usage.memory_bytes);
    json_member_u64(w, STR("diskBytes"), t->usage.disk_bytes);
    json_write_object_end(w);
    json_write_object_end(w);
}

static void reply_tenant(struct http_req *req, int status, const struct tenant *t)
{
    AUTO_BUF(body, TENANT_JSON_MAX);
    struct json_writer w;

    json_write_begin(&w, &body);
    write_tenant(&w, t);
    reply_json(req, status, &body, json_write_end(&w));
}

void handle_tenants_get(struct http_req *req)
{
    const struct principal *by = guard_principal(req);
    AUTO_BUF(body, TENANT_JSON_MAX);
    struct json_writer w;
    struct tenant *t;
    size_t at = 0;

    json_write_begin(&w, &body);
    json_write_object(&w);
    json_write_key(&w, STR("items"));
    json_write_array(&w);
    while ((t = tenants_next(server_of(req)->tenants, &at)))
        if (principal_sees(by, t->name))
            write_tenant(&w, t);
    json_write_array_end(&w);
    json_write_object_end(&w);
    reply_json(req, 200, &body, json_write_end(&w));
}

void handle_tenant_get(struct http_req *req)
{
    struct str name = http_req_param(req, "tenantName");
    const struct tenant *t = tenants_find(server_of(req)->tenants, name);

    if (t && principal_sees(guard_principal(req), t->name))
        reply_tenant(req, 200, t);
    else
        http_reply_error(req, 404, "TENANT::NOT_FOUND", "there is no tenant '%s'",
                         api_show(name).text);
}

/* --- changes --- */

struct tenant_request {
    struct pending pending;
    int status;
};

static void on_changed(void *user, const struct tenant *t, const struct api_fail *fail)
{
    struct tenant_request *r = user;
    struct http_req *req = r->pending.req;

    if (req && fail)
        reply_fail(req, fail);
    else if (req && r->status == 204)
        http_reply(req, 204, STR_NONE, STR_NONE);
    else if (req && t)
        reply_tenant(req, r->status, t);
    else if (req)
        http_reply_error(req, 404, "TENANT::NOT_FOUND", "the tenant is gone");
    pending_end(&r->pending);
}

static struct tenant_request *request_new(struct http_req *req, int status)
{
    struct tenant_request *r = mem_new(struct tenant_request);

    pending_init(&r->pending, req, NULL);
    r->status = status;
    return r;
}

/* No "--": volume_names.h. */
static bool is_tenant_name(struct str name)
{
    return api_is_name(name, TENANT_NAME_MAX) && str_find_str(name, STR("--")) == name.n;
}

static int parse_body(struct http_req *req, struct arena *a, struct json **ret, struct api_fail *f)
{
    if (api_body_parse(a, http_req_header(req, STR("Content-Type")), req->body, ret, f) < 0)
        return -EBADMSG;
    if ((*ret)->type != JSON_OBJECT)
        return api_fail_invalid(f, "body: expected an object, got %s", json_type_name(*ret));
    return 0;
}

void handle_tenants_post(struct http_req *req)
{
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct api_fail f = {0};
    struct json *body;
    struct quota quota;
    struct str name;
    unsigned given;

    if (parse_body(req, &arena, &body, &f) < 0)
        reply_fail(req, &f);
    else if (json_to_str(json_get(body, STR("name")), &name) < 0 || !is_tenant_name(name))
        http_reply_error(req, 400, API_INVALID_PARAMETER,
                         "name: expected 1 to %d lower-case letters, digits or single inner '-'",
                         TENANT_NAME_MAX);
    else if (parse_quota(json_get(body, STR("quota")), &quota, &given, &f) < 0)
        reply_fail(req, &f);
    else
        tenant_create(server_of(req)->tenants, guard_principal(req), name, &quota, on_changed,
                      request_new(req, 201));
}

void handle_tenant_patch(struct http_req *req)
{
    AUTO_ARENA(arena, BODY_ARENA_MAX);
    struct api_fail f = {0};
    struct json *body;
    struct quota quota;
    unsigned given;

    if (parse_body(req, &arena, &body, &f) < 0 ||
        parse_quota(json_get(body, STR("quota")), &quota, &given, &f) < 0)
        reply_fail(req, &f);
    else if (!given)
        http_reply_error(req, 400, API_INVALID_PARAMETER,
                         "quota: required, an object with the limits to change");
    else
        tenant_update(server_of(req)->tenants, http_req_param(req, "tenantName"), &quota, given,
                      on_changed, request_new(req, 200));
}

struct in_use {
    const char *name;
    bool found;
};

static void look_at_pool(void *user, const struct pool_view *view)
{
    struct in_use *u = user;

    u->found |= str_eq(view->tenant, str_of(u->name));
}

/* What tenants.h does not count: pools and snapshots. */
static bool is_in_use(void *user, const char *name)
{
    struct server *s = ((struct tenant_request *)user)->pending.server;
    struct in_use u = {name, false};

    if (s->pools)
        pools_each(s->pools, look_at_pool, &u);
    for (struct snapshot *at = snapshots_newest(s->snapshots); at && !u.found;
         at = snapshots_older(s->snapshots, at))
        u.found = strcmp(at->tenant, name) == 0;
    return u.found;
}

void handle_tenant_delete(struct http_req *req)
{
    tenant_delete(server_of(req)->tenants, http_req_param(req, "tenantName"), is_in_use, on_changed,
                  request_new(req, 204));
}

/* --- who a client is --- */

static const char *authentication(const struct server *s, const struct principal *p)
{
    if (str_starts(str_of(p->key_id), STR(CLAIMS_PRINCIPAL)))
        return "oidc";
    if (p->user[0])
        return "api_key_and_user";
    return strcmp(p->key_id, principal_anyone.key_id) == 0 && s->guard.key_count == 0 ? "none"
                                                                                      : "api_key";
}

void handle_whoami_get(struct http_req *req)
{
    struct server *s = server_of(req);
    const struct principal *p = guard_principal(req);
    struct str id = str_of(p->key_id);
    const struct api_key *key = NULL;
    AUTO_BUF(body, TENANT_JSON_MAX);
    struct json_writer w;

    if (str_starts(id, STR("key:")))
        key = keys_find(s->tenants, str_skip(id, STR("key:").n));
    json_write_begin(&w, &body);
    json_write_object(&w);
    json_member_string(&w, STR("principal"), id);
    if (key)
        json_member_string(&w, STR("name"), str_of(key->name));
    if (p->user[0])
        json_member_string(&w, STR("user"), str_of(p->user));
    json_member_string(&w, STR("tenant"), str_of(p->tenant));
    json_member_bool(&w, STR("allTenants"), p->everywhere);
    json_member_string(&w, STR("role"), str_of(principal_role_name(p->role)));
    if (p->sandbox[0])
        json_member_string(&w, STR("sandboxId"), str_of(p->sandbox));
    if (key && key->expires_us)
        json_member_time(&w, STR("expiresAt"), key->expires_us);
    json_member_string(&w, STR("authentication"), str_of(authentication(s, p)));
    json_write_object_end(&w);
    reply_json(req, 200, &body, json_write_end(&w));
}
