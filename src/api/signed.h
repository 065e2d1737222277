/* signed.h - signed routes: who holds one may use one port of one sandbox until it expires.
 *
 * A token is "{sandbox id}-{port}-{expires, base 36}-{signature}"; ids contain hyphens, so it is
 * read from the right. The signature is 8 hexadecimal digits of
 *
 *   SHA-256( BE32(len secret) secret BE32(len text) text )
 *   text = "v1\nshort\n{sandbox id}\n{port}\n{expires}\n"
 *
 * and the one character that names the key. So says the contract (9.2); 32 bits of it are what a
 * guesser must guess, so whoever verifies should also limit the rate. */
#pragma once

#include "base/str.h"

enum {
    API_SIGNATURE_MAX = 9 + 1,    /* with the NUL */
    API_ROUTE_TOKEN_BYTES = 4096, /* more is no token */
};

void api_route_sign(struct str secret, char key_id, struct str sandbox_id, uint16_t port,
                    uint64_t expires_s, char out[API_SIGNATURE_MAX]);

struct api_route {
    struct str sandbox_id; /* not empty; borrowed from the token */
    uint16_t port;         /* not 0 */
    uint64_t expires_s;
    struct str signature; /* 9 bytes: 8 digits and the key's id */
    char key_id;
};
/* Splits a token. -EINVAL for what is none: each route has exactly one spelling. */
int api_route_parse(struct str token, struct api_route *ret) MUST_USE;

/* Whether `token` was signed with this key and has not expired at now_s, of which the second it
 * names is the last: 0 and *ret. -EINVAL for no token, -ENOKEY when it names another key, -EACCES
 * for a wrong signature (compared in constant time), -ETIME when it is right, but too late. */
int api_route_verify(struct str secret, char key_id, struct str token, uint64_t now_s,
                     struct api_route *ret) MUST_USE;
