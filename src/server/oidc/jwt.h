/* jwt.h - signed JSON Web Tokens in their compact form: reading, and the rules for their claims.
 *
 * Pure: bytes in, result out. A token that was parsed is a claim of somebody: it says nothing until
 * jwks_verify() found its signature right and jwt_check() its claims. */
#pragma once

#include "base/json.h"

enum {
    JWT_BYTES_MAX = 16 * 1024,
    JWT_SKEW_S = 60, /* between the clocks of issuer and server */
};

/* The only ones that are taken: none and those with a shared secret (HS256) are not among them. */
enum jwt_alg { JWT_RS256, JWT_ES256, JWT_EDDSA, JWT_ALG_COUNT };

struct jwt {
    enum jwt_alg alg;
    struct str kid;            /* which key signed it; "" = it does not say */
    struct str signed_text;    /* header and claims as sent: borrowed from the token */
    struct str signature;      /* decoded */
    const struct json *claims; /* an object */
};

/* -EBADMSG for what is no such token or not one that is taken, -EMSGSIZE for a longer one than
 * JWT_BYTES_MAX, -ENOMEM when the arena is full. */
int jwt_parse(struct arena *a, struct str text, struct jwt *ret, struct err *e) MUST_USE;

/* "RS256"; -ENOENT for another word. */
int jwt_alg_parse(struct str word, enum jwt_alg *ret) MUST_USE;

struct jwt_rules {
    struct str issuer;
    struct str audience; /* one of the token's */
    struct str nonce;    /* p == NULL: none is expected */
    bool is_id_token;    /* azp, and with several audiences its presence, count */
    int64_t now_s;       /* since 1970 */
};

/* Whether issuer, audience, times and nonce are as they should be. -EACCES with the reason. */
int jwt_check(const struct jwt *t, const struct jwt_rules *rules, struct err *e) MUST_USE;
