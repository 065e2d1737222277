/* map.h - a hash map from strings to pointers, with a size limit, in order of insertion.
 *
 * The map copies its keys. Values belong to the caller, unless free_value is set: then the map
 * frees the values that it removes or replaces. Keys may be hostile: hashes have a per-process seed
 * (SipHash-1-3), so collisions cannot be chosen from outside. A key is any bytes, also none. Not
 * thread-safe. */
#pragma once

#include "base/str.h"

struct map_entry;

struct map {
    struct map_entry *entries; /* in order of insertion; removed entries leave holes */
    uint32_t *index;           /* open addressing: 1 + index in entries, 0 = free */
    size_t used, room;         /* of entries; the index has 2 * room slots */
    size_t n, max;             /* number of keys, and its limit */
    void (*free_value)(void *value);
};

/* Cannot fail, allocates nothing. free_value may be NULL. max is at most 2^30. */
void map_init(struct map *m, size_t max, void (*free_value)(void *value));
void map_done(struct map *m); /* frees everything; m is empty and usable again */

void *map_get(const struct map *m,
              struct str key); /* NULL when absent, or when NULL is the value */
bool map_has(const struct map *m, struct str key);

/* Both return -ENOSPC at the limit, -ENOMEM when memory is out; then the map is unchanged and
 * `value` still belongs to the caller. For an existing key map_add returns -EEXIST, and map_set
 * replaces the value and frees the old one. */
int map_add(struct map *m, struct str key, void *value) MUST_USE;
int map_set(struct map *m, struct str key, void *value) MUST_USE;

bool map_remove(struct map *m, struct str key); /* frees the value; false when absent */
void *map_take(struct map *m, struct str key);  /* removes and returns it; NULL when absent */

/* Iterates in order of insertion: `size_t at = 0; while (map_next(&m, &at, &key, &value))`.
 * During the iteration any key may be removed (also the current one) and values replaced; after
 * adding a key the result is undefined. ret_key and ret_value may be NULL; the key is borrowed
 * from the map. */
bool map_next(const struct map *m, size_t *at, struct str *ret_key, void **ret_value);

/* The hash function; depends only on seed and bytes. */
uint64_t map_hash(const uint64_t seed[2], struct str s);

#define auto_map __attribute__((cleanup(map_done))) struct map
