/* tenants.c - the table of tenants; quotas and rates. */
#include "server/tenants/tenants.h"

#include <errno.h>
#include <stdio.h>

#include "base/json_bind.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "server/tenants/tenants_internal.h"

enum {
    RECORD_ARENA_MAX = 64 << 10,
    MINUTE_US = 60 * 1000 * 1000,
    BURST_NS = 1000 * 1000 * 1000, /* requests of a second may come at once */
};

const struct quota quota_none = {
    {-1, -1, -1, -1, -1, -1}
};

/* --- the table --- */

static void tenant_free(void *value)
{
    struct tenant *tenant = value;

    free(tenant->creates);
    free(tenant);
}

struct tenants *tenants_new(const struct tenants_conf *conf)
{
    struct tenants *t = mem_new(struct tenants);

    t->conf = *conf;
    map_init(&t->by_name, TENANTS_MAX, tenant_free);
    map_init(&t->keys, KEYS_MAX, free);
    map_init(&t->hashes, 2 * KEYS_MAX, NULL);
    list_init(&t->changes);
    (void)tenant_add(t, STR(TENANT_DEFAULT), time_wall_us());
    return t;
}

void tenants_free(struct tenants *t)
{
    if (!t)
        return;
    map_done(&t->hashes);
    map_done(&t->keys);
    map_done(&t->by_name);
    free(t);
}

struct tenant *tenants_find(struct tenants *t, struct str name)
{
    return map_get(&t->by_name, name);
}

struct tenant *tenants_next(struct tenants *t, size_t *at)
{
    void *tenant = NULL;

    return map_next(&t->by_name, at, NULL, &tenant) ? tenant : NULL;
}

struct tenant *tenant_add(struct tenants *t, struct str name, int64_t created_us)
{
    struct tenant *tenant = mem_new(struct tenant);

    tenant->quota = quota_none;
    tenant->created_us = created_us;
    if (str_copy(tenant->name, sizeof(tenant->name), name) < 0 ||
        map_add(&t->by_name, name, tenant) < 0) {
        free(tenant);
        return NULL;
    }
    return tenant;
}

void tenant_set_quota(struct tenant *tenant, const struct quota *quota)
{
    if (quota->at[QUOTA_CREATES] != tenant->quota.at[QUOTA_CREATES]) {
        free(tenant->creates);
        tenant->creates = NULL;
        tenant->create_at = 0;
        if (quota->at[QUOTA_CREATES] > 0)
            tenant->creates = mem_new_array(int64_t, (size_t)quota->at[QUOTA_CREATES]);
    }
    tenant->quota = *quota;
}

/* --- records --- */

static const char *const quota_names[QUOTA_KINDS] = {
    "sandboxes", "cpu", "memory", "disk", "creates", "rate",
};

int tenant_print(const struct quota *quota, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        if (quota->at[i] >= 0)
            json_member_i64(&w, str_of(quota_names[i]), quota->at[i]);
    json_write_object_end(&w);
    return json_write_end(&w);
}

int tenant_load(struct tenants *t, const struct store_record *record)
{
    AUTO_ARENA(arena, RECORD_ARENA_MAX);
    struct quota quota = quota_none;
    struct json *root = NULL;
    struct tenant *tenant;

    tenant = tenants_find(t, record->id);
    if (!tenant)
        tenant = tenant_add(t, record->id, record->created_us);
    if (!tenant || json_parse(&arena, record->json, NULL, &root, NULL) < 0) {
        log_event(LOG_ERROR, "a record of a tenant is damaged, leaving it alone",
                  LOG_STR("tenant", record->id));
        return 0;
    }
    for (size_t i = 0; i < QUOTA_KINDS; i++)
        (void)!json_to_i64(json_get(root, str_of(quota_names[i])), &quota.at[i]);
    tenant->created_us = record->created_us;
    tenant_set_quota(tenant, &quota);
    return 0;
}

static int load_tenant(void *user, const struct store_record *record)
{
    return tenant_load(user, record);
}

static int load_key(void *user, const struct store_record *record)
{
    return key_load(user, record);
}

int tenants_load(struct tenants *t, struct err *e)
{
    int r = store_record_each(t->conf.store, TENANT_KIND, load_tenant, t, e);

    if (r >= 0)
        r = store_record_each(t->conf.store, KEY_KIND, load_key, t, e);
    return r < 0 ? err_wrap(e, r, "read the tenants and keys of before") : 0;
}

/* --- quotas --- */

static struct api_limits needs_of(const struct tenants *t, const struct api_limits *asked)
{
    struct api_limits needs = *asked;

    if (!needs.cpu_millicores)
        needs.cpu_millicores = t->conf.defaults.cpu_millicores;
    if (!needs.memory_bytes)
        needs.memory_bytes = t->conf.defaults.memory_bytes;
    if (!needs.disk_bytes)
        needs.disk_bytes = t->conf.defaults.disk_bytes;
    return needs;
}

/* A sandbox without a limit of its own may use everything: it fits no quota. */
static int check_amounts(const struct tenant *tenant, const struct api_limits *needs,
                         struct api_fail *f)
{
    const struct tenant_usage *u = &tenant->usage;
    const struct {
        enum quota_kind kind;
        const char *name, *unit;
        uint64_t used, more;
    } rows[] = {
        {QUOTA_SANDBOXES, "sandboxes", "sandboxes",     u->sandboxes,      1                    },
        {QUOTA_CPU,       "cpu",       "millicores",    u->cpu_millicores, needs->cpu_millicores},
        {QUOTA_MEMORY,    "memory",    "bytes",         u->memory_bytes,   needs->memory_bytes  },
        {QUOTA_DISK,      "disk",      "bytes of disk", u->disk_bytes,     needs->disk_bytes    },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t limit = tenant->quota.at[rows[i].kind];

        if (limit < 0)
            continue;
        if (!rows[i].more)
            return api_fail_set(f, 403, "QUOTA_EXCEEDED",
                                "tenant '%s' has a quota of %s: set resourceLimits.%s",
                                tenant->name, rows[i].name, rows[i].name);
        if (rows[i].used + rows[i].more > (uint64_t)limit)
            return api_fail_set(f, 403, "QUOTA_EXCEEDED",
                                "tenant '%s' uses %llu of %lld %s, and this would need %llu more",
                                tenant->name, (unsigned long long)rows[i].used, (long long)limit,
                                rows[i].unit, (unsigned long long)rows[i].more);
    }
    return 0;
}

/* The ring has as many times as there may be creates in a minute: the one to be overwritten tells
 * whether there is room. */
static int check_creates(struct tenant *tenant, struct api_fail *f)
{
    int64_t limit = tenant->quota.at[QUOTA_CREATES], now_us = time_wall_us(), oldest;

    if (limit < 0)
        return 0;
    oldest = limit ? tenant->creates[tenant->create_at] : INT64_MAX;
    if (!limit || (oldest && now_us - oldest < MINUTE_US && now_us >= oldest))
        return api_fail_set(f, 429, "RATE_LIMITED",
                            "tenant '%s' may create %lld sandboxes per minute; try again in %lld s",
                            tenant->name, (long long)limit,
                            limit ? (long long)((MINUTE_US - (now_us - oldest)) / 1000000 + 1)
                                  : 60LL);
    tenant->creates[tenant->create_at] = now_us;
    tenant->create_at = (tenant->create_at + 1) % (size_t)limit;
    return 0;
}

int tenants_admit(struct tenants *t, const char *name, const struct api_limits *asked,
                  struct api_fail *f)
{
    struct tenant *tenant = tenants_find(t, str_of(name));
    struct api_limits needs = needs_of(t, asked);
    int r;

    if (!tenant)
        return 0;
    r = check_amounts(tenant, &needs, f);
    return r < 0 ? r : check_creates(tenant, f);
}

void tenants_share(const struct tenants *t, const char *name, const struct api_limits *asked,
                   struct store_share *ret)
{
    const struct tenant *tenant = map_get(&t->by_name, str_of(name));
    struct api_limits needs = needs_of(t, asked);
    static const enum quota_kind kinds[STORE_QUOTAS] = {QUOTA_SANDBOXES, QUOTA_CPU, QUOTA_MEMORY,
                                                        QUOTA_DISK};

    *ret = (struct store_share){
        .tenant = str_of(name),
        .needs = {1, (int64_t)needs.cpu_millicores, (int64_t)needs.memory_bytes,
                  (int64_t)needs.disk_bytes},
    };
    for (size_t i = 0; i < STORE_QUOTAS; i++)
        ret->limits[i] = tenant ? tenant->quota.at[kinds[i]] : -1;
}

void tenants_count(struct tenants *t, const char *name, const struct api_limits *asked, int by)
{
    struct tenant *tenant = tenants_find(t, str_of(name));
    struct api_limits needs = needs_of(t, asked);
    struct tenant_usage *u;

    if (!tenant)
        return;
    u = &tenant->usage;
    if (by > 0) {
        u->sandboxes++;
        u->cpu_millicores += needs.cpu_millicores;
        u->memory_bytes += needs.memory_bytes;
        u->disk_bytes += needs.disk_bytes;
    } else {
        u->sandboxes--;
        u->cpu_millicores -= needs.cpu_millicores;
        u->memory_bytes -= needs.memory_bytes;
        u->disk_bytes -= needs.disk_bytes;
    }
}

uint32_t tenants_rate(struct tenants *t, const char *name)
{
    struct tenant *tenant = tenants_find(t, str_of(name));
    uint64_t now = loop_now_ns(t->conf.loop), each;

    if (!tenant || tenant->quota.at[QUOTA_RATE] <= 0)
        return 0;
    each = BURST_NS / (uint64_t)tenant->quota.at[QUOTA_RATE];
    if (tenant->rate_ns < now)
        tenant->rate_ns = now;
    if (tenant->rate_ns + each > now + BURST_NS)
        return (uint32_t)((tenant->rate_ns + each - now - BURST_NS) / TIME_NS_PER_MS) + 1;
    tenant->rate_ns += each;
    return 0;
}
