#include "base/mem.h"

#include <stdio.h>

#include "base/fault.h"

static NORETURN void mem_die(size_t n)
{
    fprintf(stderr, "out of memory allocating %zu bytes\n", n);
    abort();
}

void *mem_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p)
        mem_die(n);
    return p;
}

void *mem_zalloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);

    if (!p)
        mem_die(n);
    return p;
}

void *mem_realloc(void *p, size_t n)
{
    p = realloc(p, n ? n : 1);
    if (!p)
        mem_die(n);
    return p;
}

void *mem_zalloc_array(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);

    if (!p)
        mem_die(n * size);
    return p;
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;

    return memcpy(mem_alloc(n), s, n);
}

void *mem_try_realloc(void *p, size_t n)
{
    if (fault_hit(FAULT_ALLOC))
        return NULL;
    return realloc(p, n ? n : 1);
}

void mem_wipe(void *p, size_t n)
{
    if (n == 0)
        return;
    memset(p, 0, n);
    __asm__ volatile("" : : "r"(p) : "memory");
}
