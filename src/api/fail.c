#include "api/fail.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

static PRINTF_LIKE(4, 0) void fail_fill(struct api_fail *f, int status, const char *code,
                                        const char *fmt, va_list ap)
{
    int n = vsnprintf(f->message, sizeof(f->message), fmt, ap);

    f->status = status;
    f->code = code;
    if (n < 0)
        f->message[0] = '\0';
    else if ((size_t)n >= sizeof(f->message))
        f->message[utf8_prefix(str_of(f->message))] = '\0';
}

int(api_fail_set)(struct api_fail *f, int status, const char *code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail_fill(f, status, code, fmt, ap);
    va_end(ap);
    return -EBADMSG;
}

int(api_fail_invalid)(struct api_fail *f, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fail_fill(f, 400, API_INVALID_PARAMETER, fmt, ap);
    va_end(ap);
    return -EBADMSG;
}

int(api_fail_err)(struct api_fail *f, const struct err *e)
{
    return e->code == ENOMEM ? api_fail_memory(f) : api_fail_invalid(f, "%s", e->msg);
}

int(api_fail_memory)(struct api_fail *f)
{
    return api_fail_set(f, 413, API_INVALID_PARAMETER,
                        "the request takes more memory than one may; send less at once");
}

struct api_shown api_show(struct str s)
{
    struct api_shown shown;
    size_t n = min_size(s.n, sizeof(shown.text) - 1);

    for (size_t i = 0; i < n; i++)
        shown.text[i] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? s.p[i] : '?';
    shown.text[n] = '\0';
    if (n < s.n)
        memcpy(shown.text + n - 3, "...", 3);
    return shown;
}
