/* mem.h - small allocations that cannot fail, and cleanup tied to scope.
 *
 * mem_new and friends abort when memory is out: for sizes we choose. Whatever is sized by input
 * grows through a buf or an arena, which have ceilings and return errors. */
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

/* The fallible form, for sizes that input decides. NULL when memory is out or a fault is injected;
 * the old block stays valid then. */
void *mem_try_realloc(void *p, size_t n) MUST_USE;

/* Overwrites a secret in a way the compiler keeps. NULL is fine when n is 0. */
void mem_wipe(void *p, size_t n);

static inline void mem_freep(void *pp)
{
    void *p;

    memcpy(&p, pp, sizeof(p));
    free(p);
}
#define auto_free __attribute__((cleanup(mem_freep)))

/* Moves a pointer out of its variable: *pp becomes NULL. */
#define take_ptr(pp)                                                                               \
    ({                                                                                             \
        __typeof__(*(pp)) taken_ = *(pp);                                                          \
        *(pp) = NULL;                                                                              \
        taken_;                                                                                    \
    })
