/* map.h - a hash map from strings to pointers, with a ceiling, in order of insertion.
 *
 * The map copies its keys. Values are the caller's; with a free function the map frees the ones it
 * still holds or replaces. Keys may come from strangers: hashes are seeded per process
 * (SipHash-1-3), so nobody outside can aim collisions. A key is any bytes, also none. Not
 * thread-safe. */
#pragma once

#include "base/str.h"

struct map_entry;

struct map {
    struct map_entry *entries; /* in order of insertion, removed ones leave holes */
    uint32_t *index;           /* open addressing: 1 + place in entries, 0 = free */
    size_t used, room;         /* of entries; the index has 2 * room slots */
    size_t n, max;             /* keys, and their ceiling */
    void (*free_value)(void *value);
};

/* Cannot fail, allocates nothing. free_value may be NULL. max is at most 2^30. */
void map_init(struct map *m, size_t max, void (*free_value)(void *value));
void map_done(struct map *m); /* frees everything; m is empty and usable again */

void *map_get(const struct map *m,
              struct str key); /* NULL when absent, or when that is the value */
bool map_has(const struct map *m, struct str key);

/* Both: -ENOSPC at the ceiling, -ENOMEM when memory is out; the map and `value` are then as before,
 * `value` still the caller's. map_add refuses a key that is there with -EEXIST, map_set replaces
 * its value, freeing the old one. */
int map_add(struct map *m, struct str key, void *value) MUST_USE;
int map_set(struct map *m, struct str key, void *value) MUST_USE;

bool map_remove(struct map *m, struct str key); /* frees the value; false when absent */
void *map_take(struct map *m, struct str key);  /* gives the value back; NULL when absent */

/* Walks in order of insertion: `size_t at = 0; while (map_next(&m, &at, &key, &value))`. During the
 * walk any key may be removed (also the current one) and values replaced; a key added meanwhile
 * ends all promises. ret_key and ret_value may be NULL; the key is borrowed from the map. */
bool map_next(const struct map *m, size_t *at, struct str *ret_key, void **ret_value);

/* The hash itself. Deterministic in seed and bytes. */
uint64_t map_hash(const uint64_t seed[2], struct str s);

#define auto_map __attribute__((cleanup(map_done))) struct map
