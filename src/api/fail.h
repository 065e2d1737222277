/* fail.h - why a request is refused: status, error code of the contract, and a message that says
 * what was wrong and what is allowed. A value, like struct err. */
#pragma once

#include <errno.h>

#include "base/err.h"
#include "base/str.h"

enum { API_FAIL_MESSAGE_MAX = 512 };

struct api_fail {
    int status;       /* HTTP status; 0 while unset */
    const char *code; /* static: "SANDBOX::INVALID_PARAMETER" */
    char message[API_FAIL_MESSAGE_MAX];
};

#define API_INVALID_PARAMETER "SANDBOX::INVALID_PARAMETER"

/* Returns -EBADMSG, for use as `return api_fail_set(...)`. Text that does not fit is cut at a
 * character boundary. The message must not contain secrets: name the field, not its value. */
int api_fail_set(struct api_fail *f, int status, const char *code, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* The usual case: 400 SANDBOX::INVALID_PARAMETER. */
int api_fail_invalid(struct api_fail *f, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The same with an error of the binder: "resourceLimits.cpu: expected a string, got a number".
 * ENOMEM means the request was too large and becomes 413. */
int api_fail_err(struct api_fail *f, const struct err *e);
/* The 413: the arena is full because the request is too large. */
int api_fail_memory(struct api_fail *f);

/* Makes their result visible to compilers and analysers that see only the caller's file, so that
 * they know which branches a failure takes. */
#define API_FAILED(call)                                                                           \
    ({                                                                                             \
        (call);                                                                                    \
        -EBADMSG;                                                                                  \
    })
#define api_fail_set(...)     API_FAILED((api_fail_set)(__VA_ARGS__))
#define api_fail_invalid(...) API_FAILED((api_fail_invalid)(__VA_ARGS__))
#define api_fail_err(f, e)    API_FAILED((api_fail_err)((f), (e)))
#define api_fail_memory(f)    API_FAILED((api_fail_memory)(f))

/* Untrusted text for a message, printable and shortened: "%s", api_show(key).text. */
struct api_shown {
    char text[64];
};
struct api_shown api_show(struct str s);
