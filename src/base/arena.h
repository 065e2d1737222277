/* arena.h - a bump allocator with a ceiling: memory that lives and dies with one request or
 * document.
 *
 * Allocations are aligned for any type and freed together. Memory whose size input decides comes
 * from here, so running into the ceiling is an ordinary NULL, not a crash. Under ASan, reset memory
 * is poisoned. Not thread-safe: an arena has one owner. */
#pragma once

#include "base/str.h"
#include <stdarg.h>

struct arena_block;
struct arena {
    struct arena_block *head; /* the block in use, older ones behind it */
    char *at, *end;           /* free room in it */
    size_t used, max;         /* bytes of all blocks, and their ceiling */
};

/* Cannot fail, allocates nothing. */
void arena_init(struct arena *a, size_t max);
void arena_done(struct arena *a);  /* frees everything; usable again */
void arena_reset(struct arena *a); /* forgets everything, keeps one block for the next round */

void *arena_alloc(struct arena *a, size_t n) MUST_USE;  /* NULL past the ceiling */
void *arena_zalloc(struct arena *a, size_t n) MUST_USE; /* the same, zeroed */
#define arena_new(a, type)          ((type *)arena_zalloc((a), sizeof(type)))
#define arena_new_array(a, type, n) ((type *)arena_zalloc_array((a), (n), sizeof(type)))
void *arena_zalloc_array(struct arena *a, size_t n, size_t size) MUST_USE;

/* Copies; the copy is NUL-terminated behind its n bytes. p == NULL means the ceiling was met. */
struct str arena_str(struct arena *a, struct str s);
char *arena_strdup(struct arena *a, struct str s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define auto_arena                __attribute__((cleanup(arena_done))) struct arena
/* Declares a local arena that frees itself. */
#define AUTO_ARENA(name, ceiling) auto_arena name = {NULL, NULL, NULL, 0, (ceiling)}
