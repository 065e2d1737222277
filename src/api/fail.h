/* fail.h - why a request cannot be granted: status, code of the contract, and a sentence that says
 * what was wrong and what would be right. A value, like struct err. */
#pragma once

#include <errno.h>

#include "base/err.h"
#include "base/str.h"

enum { API_FAIL_MESSAGE_MAX = 512 };

struct api_fail {
    int status;       /* of HTTP; 0 while unset */
    const char *code; /* static: "SANDBOX::INVALID_PARAMETER" */
    char message[API_FAIL_MESSAGE_MAX];
};

#define API_INVALID_PARAMETER "SANDBOX::INVALID_PARAMETER"

/* Returns -EBADMSG, so that `return api_fail_set(...)` reads well. Text that does not fit is cut at
 * a character boundary. The message must not repeat secrets: name the field, not its value. */
int api_fail_set(struct api_fail *f, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The common case: 400 SANDBOX::INVALID_PARAMETER. */
int api_fail_invalid(struct api_fail *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same with the story of a binder: "resourceLimits.cpu: expected a string, got a number". What
 * ran out of memory was too large, and is 413. */
int api_fail_err(struct api_fail *f, const struct err *e);
/* The 413: an arena is full, and how full it gets is the request's doing. */
int api_fail_memory(struct api_fail *f);

/* Their result where a compiler or analyser that reads only the caller's file can see it, and knows
 * which branches a failure takes. */
#define API_FAILED(call)                                                                           \
    ({                                                                                             \
        (call);                                                                                    \
        -EBADMSG;                                                                                  \
    })
#define api_fail_set(...)     API_FAILED((api_fail_set)(__VA_ARGS__))
#define api_fail_invalid(...) API_FAILED((api_fail_invalid)(__VA_ARGS__))
#define api_fail_err(f, e)    API_FAILED((api_fail_err)((f), (e)))
#define api_fail_memory(f)    API_FAILED((api_fail_memory)(f))

/* A stranger's text, printable and cut short, for a message: "%s", api_show(key).text. */
struct api_shown {
    char text[64];
};
struct api_shown api_show(struct str s);
