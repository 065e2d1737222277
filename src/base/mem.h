/* mem.h - small allocations that cannot fail, and cleanup at the end of a scope.
 *
 * mem_new and the like abort when memory is out: use them for sizes the program chooses. Memory
 * whose size depends on input comes from a buf or an arena, which have limits and return errors. */
#pragma once

#include "base/defs.h"
#include <stdlib.h>
#include <string.h>

void *mem_alloc(size_t n) MUST_USE __attribute__((malloc, alloc_size(1)));
void *mem_zalloc(size_t n) MUST_USE __attribute__((malloc, alloc_size(1)));
void *mem_realloc(void *p, size_t n) MUST_USE __attribute__((alloc_size(2)));
char *mem_strdup(const char *s) MUST_USE;

#define mem_new(type)          ((type *)mem_zalloc(sizeof(type)))
#define mem_new_array(type, n) ((type *)mem_zalloc_array((n), sizeof(type)))
void *mem_zalloc_array(size_t n, size_t size) MUST_USE;

/* May fail: for sizes that depend on input. NULL when memory is out or a fault is injected; the old
 * block then stays valid. */
void *mem_try_realloc(void *p, size_t n) MUST_USE;

/* Overwrites a secret; the compiler cannot optimise it away. NULL is allowed when n is 0. */
void mem_wipe(void *p, size_t n);

static inline void mem_freep(void *pp)
{
    void *p;

    memcpy(&p, pp, sizeof(p));
    free(p);
}
#define auto_free __attribute__((cleanup(mem_freep)))

/* Returns the pointer and sets the variable to NULL. */
#define take_ptr(pp)                                                                               \
    ({                                                                                             \
        __typeof__(*(pp)) taken_ = *(pp);                                                          \
        *(pp) = NULL;                                                                              \
        taken_;                                                                                    \
    })
