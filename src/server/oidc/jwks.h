/* jwks.h - a set of public keys (JWKS), and signatures of tokens by them.
 *
 * Parsing is pure. A key is of one algorithm, which follows from its type, never from a token: so a
 * token cannot have a public key taken for a shared secret. */
#pragma once

#include "server/oidc/jwt.h"

enum {
    JWKS_KEYS_MAX = 64,
    JWKS_RSA_BYTES_MIN = 256, /* 2048 bits */
    JWKS_RSA_BYTES_MAX = 1024,
    JWKS_POINT_BYTES = 32,
};

struct jwk {
    struct str kid; /* "" = it has none */
    enum jwt_alg alg;
    struct str n, e; /* of RSA: big-endian, without leading zeros */
    struct str x, y; /* of a point; Ed25519 has x only */
};

struct jwks {
    struct jwk keys[JWKS_KEYS_MAX];
    size_t count;
};

/* Keys of other types or uses are left out, and so are those with broken numbers or too few bits:
 * one bad key does not shut out the users of others. -EBADMSG for what is no set, or has more keys
 * than JWKS_KEYS_MAX; -ENOMEM when the arena is full. */
int jwks_parse(struct arena *a, struct str text, struct jwks *ret, struct err *e) MUST_USE;

/* The key that the token names; when it names none, the only one of its algorithm. NULL = none. */
const struct jwk *jwks_find(const struct jwks *keys, const struct jwt *t);

/* Whether this key made the signature: 0, or -EACCES. */
int jwks_verify(const struct jwk *key, const struct jwt *t, struct err *e) MUST_USE;
