/* jws_verify.c - signatures of tokens, by OpenSSL. */
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include "server/oidc/jwks.h"

enum { DER_BYTES_MAX = 80, POINT_TEXT_BYTES = 1 + 2 * JWKS_POINT_BYTES };

static const unsigned char *bytes_of(struct str s)
{
    return (const unsigned char *)s.p;
}

/* --- keys --- */

static EVP_PKEY *key_from(const char *type, OSSL_PARAM_BLD *from)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    OSSL_PARAM *params = from ? OSSL_PARAM_BLD_to_param(from) : NULL;
    EVP_PKEY *key = NULL;

    if (ctx && params && EVP_PKEY_fromdata_init(ctx) == 1)
        (void)EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params);
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(ctx);
    return key;
}

static EVP_PKEY *rsa_key(const struct jwk *k)
{
    BIGNUM *n = BN_bin2bn(bytes_of(k->n), (int)k->n.n, NULL);
    BIGNUM *e = BN_bin2bn(bytes_of(k->e), (int)k->e.n, NULL);
    OSSL_PARAM_BLD *from = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;

    if (n && e && from && OSSL_PARAM_BLD_push_BN(from, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
        OSSL_PARAM_BLD_push_BN(from, OSSL_PKEY_PARAM_RSA_E, e) == 1)
        key = key_from("RSA", from);
    OSSL_PARAM_BLD_free(from);
    BN_free(n);
    BN_free(e);
    return key;
}

/* A point that is not on the curve is refused by OpenSSL. */
static EVP_PKEY *ec_key(const struct jwk *k)
{
    unsigned char point[POINT_TEXT_BYTES] = {4}; /* uncompressed */
    OSSL_PARAM_BLD *from = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;

    memcpy(point + 1, k->x.p, JWKS_POINT_BYTES);
    memcpy(point + 1 + JWKS_POINT_BYTES, k->y.p, JWKS_POINT_BYTES);
    if (from &&
        OSSL_PARAM_BLD_push_utf8_string(from, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(from, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)) == 1)
        key = key_from("EC", from);
    OSSL_PARAM_BLD_free(from);
    return key;
}

static EVP_PKEY *key_of(const struct jwk *k)
{
    switch (k->alg) {
    case JWT_RS256:
        return rsa_key(k);
    case JWT_ES256:
        return ec_key(k);
    case JWT_EDDSA:
        return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, bytes_of(k->x), k->x.n);
    case JWT_ALG_COUNT:
        break;
    }
    return NULL;
}

/* --- signatures --- */

/* The two numbers of an ES256 signature in the form that OpenSSL reads; 0 = they are none. */
static size_t ec_signature(struct str raw, unsigned char out[DER_BYTES_MAX])
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r, *s;
    int n = 0;

    if (sig && raw.n == 2 * JWKS_POINT_BYTES) {
        r = BN_bin2bn(bytes_of(raw), JWKS_POINT_BYTES, NULL);
        s = BN_bin2bn(bytes_of(raw) + JWKS_POINT_BYTES, JWKS_POINT_BYTES, NULL);
        if (r && s && ECDSA_SIG_set0(sig, r, s) == 1) {
            n = i2d_ECDSA_SIG(sig, &out); /* 72 bytes at most */
        } else {
            BN_free(r);
            BN_free(s);
        }
    }
    ECDSA_SIG_free(sig);
    return n > 0 ? (size_t)n : 0;
}

static bool verify(EVP_PKEY *key, enum jwt_alg alg, struct str text, struct str signature)
{
    const EVP_MD *digest = alg == JWT_EDDSA ? NULL : EVP_sha256();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool right =
        ctx && EVP_DigestVerifyInit(ctx, NULL, digest, NULL, key) == 1 &&
        EVP_DigestVerify(ctx, bytes_of(signature), signature.n, bytes_of(text), text.n) == 1;

    EVP_MD_CTX_free(ctx);
    return right;
}

int jwks_verify(const struct jwk *k, const struct jwt *t, struct err *e)
{
    unsigned char der[DER_BYTES_MAX];
    struct str signature = t->signature;
    EVP_PKEY *key = k->alg == t->alg ? key_of(k) : NULL;
    bool right = false;

    if (k->alg == JWT_ES256)
        signature = str_make((const char *)der, ec_signature(t->signature, der));
    if (key && signature.n)
        right = verify(key, k->alg, t->signed_text, signature);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return right ? 0 : err_set(e, EACCES, "the signature of the token is wrong");
}
