/* tenants_change.c - changes of tenants and keys: one at a time, in the store first. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/tenants/tenants_internal.h"

struct tenant_change {
    struct tenants *all;
    struct list link;
    struct pool_job job;
    /* On the loop, when its turn comes: checks, and fills the record. */
    int (*prepare)(struct tenant_change *c);
    int (*work)(struct tenant_change *c, struct err *e); /* on a worker */
    void (*apply)(struct tenant_change *c);              /* on the loop, after success */
    struct str kind;
    char id[TENANT_NAME_MAX + 1];
    struct buf json;
    struct principal by;
    struct api_fail fail;
    int64_t now_us;

    struct quota quota; /* of a tenant */
    unsigned given;
    bool (*in_use)(void *user, const char *name);
    tenant_done_fn *tenant_done;

    struct api_key key; /* as it will be */
    uint32_t grace_s;
    char secret[KEY_TEXT_MAX];
    key_done_fn *key_done;
    void *user;
};

static void change_end(struct tenant_change *c)
{
    struct tenants *t = c->all;
    const struct api_fail *fail = c->fail.status ? &c->fail : NULL;

    list_remove(&c->link);
    t->change_count--;
    t->changed += 2;
    if (c->tenant_done)
        c->tenant_done(c->user, tenants_find(t, str_of(c->id)), fail);
    else
        c->key_done(c->user, keys_find(t, str_of(c->key.id)), c->secret, fail);
    mem_wipe(c->secret, sizeof(c->secret));
    buf_done(&c->json);
    free(c);
}

static void change_next(struct tenants *t);

static void on_change_work(struct pool_job *job)
{
    struct tenant_change *c = container_of(job, struct tenant_change, job);
    struct err e = {0};
    int r = c->work(c, &e);

    if (r < 0)
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE", "%s", e.msg);
}

static void on_change_done(struct pool_job *job, int error)
{
    struct tenant_change *c = container_of(job, struct tenant_change, job);
    struct tenants *t = c->all;

    t->busy = false;
    if (error)
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE", "the server is stopping");
    if (!c->fail.status)
        c->apply(c);
    change_end(c);
    change_next(t);
}

static void change_next(struct tenants *t)
{
    struct list *at;

    while (!t->busy && (at = list_take(&t->changes))) {
        struct tenant_change *c = container_of(at, struct tenant_change, link);

        c->now_us = time_wall_us();
        if (c->prepare(c) == 0) {
            t->busy = pool_submit(t->conf.pool, &c->job, t->conf.loop, on_change_work,
                                  on_change_done, 0) == 0;
            if (t->busy)
                return;
            (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE",
                               "the server is too busy, try again");
        }
        change_end(c);
    }
}

static struct tenant_change *change_new(struct tenants *t, struct str kind, struct str id,
                                        void *user)
{
    struct tenant_change *c = mem_new(struct tenant_change);

    c->all = t;
    c->kind = kind;
    (void)!str_copy(c->id, sizeof(c->id), id); /* a longer one is found nowhere */
    buf_init(&c->json, TENANT_RECORD_MAX);
    c->user = user;
    list_init(&c->link);
    return c;
}

static void change_submit(struct tenant_change *c)
{
    struct tenants *t = c->all;
    if (++t->change_count > TENANT_CHANGES_MAX) {
        (void)api_fail_set(&c->fail, 503, "SERVICE_UNAVAILABLE",
                           "too many changes of tenants and keys wait, try again");
        change_end(c);
        return;
    }
    list_push(&t->changes, &c->link);
    change_next(t);
}

/* --- on workers --- */

static int insert_work(struct tenant_change *c, struct err *e)
{
    bool is_key = c->key_done != NULL;
    struct store_record record = {
        .kind = c->kind,
        .id = str_of(c->id),
        .state = RECORD_LIVE,
        .tenant = str_of(is_key ? c->key.principal.tenant : c->id),
        .owner = str_of(c->by.key_id),
        .created_us = c->now_us,
        .json = buf_str(&c->json),
    };

    return store_record_insert(c->all->conf.store, &record, e);
}

/* The tenant "default" gets its record with its first quota. */
static int update_work(struct tenant_change *c, struct err *e)
{
    int r = store_record_update(c->all->conf.store, c->kind, str_of(c->id), STR_NONE, RECORD_LIVE,
                                buf_str(&c->json), e);

    return r == 0 ? insert_work(c, e) : r;
}

static int delete_work(struct tenant_change *c, struct err *e)
{
    int r = store_record_delete(c->all->conf.store, c->kind, str_of(c->id), STR_NONE, e);

    if (r == 0 && c->tenant_done)
        (void)api_fail_set(&c->fail, 409, "TENANT::IN_USE",
                           "tenant '%s' has sandboxes at another server, or is gone", c->id);
    return r;
}

/* --- tenants --- */

static int fail_no_tenant(struct tenant_change *c)
{
    return api_fail_set(&c->fail, 404, "TENANT::NOT_FOUND", "there is no tenant '%s'", c->id);
}

static int print_quota(struct tenant_change *c)
{
    return tenant_print(&c->quota, &c->json) < 0 ? api_fail_memory(&c->fail) : 0;
}

static int create_prepare(struct tenant_change *c)
{
    if (tenants_find(c->all, str_of(c->id)))
        return api_fail_set(&c->fail, 409, "TENANT::ALREADY_EXISTS", "there is a tenant '%s'",
                            c->id);
    if (c->all->by_name.n >= TENANTS_MAX)
        return api_fail_set(&c->fail, 409, "TENANT::ALREADY_EXISTS",
                            "there are %d tenants, as many as there may be", TENANTS_MAX);
    return print_quota(c);
}

static void create_apply(struct tenant_change *c)
{
    struct tenant *tenant = tenant_add(c->all, str_of(c->id), c->now_us);

    if (!tenant)
        return; /* not possible: checked before, and changes come one by one */
    tenant_set_quota(tenant, &c->quota);
    log_event(LOG_INFO, "tenant created", LOG_STR("tenant", c->id), LOG_STR("by", c->by.key_id));
}

void tenant_create(struct tenants *t, const struct principal *by, struct str name,
                   const struct quota *quota, tenant_done_fn *done, void *user)
{
    struct tenant_change *c = change_new(t, TENANT_KIND, name, user);

    c->by = *by;
    c->quota = *quota;
    c->prepare = create_prepare;
    c->work = insert_work;
    c->apply = create_apply;
    c->tenant_done = done;
    change_submit(c);
}

static int update_prepare(struct tenant_change *c)
{
    struct tenant *tenant = tenants_find(c->all, str_of(c->id));

    if (!tenant)
        return fail_no_tenant(c);
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        if (!(c->given & 1U << i))
            c->quota.at[i] = tenant->quota.at[i];
    return print_quota(c);
}

static void update_apply(struct tenant_change *c)
{
    struct tenant *tenant = tenants_find(c->all, str_of(c->id));

    if (tenant)
        tenant_set_quota(tenant, &c->quota);
}

void tenant_update(struct tenants *t, struct str name, const struct quota *quota, unsigned given,
                   tenant_done_fn *done, void *user)
{
    struct tenant_change *c = change_new(t, TENANT_KIND, name, user);

    c->quota = *quota;
    c->given = given;
    c->prepare = update_prepare;
    c->work = update_work;
    c->apply = update_apply;
    c->tenant_done = done;
    change_submit(c);
}

static bool has_keys(struct tenants *t, const char *tenant)
{
    struct api_key *key;
    size_t at = 0;

    while ((key = keys_next(t, &at)))
        if (!key->principal.everywhere && strcmp(key->principal.tenant, tenant) == 0)
            return true;
    return false;
}

static int delete_prepare(struct tenant_change *c)
{
    struct tenant *tenant = tenants_find(c->all, str_of(c->id));

    if (!tenant)
        return fail_no_tenant(c);
    if (strcmp(c->id, TENANT_DEFAULT) == 0)
        return api_fail_set(&c->fail, 409, "TENANT::IN_USE",
                            "tenant '%s' owns what keys of the configuration make", c->id);
    if (tenant->usage.sandboxes || has_keys(c->all, c->id) || c->in_use(c->user, c->id))
        return api_fail_set(&c->fail, 409, "TENANT::IN_USE",
                            "tenant '%s' has sandboxes, snapshots, pools or keys; delete them "
                            "first",
                            c->id);
    return 0;
}

static void delete_apply(struct tenant_change *c)
{
    (void)map_remove(&c->all->by_name, str_of(c->id));
    log_event(LOG_INFO, "tenant deleted", LOG_STR("tenant", c->id));
}

void tenant_delete(struct tenants *t, struct str name, bool (*in_use)(void *user, const char *name),
                   tenant_done_fn *done, void *user)
{
    struct tenant_change *c = change_new(t, TENANT_KIND, name, user);

    c->in_use = in_use;
    c->prepare = delete_prepare;
    c->work = delete_work;
    c->apply = delete_apply;
    c->tenant_done = done;
    change_submit(c);
}

/* --- keys --- */

static int fail_no_key(struct tenant_change *c)
{
    return api_fail_set(&c->fail, 404, "KEY::NOT_FOUND", "there is no key '%s'", c->id);
}

static void make_secret(struct tenant_change *c)
{
    char token[ID_TOKEN_MAX];

    id_token(token);
    (void)snprintf(c->secret, sizeof(c->secret), "osbk_%.12s_%s", c->id, token);
    key_hash(str_of(c->secret), c->key.hash);
    mem_wipe(token, sizeof(token));
}

static bool is_name_taken(struct tenant_change *c)
{
    struct api_key *key;
    size_t at = 0;

    while ((key = keys_next(c->all, &at)))
        if (strcmp(key->name, c->key.name) == 0 &&
            key->principal.everywhere == c->key.principal.everywhere &&
            strcmp(key->principal.tenant, c->key.principal.tenant) == 0)
            return true;
    return false;
}

static int print_key(struct tenant_change *c)
{
    return key_print(&c->key, &c->json) < 0 ? api_fail_memory(&c->fail) : 0;
}

static int key_create_prepare(struct tenant_change *c)
{
    if (!tenants_find(c->all, str_of(c->key.principal.tenant)))
        return api_fail_set(&c->fail, 404, "TENANT::NOT_FOUND", "tenant: there is no tenant '%s'",
                            c->key.principal.tenant);
    if (is_name_taken(c))
        return api_fail_set(&c->fail, 409, "KEY::ALREADY_EXISTS", "there is a key named '%s'",
                            c->key.name);
    if (c->all->keys.n >= KEYS_MAX)
        return api_fail_set(&c->fail, 409, "KEY::ALREADY_EXISTS",
                            "there are %d keys, as many as there may be", KEYS_MAX);
    c->key.created_us = c->now_us;
    return print_key(c);
}

static void key_create_apply(struct tenant_change *c)
{
    struct api_key *key = mem_new(struct api_key);

    *key = c->key;
    if (key_add(c->all, key) < 0) { /* checked before; only memory can be out */
        free(key);
        (void)api_fail_memory(&c->fail);
        return;
    }
    log_event(LOG_INFO, "key created", LOG_STR("key", key->id), LOG_STR("name", key->name),
              LOG_STR("by", c->by.key_id));
}

void key_create(struct tenants *t, const struct principal *by, const struct key_request *request,
                key_done_fn *done, void *user)
{
    struct tenant_change *c;
    struct principal *p;
    char id[KEY_ID_MAX];
    uint8_t bytes[(KEY_ID_MAX - 1) / 2];

    id_random_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(id + 2 * i, sizeof(id) - 2 * i, "%02x", bytes[i]);
    c = change_new(t, KEY_KIND, str_of(id), user);
    p = &c->key.principal;
    memcpy(c->key.id, id, sizeof(id));
    (void)!str_copy(c->key.name, sizeof(c->key.name), request->name);
    (void)snprintf(c->key.created_by, sizeof(c->key.created_by), "%s", by->key_id);
    (void)snprintf(p->key_id, sizeof(p->key_id), "key:%s", id);
    (void)!str_copy(p->tenant, sizeof(p->tenant),
                    request->tenant.n ? request->tenant : STR(TENANT_DEFAULT));
    (void)!str_copy(p->sandbox, sizeof(p->sandbox), request->sandbox);
    (void)!str_copy(p->user, sizeof(p->user), request->user);
    p->everywhere = request->tenant.n == 0;
    p->role = request->role;
    c->key.expires_us = request->expires_us;
    c->by = *by;
    make_secret(c);
    c->prepare = key_create_prepare;
    c->work = insert_work;
    c->apply = key_create_apply;
    c->key_done = done;
    change_submit(c);
}

static int rotate_prepare(struct tenant_change *c)
{
    struct api_key *key = keys_find(c->all, str_of(c->id));

    if (!key)
        return fail_no_key(c);
    c->key = *key;
    memcpy(c->key.old_hash, key->hash, sizeof(key->hash));
    c->key.old_until_us = c->now_us + c->grace_s * TIME_US_PER_S;
    c->key.rotated_us = c->now_us;
    make_secret(c);
    return print_key(c);
}

static void rotate_apply(struct tenant_change *c)
{
    struct api_key *key = keys_find(c->all, str_of(c->id));

    if (key)
        key_set_hash(c->all, key, &c->key);
}

void key_rotate(struct tenants *t, struct str id, uint32_t grace_s, key_done_fn *done, void *user)
{
    struct tenant_change *c = change_new(t, KEY_KIND, id, user);

    c->grace_s = grace_s;
    c->prepare = rotate_prepare;
    c->work = update_work;
    c->apply = rotate_apply;
    c->key_done = done;
    change_submit(c);
}

static int key_delete_prepare(struct tenant_change *c)
{
    return keys_find(c->all, str_of(c->id)) ? 0 : fail_no_key(c);
}

static void key_delete_apply(struct tenant_change *c)
{
    struct api_key *key = keys_find(c->all, str_of(c->id));

    if (key)
        key_remove(c->all, key);
    log_event(LOG_INFO, "key revoked", LOG_STR("key", c->id));
}

void key_delete(struct tenants *t, struct str id, key_done_fn *done, void *user)
{
    struct tenant_change *c = change_new(t, KEY_KIND, id, user);

    c->prepare = key_delete_prepare;
    c->work = delete_work;
    c->apply = key_delete_apply;
    c->key_done = done;
    change_submit(c);
}
