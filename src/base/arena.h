/* arena.h - a bump allocator with a size limit, for memory that lives as long as one request or
 * document.
 *
 * Allocations are aligned for any type and freed together. Use it for memory whose size depends on
 * input: past the limit, an allocation returns NULL instead of ending the process. Under ASan,
 * reset memory is poisoned. Not thread-safe: an arena has one owner. */
#pragma once

#include "base/str.h"
#include <stdarg.h>

struct arena_block;
struct arena {
    struct arena_block *head; /* the block in use; each block links to the one before it */
    char *at, *end;           /* free space in that block */
    size_t used, max;         /* bytes of all blocks, and their limit */
};

/* Cannot fail, allocates nothing. */
void arena_init(struct arena *a, size_t max);
void arena_done(struct arena *a);  /* frees everything; the arena can be used again */
void arena_wipe(struct arena *a);  /* the same after overwriting it: for secrets */
void arena_reset(struct arena *a); /* drops all allocations; keeps one block for reuse */

void *arena_alloc(struct arena *a, size_t n) MUST_USE;  /* NULL past the limit */
void *arena_zalloc(struct arena *a, size_t n) MUST_USE; /* the same, zeroed */
#define arena_new(a, type)          ((type *)arena_zalloc((a), sizeof(type)))
#define arena_new_array(a, type, n) ((type *)arena_zalloc_array((a), (n), sizeof(type)))
void *arena_zalloc_array(struct arena *a, size_t n, size_t size) MUST_USE;

/* Return a copy with a NUL after its n bytes. p == NULL: the limit was reached. */
struct str arena_str(struct arena *a, struct str s);
char *arena_strdup(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define auto_arena                __attribute__((cleanup(arena_done))) struct arena
/* Declares a local arena that frees itself. */
#define AUTO_ARENA(name, ceiling) auto_arena name = {NULL, NULL, NULL, 0, (ceiling)}
