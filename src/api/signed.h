/* signed.h - signed routes: a token that gives access to one port of one sandbox until it expires.
 *
 * A token is "{sandbox id}-{port}-{expires, base 36}-{signature}"; ids contain hyphens, so it is
 * parsed from the right. The signature is 8 hexadecimal digits of
 *   SHA-256( BE32(len secret) secret BE32(len text) text )
 *   text = "v1\nshort\n{sandbox id}\n{port}\n{expires}\n"
 * and one character that names the key (contract 9.2). It has only 32 bits, so a verifier should
 * also limit the rate of attempts. */
#pragma once

#include "base/str.h"

enum {
    API_SIGNATURE_MAX = 9 + 1,    /* with the NUL */
    API_ROUTE_TOKEN_BYTES = 4096, /* longer text is not a token */
};

void api_route_sign(struct str secret, char key_id, struct str sandbox_id, uint16_t port,
                    uint64_t expires_s, char out[API_SIGNATURE_MAX]);

struct api_route {
    struct str sandbox_id; /* not empty; borrowed from the token */
    uint16_t port;         /* not 0 */
    uint64_t expires_s;
    struct str signature; /* 9 bytes: 8 digits and the key id */
    char key_id;
};
/* Splits a token. -EINVAL when malformed: each route has exactly one valid spelling. */
int api_route_parse(struct str token, struct api_route *ret) MUST_USE;

/* Verifies that `token` was signed with this key and has not expired at now_s (the expiry second
 * itself is still valid): 0 and *ret. -EINVAL for a malformed token, -ENOKEY when it names another
 * key, -EACCES for a wrong signature (compared in constant time), -ETIME when it is correct but
 * expired. */
int api_route_verify(struct str secret, char key_id, struct str token, uint64_t now_s,
                     struct api_route *ret) MUST_USE;
