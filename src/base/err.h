/* err.h - an error as a value: an errno and a message to which callers prepend context. */
#pragma once

#include "base/defs.h"

struct err {
    int code;      /* positive errno; 0 while unset */
    char msg[252]; /* outermost context first: "spawn sandbox: map ids: Operation not permitted" */
};

/* Both accept e == NULL and then only return the code. Neither can fail: text that does not fit is
 * cut at a character boundary and ends in "...". Arguments may point into e->msg. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4); /* returns -code */
int err_wrap(struct err *e, int r, const char *fmt, ...) PRINTF_LIKE(3, 4);   /* returns r */

/* Like err_set, and appends ": " and strerror's text for the code. */
int err_sys(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Makes err_set's result visible to compilers and analysers that see only the caller's file, so
 * that they know which branches a failure takes. */
#define err_set(e, code, ...)                                                                      \
    ({                                                                                             \
        int err_code_ = (code);                                                                    \
        (err_set)((e), err_code_, __VA_ARGS__);                                                    \
        -err_code_;                                                                                \
    })
