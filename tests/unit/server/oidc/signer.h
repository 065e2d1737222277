/* signer.h - keys and tokens of a provider, for tests: made by OpenSSL, each once per process. */
#pragma once

#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/codec.h"
#include "server/oidc/jwks.h"
#include "test.h"

static inline const char *b64(struct arena *a, const void *p, size_t n)
{
    char *out = arena_alloc(a, BASE64_TEXT_MAX(n));

    CHECK(out);
    (void)base64_encode(str_make(p, n), BASE64_URL | BASE64_NO_PAD, out);
    return out;
}

static inline EVP_PKEY *signer_new(enum jwt_alg alg)
{
    EVP_PKEY *key = alg == JWT_RS256   ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048)
                    : alg == JWT_ES256 ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")
                                       : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");

    CHECK(key);
    return key;
}

static inline const char *number_of(struct arena *a, EVP_PKEY *key, const char *name, int width)
{
    unsigned char bytes[1024];
    BIGNUM *n = NULL;
    int count;

    CHECK(EVP_PKEY_get_bn_param(key, name, &n) == 1);
    count = BN_bn2binpad(n, bytes, width ? width : BN_num_bytes(n));
    CHECK(count > 0);
    BN_free(n);
    return b64(a, bytes, (size_t)count);
}

/* One member of "keys". */
static inline const char *signer_jwk(struct arena *a, EVP_PKEY *key, enum jwt_alg alg,
                                     const char *kid)
{
    unsigned char raw[32];
    size_t n = sizeof(raw);

    switch (alg) {
    case JWT_RS256:
        return arena_printf(a,
                            "{\"kty\":\"RSA\",\"use\":\"sig\",\"alg\":\"RS256\",\"kid\":\"%s\","
                            "\"n\":\"%s\",\"e\":\"%s\"}",
                            kid, number_of(a, key, OSSL_PKEY_PARAM_RSA_N, 0),
                            number_of(a, key, OSSL_PKEY_PARAM_RSA_E, 0));
    case JWT_ES256:
        return arena_printf(
            a, "{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":\"%s\"}", kid,
            number_of(a, key, OSSL_PKEY_PARAM_EC_PUB_X, 32),
            number_of(a, key, OSSL_PKEY_PARAM_EC_PUB_Y, 32));
    default:
        CHECK(EVP_PKEY_get_raw_public_key(key, raw, &n) == 1);
        return arena_printf(a, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"%s\",\"x\":\"%s\"}",
                            kid, b64(a, raw, n));
    }
}

static inline const char *signature_of(struct arena *a, EVP_PKEY *key, enum jwt_alg alg,
                                       const char *text)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    unsigned char made[1024], raw[64];
    size_t n = sizeof(made);
    const unsigned char *at = made;
    ECDSA_SIG *sig;

    CHECK(EVP_DigestSignInit(ctx, NULL, alg == JWT_EDDSA ? NULL : EVP_sha256(), NULL, key) == 1);
    CHECK(EVP_DigestSign(ctx, made, &n, (const unsigned char *)text, strlen(text)) == 1);
    EVP_MD_CTX_free(ctx);
    if (alg != JWT_ES256)
        return b64(a, made, n);
    sig = d2i_ECDSA_SIG(NULL, &at, (long)n);
    CHECK(sig && BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32) == 32 &&
          BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32) == 32);
    ECDSA_SIG_free(sig);
    return b64(a, raw, sizeof(raw));
}

/* A token with that header, signed whatever the header says. */
static inline const char *signer_token(struct arena *a, EVP_PKEY *key, enum jwt_alg alg,
                                       const char *header, const char *claims)
{
    const char *text =
        arena_printf(a, "%s.%s", b64(a, header, strlen(header)), b64(a, claims, strlen(claims)));

    return arena_printf(a, "%s.%s", text, signature_of(a, key, alg, text));
}
