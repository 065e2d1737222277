/* buf.h - an owned, growing byte buffer that is born with its ceiling.
 *
 * p[n] == '\0' always, so p is also a C string when the content holds no NUL. Adding is all or
 * nothing: past the ceiling it is -EMSGSIZE, out of memory -ENOMEM, and what was there stays. */
#pragma once

#include "base/str.h"
#include <stdarg.h>

struct buf {
    char *p;
    size_t n, cap, max;
};

extern char buf_empty[1]; /* what p points at before anything was added */

/* Cannot fail, allocates nothing. */
static inline void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){buf_empty, 0, 0, max};
}

void buf_done(struct buf *b); /* frees; b is empty and usable again */

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

/* Makes room for `more` bytes behind p[n], to be written by the caller and claimed by buf_claim. */
int buf_reserve(struct buf *b, size_t more) MUST_USE;
void buf_claim(struct buf *b, size_t n);

int buf_add(struct buf *b, struct str s);
int buf_add_char(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

void buf_drop_front(struct buf *b, size_t n); /* moves the rest down; n <= b->n */
void buf_cut(struct buf *b, size_t n);        /* shortens to n bytes; n <= b->n */

/* Gives the memory away as a C string owned by the caller; b is empty again. NULL when memory is
 * out. */
char *buf_take(struct buf *b);

#define auto_buf                __attribute__((cleanup(buf_done))) struct buf
/* Declares a local buffer that frees itself. */
#define AUTO_BUF(name, ceiling) auto_buf name = {buf_empty, 0, 0, (ceiling)}
