#include "egress/dns/cache.h"

#include <stdlib.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"

enum { ANSWER_BYTES_MAX = 4096, TTL_S_MAX = 3600, KEY_SKIP = 2 };

struct entry {
    struct list link; /* in order of age */
    uint64_t stored_ns, ends_ns;
    char *key;
    size_t key_n, n;
    char data[];
};

struct dns_cache {
    struct map map;
    struct list order;
    size_t max;
};

struct dns_cache *dns_cache_new(size_t entries_max)
{
    struct dns_cache *c = mem_new(struct dns_cache);

    map_init(&c->map, entries_max + 1, NULL);
    list_init(&c->order);
    c->max = entries_max;
    return c;
}

static struct str key_of(struct str query)
{
    return str_skip(query, KEY_SKIP);
}

static void drop(struct dns_cache *c, struct entry *entry)
{
    (void)map_take(&c->map, str_make(entry->key, entry->key_n));
    list_remove(&entry->link);
    free(entry->key);
    free(entry);
}

void dns_cache_free(struct dns_cache *c)
{
    if (!c)
        return;
    while (!list_empty(&c->order))
        drop(c, container_of(c->order.next, struct entry, link));
    map_done(&c->map);
    free(c);
}

struct str dns_cache_get(struct dns_cache *c, struct str query, uint64_t now_ns,
                         uint32_t *ret_age_s)
{
    struct entry *entry = query.n > KEY_SKIP ? map_get(&c->map, key_of(query)) : NULL;

    if (!entry)
        return STR_NONE;
    if (now_ns >= entry->ends_ns) {
        drop(c, entry);
        return STR_NONE;
    }
    *ret_age_s = (uint32_t)((now_ns - entry->stored_ns) / (TIME_NS_PER_MS * 1000));
    return str_make(entry->data, entry->n);
}

void dns_cache_put(struct dns_cache *c, struct str query, struct str answer, uint64_t now_ns,
                   uint32_t ttl_s)
{
    struct str key = key_of(query);
    struct entry *entry;

    if (answer.n > ANSWER_BYTES_MAX || ttl_s == 0 || c->max == 0)
        return;
    entry = map_get(&c->map, key);
    if (entry)
        drop(c, entry);
    if (c->map.n >= c->max)
        drop(c, container_of(c->order.next, struct entry, link));
    entry = mem_alloc(sizeof(*entry) + answer.n);
    entry->key = mem_alloc(key.n);
    entry->key_n = key.n;
    entry->n = answer.n;
    entry->stored_ns = now_ns;
    entry->ends_ns =
        now_ns + (uint64_t)(ttl_s < TTL_S_MAX ? ttl_s : TTL_S_MAX) * (TIME_NS_PER_MS * 1000);
    memcpy(entry->key, key.p, key.n);
    memcpy(entry->data, answer.p, answer.n);
    if (map_add(&c->map, key, entry) < 0) {
        free(entry->key);
        free(entry);
        return;
    }
    list_push(&c->order, &entry->link);
}
