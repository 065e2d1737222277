#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"

enum { BUF_FIRST_BYTES = 64 };

char buf_empty[1];

void buf_done(struct buf *b)
{
    if (b->cap && b->wipe)
        mem_wipe(b->p, b->cap);
    if (b->cap)
        free(b->p);
    buf_init(b, b->max);
}

/* The larger block, with the content. A secret must not stay behind in the old one. */
static char *buf_grow(const struct buf *b, size_t cap)
{
    char *p = mem_try_realloc(b->cap && !b->wipe ? b->p : NULL, cap);

    if (!p || !b->cap || !b->wipe)
        return p;
    memcpy(p, b->p, b->n);
    mem_wipe(b->p, b->cap);
    free(b->p);
    return p;
}

int buf_reserve(struct buf *b, size_t more)
{
    size_t max = min_size(b->max, PTRDIFF_MAX - 1); /* the sums below cannot overflow */
    size_t need, cap;
    char *p;

    if (more > max || b->n > max - more)
        return -EMSGSIZE;
    need = b->n + more + 1;
    if (need <= b->cap)
        return 0;
    cap = max_size(b->cap + b->cap / 2, BUF_FIRST_BYTES);
    cap = min_size(max_size(cap, need), max + 1);
    p = buf_grow(b, cap);
    if (!p)
        return -ENOMEM;
    b->p = p;
    b->cap = cap;
    b->p[b->n] = '\0';
    return 0;
}

void buf_claim(struct buf *b, size_t n)
{
    assert(n == 0 || b->n + n < b->cap);
    if (n == 0)
        return;
    b->n += n;
    b->p[b->n] = '\0';
}

int buf_add(struct buf *b, struct str s)
{
    int r = buf_reserve(b, s.n);

    if (r < 0 || s.n == 0)
        return r;
    memcpy(b->p + b->n, s.p, s.n);
    buf_claim(b, s.n);
    return 0;
}

int buf_add_char(struct buf *b, char c)
{
    return buf_add(b, str_make(&c, 1));
}

int buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int n, r;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        return -EINVAL;
    r = buf_reserve(b, (size_t)n);
    if (r < 0 || n == 0)
        return r;
    vsnprintf(b->p + b->n, (size_t)n + 1, fmt, ap);
    b->n += (size_t)n;
    return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_vaddf(b, fmt, ap);
    va_end(ap);
    return r;
}

void buf_drop_front(struct buf *b, size_t n)
{
    assert(n <= b->n);
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

void buf_cut(struct buf *b, size_t n)
{
    assert(n <= b->n);
    if (n == b->n)
        return;
    b->n = n;
    b->p[n] = '\0';
}

char *buf_take(struct buf *b)
{
    char *p;

    if (!b->cap && buf_reserve(b, 0) < 0)
        return NULL;
    p = b->p;
    buf_init(b, b->max);
    return p;
}
