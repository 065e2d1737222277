/* buf.h - an owned, growing byte buffer with a size limit that is set at its initialisation.
 *
 * p[n] == '\0' always, so p is also a C string when the content holds no NUL. A call that adds data
 * adds all of it or nothing: -EMSGSIZE past the limit, -ENOMEM when memory is out; the earlier
 * content stays. */
#pragma once

#include "base/str.h"
#include <stdarg.h>

struct buf {
    char *p;
    size_t n, cap, max;
    bool wipe; /* holds secrets: memory is overwritten before it is freed or shared */
};

extern char buf_empty[1]; /* p points here until something is added */

/* Cannot fail, allocates nothing. */
static inline void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){buf_empty, 0, 0, max, false};
}

void buf_done(struct buf *b); /* frees the memory; b is empty and usable again */

static inline void buf_clear(struct buf *b) /* keeps the memory */
{
    if (b->n == 0)
        return; /* p may be buf_empty, which all threads share */
    b->n = 0;
    b->p[0] = '\0';
}

static inline struct str buf_str(const struct buf *b)
{
    return str_make(b->p, b->n);
}

/* Reserves room for `more` bytes after p[n]. The caller writes them and then calls buf_claim. */
int buf_reserve(struct buf *b, size_t more) MUST_USE;
void buf_claim(struct buf *b, size_t n);

int buf_add(struct buf *b, struct str s);
int buf_add_char(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

void buf_drop_front(struct buf *b, size_t n); /* removes the first n bytes; n <= b->n */
void buf_cut(struct buf *b, size_t n);        /* shortens to n bytes; n <= b->n */

/* Sets `wipe`, for a buffer that will hold a secret. What was removed from it stays in its memory
 * until buf_done. */
static inline void buf_keep_secret(struct buf *b)
{
    b->wipe = true;
}

/* Hands the memory to the caller as a C string; b is empty again. NULL when memory is out. */
char *buf_take(struct buf *b);

#define auto_buf                __attribute__((cleanup(buf_done))) struct buf
/* Declares a local buffer that frees itself. */
#define AUTO_BUF(name, ceiling) auto_buf name = {buf_empty, 0, 0, (ceiling), false}
