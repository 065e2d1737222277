/* secret.h - memory for secrets: locked (mlock), left out of core dumps and children, overwritten
 * before it is freed.
 *
 * A bump allocator over blocks of whole pages, freed together. Allocations are aligned for any type
 * and zeroed. Not thread-safe: it has one owner. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct secret_block;
struct secret_arena {
    struct secret_block *head;
    size_t at;        /* next free byte of the block in use */
    size_t used, max; /* bytes of all blocks, and their limit */
};

void secret_init(struct secret_arena *a, size_t max); /* cannot fail, allocates nothing */
void secret_done(struct secret_arena *a);             /* overwrites and frees everything */

/* NULL past the limit, or when the kernel locks no more memory for us (RLIMIT_MEMLOCK). */
void *secret_alloc(struct secret_arena *a, size_t n) MUST_USE;
#define secret_new_array(a, type, n) ((type *)secret_alloc_array((a), (n), sizeof(type)))
void *secret_alloc_array(struct secret_arena *a, size_t n, size_t size) MUST_USE;
/* A copy with a NUL after it; p == NULL: no memory. */
struct str secret_str(struct secret_arena *a, struct str s);

/* For programs that hold secrets: no core dumps, no reading of our memory by other processes of the
 * same account (PR_SET_DUMPABLE, RLIMIT_CORE). */
int secret_confine(struct err *e);
