/* tenants_follow.c - tenants and keys as another server has changed them. */
#include "base/log.h"
#include "base/mem.h"
#include "server/tenants/tenants_internal.h"

uint64_t tenants_version(const struct tenants *t)
{
    return t->changed + (t->change_count > 0);
}

/* Ids of the records of a kind. */
static void collect(struct map *ids, struct str kind, const struct store_record *records,
                    size_t count)
{
    map_init(ids, KEYS_MAX + TENANTS_MAX, NULL);
    for (size_t i = 0; i < count; i++)
        if (str_eq(records[i].kind, kind))
            (void)!map_add(ids, records[i].id, ids);
}

static void drop_keys(struct tenants *t, const struct map *ids)
{
    struct api_key *key;
    size_t at = 0;

    while ((key = keys_next(t, &at)))
        if (!map_has(ids, str_of(key->id))) {
            log_event(LOG_INFO, "key revoked by another server", LOG_STR("key", key->id));
            key_remove(t, key);
        }
}

static void drop_tenants(struct tenants *t, const struct map *ids)
{
    struct tenant *tenant;
    size_t at = 0;

    while ((tenant = tenants_next(t, &at)))
        if (!map_has(ids, str_of(tenant->name)) && strcmp(tenant->name, TENANT_DEFAULT) != 0)
            (void)map_remove(&t->by_name, str_of(tenant->name));
}

/* Reads a key again; when it was last used is this server's own. */
static void replace_key(struct tenants *t, const struct store_record *record)
{
    struct api_key *old = keys_find(t, record->id), *now;
    int64_t used_us = old ? old->used_us : 0;

    if (old)
        key_remove(t, old);
    (void)!key_load(t, record);
    now = keys_find(t, record->id);
    if (now)
        now->used_us = used_us;
}

void tenants_replace(struct tenants *t, const struct store_record *records, size_t count)
{
    auto_map tenants = {0}, keys = {0};

    collect(&tenants, TENANT_KIND, records, count);
    collect(&keys, KEY_KIND, records, count);
    drop_keys(t, &keys);
    drop_tenants(t, &tenants);
    for (size_t i = 0; i < count; i++)
        if (str_eq(records[i].kind, TENANT_KIND))
            (void)!tenant_load(t, &records[i]);
        else
            replace_key(t, &records[i]);
}
