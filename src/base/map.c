/* map.c - entries in one dense array, and an index of 32-bit positions in it.
 *
 *     index    0  2  0  1  3  0 ...      linear probing, never more than half full
 *     entries  [a=..] [b=..] [hole] ...  a hole keeps its index slot, so probing continues past it
 *
 * Growing rebuilds both and drops the holes. */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>

#include "base/id.h"
#include "base/mem.h"

enum { MAP_FIRST_ROOM = 8 };
#define MAP_MAX ((size_t)1 << 30)

struct map_entry {
    char *key; /* NULL in a hole */
    size_t key_n;
    uint64_t hash;
    void *value;
};

/* The hash seed of the process: written once, before the first hash. */
static uint64_t map_seed[2];
static pthread_once_t map_seed_once = PTHREAD_ONCE_INIT;

static void map_make_seed(void)
{
    id_random_bytes(map_seed, sizeof(map_seed));
}

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/* Loads up to eight bytes, little-endian. */
static uint64_t load_le(const char *p, size_t n)
{
    uint64_t word = 0;

    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return word;
}

uint64_t map_hash(const uint64_t seed[2], struct str s)
{
    uint64_t v[4] = {
        seed[0] ^ 0x736f6d6570736575U,
        seed[1] ^ 0x646f72616e646f6dU,
        seed[0] ^ 0x6c7967656e657261U,
        seed[1] ^ 0x7465646279746573U,
    };
    uint64_t length = (uint64_t)s.n << 56;
    uint64_t word;

    for (; s.n >= 8; s = str_skip(s, 8)) {
        word = load_le(s.p, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = load_le(s.p, s.n) | length;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t map_hash_key(struct str key)
{
    pthread_once(&map_seed_once, map_make_seed);
    return map_hash(map_seed, key);
}

void map_init(struct map *m, size_t max, void (*free_value)(void *value))
{
    assert(max <= MAP_MAX);
    *m = (struct map){.max = max, .free_value = free_value};
}

static void map_free_value(const struct map *m, void *value)
{
    if (m->free_value && value)
        m->free_value(value);
}

void map_done(struct map *m)
{
    for (size_t i = 0; i < m->used; i++) {
        if (!m->entries[i].key)
            continue;
        free(m->entries[i].key);
        map_free_value(m, m->entries[i].value);
    }
    free(m->entries);
    free(m->index);
    map_init(m, m->max, m->free_value);
}

static struct map_entry *map_find(const struct map *m, struct str key, uint64_t hash)
{
    size_t mask = 2 * m->room - 1;

    if (m->room == 0)
        return NULL;
    for (size_t i = hash & mask; m->index[i]; i = (i + 1) & mask) {
        struct map_entry *en = &m->entries[m->index[i] - 1];

        if (en->key && en->hash == hash && str_eq(str_make(en->key, en->key_n), key))
            return en;
    }
    return NULL;
}

static struct map_entry *map_lookup(const struct map *m, struct str key)
{
    return m->n ? map_find(m, key, map_hash_key(key)) : NULL;
}

void *map_get(const struct map *m, struct str key)
{
    struct map_entry *en = map_lookup(m, key);

    return en ? en->value : NULL;
}

bool map_has(const struct map *m, struct str key)
{
    return map_lookup(m, key) != NULL;
}

static void map_index_entry(struct map *m, size_t place)
{
    size_t mask = 2 * m->room - 1;
    size_t i = m->entries[place].hash & mask;

    while (m->index[i])
        i = (i + 1) & mask;
    m->index[i] = (uint32_t)place + 1;
}

/* Makes room for one more entry: a larger table, or the same size when it was mostly holes. */
static int map_grow(struct map *m)
{
    size_t room = m->room == 0 ? MAP_FIRST_ROOM : m->n > m->room / 2 ? m->room * 2 : m->room;
    struct map_entry *entries = mem_try_realloc(NULL, room * sizeof(*entries));
    uint32_t *index = mem_try_realloc(NULL, 2 * room * sizeof(*index));
    size_t kept = 0;

    if (!entries || !index) {
        free(entries);
        free(index);
        return -ENOMEM;
    }
    for (size_t i = 0; i < m->used; i++)
        if (m->entries[i].key)
            entries[kept++] = m->entries[i];
    memset(index, 0, 2 * room * sizeof(*index));
    free(m->entries);
    free(m->index);
    m->entries = entries;
    m->index = index;
    m->used = kept;
    m->room = room;
    for (size_t i = 0; i < kept; i++)
        map_index_entry(m, i);
    return 0;
}

static int map_insert(struct map *m, struct str key, uint64_t hash, void *value)
{
    char *copy;

    if (m->n >= m->max)
        return -ENOSPC;
    if (m->used == m->room && map_grow(m) < 0)
        return -ENOMEM;
    copy = mem_try_realloc(NULL, key.n);
    if (!copy)
        return -ENOMEM;
    if (key.n)
        memcpy(copy, key.p, key.n);
    m->entries[m->used] = (struct map_entry){copy, key.n, hash, value};
    map_index_entry(m, m->used);
    m->used++;
    m->n++;
    return 0;
}

int map_add(struct map *m, struct str key, void *value)
{
    uint64_t hash = map_hash_key(key);

    if (map_find(m, key, hash))
        return -EEXIST;
    return map_insert(m, key, hash, value);
}

int map_set(struct map *m, struct str key, void *value)
{
    uint64_t hash = map_hash_key(key);
    struct map_entry *en = map_find(m, key, hash);

    if (!en)
        return map_insert(m, key, hash, value);
    if (en->value != value)
        map_free_value(m, en->value);
    en->value = value;
    return 0;
}

static void *map_make_hole(struct map *m, struct map_entry *en)
{
    void *value = en->value;

    free(en->key);
    en->key = NULL;
    en->value = NULL;
    m->n--;
    return value;
}

bool map_remove(struct map *m, struct str key)
{
    struct map_entry *en = map_lookup(m, key);

    if (!en)
        return false;
    map_free_value(m, map_make_hole(m, en));
    return true;
}

void *map_take(struct map *m, struct str key)
{
    struct map_entry *en = map_lookup(m, key);

    return en ? map_make_hole(m, en) : NULL;
}

bool map_next(const struct map *m, size_t *at, struct str *ret_key, void **ret_value)
{
    while (*at < m->used) {
        const struct map_entry *en = &m->entries[(*at)++];

        if (!en->key)
            continue;
        if (ret_key)
            *ret_key = str_make(en->key, en->key_n);
        if (ret_value)
            *ret_value = en->value;
        return true;
    }
    return false;
}
