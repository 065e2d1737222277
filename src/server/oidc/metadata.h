/* metadata.h - what a provider says of itself: its discovery document. Pure. */
#pragma once

#include "base/json.h"

struct metadata {
    struct str authorization_endpoint, token_endpoint, jwks_uri;
    bool secret_in_body; /* the client's secret goes there, and not into Authorization */
};

/* -EBADMSG for what is no such document, is of another issuer, or names an address that is neither
 * https nor of this machine; -ENOMEM when the arena is full. */
int metadata_parse(struct arena *a, struct str text, struct str issuer, struct metadata *ret,
                   struct err *e) MUST_USE;
/* The id_token of a token endpoint's answer. -EBADMSG. */
int metadata_id_token(struct arena *a, struct str answer, struct str *ret, struct err *e) MUST_USE;
