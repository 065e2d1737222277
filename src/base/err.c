#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(struct err) == 256, "an error crosses a pipe or a packet in one write");

/* Marks a cut message, without splitting a UTF-8 sequence. */
static void err_mark_cut(struct err *e)
{
    size_t end = sizeof(e->msg) - sizeof("...");

    while (end > 0 && ((unsigned char)e->msg[end] & 0xc0) == 0x80)
        end--;
    memcpy(e->msg + end, "...", sizeof("..."));
}

static PRINTF_LIKE(3, 0) void err_fill(struct err *e, int code, const char *fmt, va_list ap)
{
    char text[sizeof(e->msg)]; /* an argument may be e->msg itself */
    int n;

    if (!e)
        return;
    e->code = code;
    n = vsnprintf(text, sizeof(text), fmt, ap);
    if (n < 0)
        text[0] = '\0';
    memcpy(e->msg, text, strlen(text) + 1);
    if (n >= (int)sizeof(e->msg))
        err_mark_cut(e);
}

/* Appends ": " and `tail`. */
static void err_append(struct err *e, const char *tail)
{
    size_t have = strlen(e->msg);
    int n = snprintf(e->msg + have, sizeof(e->msg) - have, "%s%s", have ? ": " : "", tail);

    if (n < 0)
        e->msg[have] = '\0';
    else if (have + (size_t)n >= sizeof(e->msg))
        err_mark_cut(e);
}

int(err_set)(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    assert(code > 0);
    va_start(ap, fmt);
    err_fill(e, code, fmt, ap);
    va_end(ap);
    return -code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    assert(code > 0);
    va_start(ap, fmt);
    err_fill(e, code, fmt, ap);
    va_end(ap);
    if (e)
        err_append(e, strerror(code));
    return -code;
}

int err_wrap(struct err *e, int r, const char *fmt, ...)
{
    struct err inner;
    va_list ap;

    assert(r < 0);
    if (!e)
        return r;
    inner = *e;
    va_start(ap, fmt);
    err_fill(e, -r, fmt, ap);
    va_end(ap);
    err_append(e, inner.code && inner.msg[0] ? inner.msg : strerror(-r));
    return r;
}
