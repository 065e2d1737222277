#include "base/arena.h"

#include <stdio.h>

#include "base/mem.h"

/* gcc and clang use different macros to tell that ASan is on. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { ARENA_ALIGN = 16, ARENA_FIRST_BYTES = 2048, ARENA_GROW_MAX = 256 * 1024 };

struct arena_block {
    struct arena_block *older;
    size_t size; /* of data[] */
    _Alignas(ARENA_ALIGN) char data[];
};

void arena_init(struct arena *a, size_t max)
{
    *a = (struct arena){.max = max};
}

static void arena_free_blocks(struct arena_block *b)
{
    while (b) {
        struct arena_block *older = b->older;

        ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
        free(b);
        b = older;
    }
}

void arena_done(struct arena *a)
{
    arena_free_blocks(a->head);
    arena_init(a, a->max);
}

void arena_wipe(struct arena *a)
{
    for (struct arena_block *b = a->head; b; b = b->older) {
        ASAN_UNPOISON_MEMORY_REGION(b->data, b->size);
        mem_wipe(b->data, b->size);
    }
    arena_done(a);
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->head;

    if (!keep)
        return;
    arena_free_blocks(keep->older);
    keep->older = NULL;
    a->used = keep->size;
    a->at = keep->data;
    a->end = keep->data + keep->size;
    ASAN_POISON_MEMORY_REGION(keep->data, keep->size);
}

/* Starts a block of at least n bytes. Block sizes double up to a maximum. */
static int arena_grow(struct arena *a, size_t n)
{
    size_t want = a->head ? min_size(a->head->size * 2, ARENA_GROW_MAX) : ARENA_FIRST_BYTES;
    size_t size = max_size(n, want);
    struct arena_block *b;

    if (n > a->max || a->used > a->max - n)
        return -1;
    size = min_size(size, a->max - a->used); /* want is small, and n was checked */
    b = mem_try_realloc(NULL, sizeof(*b) + size);
    if (!b)
        return -1;
    b->older = a->head;
    b->size = size;
    a->head = b;
    a->used += size;
    a->at = b->data;
    a->end = b->data + size;
    ASAN_POISON_MEMORY_REGION(b->data, size);
    return 0;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t rounded;
    char *p;

    if (n > PTRDIFF_MAX - ARENA_ALIGN - sizeof(struct arena_block))
        return NULL; /* the sums below cannot overflow */
    rounded = (max_size(n, 1) + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (rounded > (size_t)(a->end - a->at) && arena_grow(a, rounded) < 0)
        return NULL;
    p = a->at;
    a->at += rounded;
    ASAN_UNPOISON_MEMORY_REGION(p, n);
    return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
    void *p = arena_alloc(a, n);

    if (p)
        memset(p, 0, n);
    return p;
}

void *arena_zalloc_array(struct arena *a, size_t n, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(n, size, &total))
        return NULL;
    return arena_zalloc(a, total);
}

struct str arena_str(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.n + 1);

    if (!p)
        return STR_NONE;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    return str_make(p, s.n);
}

char *arena_strdup(struct arena *a, struct str s)
{
    return (char *)arena_str(a, s).p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
    if (!p)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}
