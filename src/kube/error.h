/* error.h - why a request failed, as a value.
 *
 * err.code says what the caller may do; err.msg has the API server's own message:
 *
 *   EBUSY      no connection: the API server has not seen the request
 *   ETIMEDOUT  the connection was lost or the deadline passed: it may have acted
 *   ENOENT     404
 *   EEXIST     409 AlreadyExists
 *   ESTALE     409 otherwise: the object changed meanwhile, read it again
 *   ERESTART   410: a list or watch is too old, begin again
 *   EINVAL     400, 422, and other refusals of what was sent
 *   EACCES     401, 403
 *   EAGAIN     429, and a full queue of our own: later
 *   EIO        5xx, and answers that make no sense
 *   ECANCELED  by the caller */
#pragma once

#include "base/err.h"
#include "base/json.h"

enum { KUBE_REASON_MAX = 64 };

struct kube_error {
    struct err err;
    int status;                   /* of HTTP; 0 when no answer came */
    char reason[KUBE_REASON_MAX]; /* of the Status: "NotFound", "Conflict"; "" = none */
    uint32_t retry_after_ms;      /* what the server asked for; 0 = nothing */
};

/* From an answer that is no success, whose body is a Status or any text. Returns -code. */
int kube_error_of(int status, struct str body, struct str retry_after, struct kube_error *ret);
/* From a Status object, such as that of a watch's ERROR event. */
int kube_error_of_status(const struct json *status, struct kube_error *ret);
