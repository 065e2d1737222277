#include "server/oidc/jwks.h"

#include "base/sha.h"
#include "signer.h"

static struct arena a;
static EVP_PKEY *keys[JWT_ALG_COUNT];
static struct jwks set;

static const char *const headers[JWT_ALG_COUNT] = {
    [JWT_RS256] = "{\"alg\":\"RS256\",\"kid\":\"k0\"}",
    [JWT_ES256] = "{\"alg\":\"ES256\",\"kid\":\"k1\"}",
    [JWT_EDDSA] = "{\"alg\":\"EdDSA\",\"kid\":\"k2\"}",
};

static const char *set_text(void)
{
    const char *members[JWT_ALG_COUNT];

    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++) {
        char kid[8];

        (void)snprintf(kid, sizeof(kid), "k%d", (int)alg);
        members[alg] = signer_jwk(&a, keys[alg], alg, kid);
    }
    return arena_printf(&a, "{\"keys\":[%s,%s,%s]}", members[0], members[1], members[2]);
}

static void begin(void)
{
    arena_init(&a, 4 << 20);
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++)
        keys[alg] = signer_new(alg);
    CHECK_EQ(jwks_parse(&a, str_of(set_text()), &set, NULL), 0);
    CHECK_EQ(set.count, JWT_ALG_COUNT);
}

static void end(void)
{
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++)
        EVP_PKEY_free(keys[alg]);
    arena_done(&a);
}

/* 0 when the token is right by a key of the set. */
static int judge(const char *token)
{
    const struct jwk *key;
    struct jwt t;
    int r = jwt_parse(&a, str_of(token), &t, NULL);

    if (r < 0)
        return r;
    key = jwks_find(&set, &t);
    return key ? jwks_verify(key, &t, NULL) : -ENOENT;
}

TEST(jwks, verifies_signatures_of_each_algorithm)
{
    begin();
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++)
        for (int i = 0; i < 8; i++) /* numbers of ES256 have leading zeros now and then */
            CHECK_EQ(judge(signer_token(&a, keys[alg], alg, headers[alg],
                                        arena_printf(&a, "{\"sub\":\"%d\"}", i))),
                     0);
    end();
}

TEST(jwks, refuses_every_token_with_a_changed_byte)
{
    begin();
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++) {
        const char *right = signer_token(&a, keys[alg], alg, headers[alg], "{\"sub\":\"someone\"}");

        for (size_t i = 0; i < strlen(right); i += alg == JWT_EDDSA ? 1 : 9) {
            char *wrong = arena_strdup(&a, str_of(right));

            wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
            CHECK(judge(wrong) < 0);
            wrong[i] = '\0';
            CHECK(judge(wrong) < 0); /* truncated */
        }
    }
    end();
}

TEST(jwks, refuses_the_key_of_somebody_else)
{
    begin();
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++) {
        EVP_PKEY *other = signer_new(alg);

        CHECK_EQ(judge(signer_token(&a, other, alg, headers[alg], "{}")), -EACCES);
        EVP_PKEY_free(other);
    }
    end();
}

/* The public key as a shared secret, another algorithm than the key's, and no signature at all. */
TEST(jwks, refuses_a_token_that_confuses_algorithms)
{
    const char *text, *claims = "{\"sub\":\"someone\"}";
    uint8_t mac[SHA256_BYTES];

    begin();
    for (size_t i = 0; i < 3; i++) {
        const char *header = arena_printf(&a, "{\"alg\":\"%s\",\"kid\":\"k0\"}",
                                          ((const char *[]){"HS256", "none", "RS256"})[i]);

        text = arena_printf(&a, "%s.%s", b64(&a, header, strlen(header)),
                            b64(&a, claims, strlen(claims)));
        hmac_sha256_of(set.keys[0].n, str_of(text), mac);
        CHECK(judge(arena_printf(&a, "%s.%s", text, b64(&a, mac, sizeof(mac)))) < 0);
        CHECK(judge(arena_printf(&a, "%s.", text)) < 0);
        CHECK(judge(text) < 0);
    }
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++)
        for (enum jwt_alg said = 0; said < JWT_ALG_COUNT; said++)
            CHECK(said == alg || judge(signer_token(&a, keys[alg], alg, headers[said], "{}")) < 0);
    /* The name of one key with the algorithm of another. */
    CHECK_EQ(judge(signer_token(&a, keys[JWT_ES256], JWT_ES256,
                                "{\"alg\":\"ES256\",\"kid\":\"k0\"}", "{}")),
             -ENOENT);
    end();
}

TEST(jwks, finds_a_key_without_a_name_when_there_is_one_only)
{
    begin();
    CHECK_EQ(judge(signer_token(&a, keys[JWT_ES256], JWT_ES256, "{\"alg\":\"ES256\"}", "{}")), 0);
    set.keys[set.count++] = set.keys[JWT_ES256];
    CHECK_EQ(judge(signer_token(&a, keys[JWT_ES256], JWT_ES256, "{\"alg\":\"ES256\"}", "{}")),
             -ENOENT);
    CHECK_EQ(judge(signer_token(&a, keys[JWT_ES256], JWT_ES256,
                                "{\"alg\":\"ES256\",\"kid\":\"other\"}", "{}")),
             -ENOENT);
    end();
}

static int parse(const char *text)
{
    return jwks_parse(&a, str_of(text), &set, NULL);
}

TEST(jwks, leaves_out_keys_of_other_kinds)
{
    arena_init(&a, 4 << 20);
    CHECK_EQ(parse("{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"},{\"kty\":\"EC\",\"crv\":\"P-521\"},"
                   "{\"kty\":\"RSA\",\"use\":\"enc\",\"n\":\"!\"},"
                   "{\"kty\":\"RSA\",\"alg\":\"PS256\",\"n\":\"!\"},{\"kty\":5},7]}"),
             0);
    CHECK_EQ(set.count, 0);
    arena_done(&a);
}

TEST(jwks, leaves_out_broken_keys_and_keeps_the_others)
{
    const char *const broken[] = {
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", /* too small */
        "{\"kty\":\"RSA\",\"n\":\"=\",\"e\":\"AQAB\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\",\"y\":\"AAAA\"}",
    };

    begin();
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        const char *good = signer_jwk(&a, keys[JWT_EDDSA], JWT_EDDSA, "k2");

        CHECK_EQ(parse(arena_printf(&a, "{\"keys\":[%s,%s]}", broken[i], good)), 0);
        CHECK_EQ(set.count, 1);
        CHECK_EQ(judge(signer_token(&a, keys[JWT_EDDSA], JWT_EDDSA, headers[JWT_EDDSA], "{}")), 0);
    }
    end();
}

TEST(jwks, refuses_broken_sets)
{
    const char *const broken[] = {
        "", "[]", "{}", "{\"keys\":{}}", "{\"keys\":[]", "{\"keys\":[],\"keys\":[]}",
    };
    AUTO_BUF(many, 1 << 20);

    arena_init(&a, 4 << 20);
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        CHECK_EQ(parse(broken[i]), -EBADMSG);
    (void)buf_addf(&many, "{\"keys\":[0");
    for (int i = 0; i < JWKS_KEYS_MAX; i++)
        (void)buf_addf(&many, ",0");
    (void)buf_addf(&many, "]}");
    CHECK_EQ(parse(many.p), -EBADMSG);
    arena_done(&a);
}

TEST(jwks, refuses_a_point_that_is_not_on_the_curve)
{
    static char zeros[JWKS_POINT_BYTES];

    begin();
    set.keys[JWT_ES256].x = str_make(zeros, sizeof(zeros));
    set.keys[JWT_ES256].y = str_make(zeros, sizeof(zeros));
    CHECK_EQ(judge(signer_token(&a, keys[JWT_ES256], JWT_ES256, headers[JWT_ES256], "{}")),
             -EACCES);
    end();
}
