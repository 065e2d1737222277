/* Tokens and sets of keys of strangers: what is taken lies in bounds, and nothing verifies by
 * chance. The input is a set of keys, a line feed, a token; without a line feed it is both. */
#include <errno.h>

#include "fuzz.h"
#include "server/oidc/jwks.h"
#include "server/oidc/metadata.h"

static void check_token(struct str text, const struct jwks *keys)
{
    const struct jwt_rules rules = {.issuer = STR_INIT("https://idp.example"), .now_s = 1800000000};
    AUTO_ARENA(arena, 1 << 20);
    struct err e = {0};
    struct jwt t;
    int r = jwt_parse(&arena, text, &t, &e);

    if (r < 0) {
        FUZZ_CHECK(r == -EBADMSG || r == -EMSGSIZE || r == -ENOMEM);
        FUZZ_CHECK(e.code == -r && e.msg[0]);
        return;
    }
    FUZZ_CHECK(text.n <= JWT_BYTES_MAX && t.alg < JWT_ALG_COUNT && t.signature.n > 0);
    FUZZ_CHECK(t.claims && t.claims->type == JSON_OBJECT);
    FUZZ_CHECK(t.signed_text.p == text.p && t.signed_text.n < text.n);
    r = jwt_check(&t, &rules, &e);
    FUZZ_CHECK(r == 0 || r == -EACCES);
    for (size_t i = 0; i < keys->count; i++) { /* no private key is known */
        r = jwks_verify(&keys->keys[i], &t, &e);
        FUZZ_CHECK(r == 0 || r == -EACCES);
        FUZZ_CHECK(r < 0 || keys->keys[i].alg == t.alg);
    }
    FUZZ_CHECK(!jwks_find(keys, &t) || jwks_find(keys, &t)->alg == t.alg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size), token = text, set = text;
    static struct jwks keys;
    AUTO_ARENA(arena, 4 << 20);
    struct metadata m;
    struct err e = {0};
    int r;

    if (str_find(text, '\n') < text.n) {
        set.n = str_find(text, '\n');
        token = str_skip(text, set.n + 1);
    }
    keys.count = 0;
    r = jwks_parse(&arena, set, &keys, &e);
    FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -ENOMEM);
    FUZZ_CHECK(keys.count <= JWKS_KEYS_MAX);
    for (size_t i = 0; r == 0 && i < keys.count; i++)
        FUZZ_CHECK(keys.keys[i].alg == JWT_RS256 ? keys.keys[i].n.n >= JWKS_RSA_BYTES_MIN
                                                 : keys.keys[i].x.n == JWKS_POINT_BYTES);
    if (r < 0)
        keys.count = 0;
    check_token(token, &keys);
    r = metadata_parse(&arena, text, STR("https://idp.example"), &m, &e);
    FUZZ_CHECK(r == 0 || r == -EBADMSG || r == -ENOMEM);
    FUZZ_CHECK(r < 0 || (m.token_endpoint.n && m.jwks_uri.n));
    return 0;
}
