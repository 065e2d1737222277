/* challenge.h - WWW-Authenticate (RFC 9110 11.6.1): how a registry wants to be asked. Pure. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

struct image_challenge {
    bool basic, bearer;
    struct str realm, service, scope; /* of Bearer; STR_NONE when not given */
};

/* Adds what one header value offers; schemes other than these two are skipped. -EPROTO for a value
 * that two readers could understand differently: a parameter given twice, text between them. */
int image_challenge_parse(struct arena *a, struct str value, struct image_challenge *ret,
                          struct err *e);
