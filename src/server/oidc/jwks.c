#include "server/oidc/jwks.h"

#include <errno.h>

#include "base/codec.h"

enum { SET_DEPTH_MAX = 8, SET_NODES_MAX = 8192, EXPONENT_BYTES_MAX = 8 };

static const struct str key_types[JWT_ALG_COUNT] = {
    [JWT_RS256] = STR_INIT("RSA"),
    [JWT_ES256] = STR_INIT("EC"),
    [JWT_EDDSA] = STR_INIT("OKP"),
};
static const struct str curves[JWT_ALG_COUNT] = {
    [JWT_ES256] = STR_INIT("P-256"),
    [JWT_EDDSA] = STR_INIT("Ed25519"),
};

static struct str text_of(const struct json *key, const char *name)
{
    struct str s = STR("");

    (void)json_to_str(json_get(key, str_of(name)), &s);
    return s;
}

/* Whether the key is one of the types, for signatures, and which. */
static bool is_usable(const struct json *key, enum jwt_alg *ret)
{
    struct str use = text_of(key, "use"), alg = text_of(key, "alg");

    if ((use.n && !str_eq(use, STR("sig"))))
        return false;
    for (enum jwt_alg at = 0; at < JWT_ALG_COUNT; at++) {
        enum jwt_alg said = at;

        if (!str_eq(text_of(key, "kty"), key_types[at]) ||
            (curves[at].n && !str_eq(text_of(key, "crv"), curves[at])))
            continue;
        *ret = at;
        return !alg.n || (jwt_alg_parse(alg, &said) == 0 && said == at);
    }
    return false;
}

static int take_number(struct arena *a, const struct json *key, const char *name, size_t min,
                       size_t max, struct str *ret, struct err *e)
{
    struct str text = text_of(key, name);
    size_t n = 0;
    char *out;

    if (text.n > 2 * JWKS_RSA_BYTES_MAX)
        return err_set(e, EBADMSG, "the number %s of a key is too long", name);
    out = arena_alloc(a, BASE64_DATA_MAX(text.n) + 1);
    if (!out)
        return err_set(e, ENOMEM, "the set of keys needs too much memory");
    if (base64_decode(text, BASE64_URL | BASE64_NO_PAD, out, BASE64_DATA_MAX(text.n), &n) < 0)
        return err_set(e, EBADMSG, "the number %s of a key is no base64url", name);
    *ret = str_make(out, n);
    while (min != max && ret->n && !ret->p[0]) /* of a number, not of a point */
        *ret = str_skip(*ret, 1);
    if (ret->n < min || ret->n > max)
        return err_set(e, EBADMSG, "the number %s of a key has %zu bytes", name, ret->n);
    return 0;
}

static int take_key(struct arena *a, const struct json *from, struct jwk *key, struct err *e)
{
    int r;

    key->kid = text_of(from, "kid");
    if (key->alg == JWT_RS256) {
        r = take_number(a, from, "n", JWKS_RSA_BYTES_MIN, JWKS_RSA_BYTES_MAX, &key->n, e);
        if (r == 0)
            r = take_number(a, from, "e", 1, EXPONENT_BYTES_MAX, &key->e, e);
        if (r == 0 && ((key->e.n == 1 && key->e.p[0] < 3) || !(key->e.p[key->e.n - 1] & 1)))
            r = err_set(e, EBADMSG, "the exponent of a key is none");
        return r;
    }
    r = take_number(a, from, "x", JWKS_POINT_BYTES, JWKS_POINT_BYTES, &key->x, e);
    if (r == 0 && key->alg == JWT_ES256)
        r = take_number(a, from, "y", JWKS_POINT_BYTES, JWKS_POINT_BYTES, &key->y, e);
    return r;
}

int jwks_parse(struct arena *a, struct str text, struct jwks *ret, struct err *e)
{
    static const struct json_limits limits = {
        .nodes_max = SET_NODES_MAX,
        .depth_max = SET_DEPTH_MAX,
        .duplicates = JSON_DUPLICATES_REJECT,
    };
    struct json *root;
    const struct json *keys;
    int r = json_parse(a, text, &limits, &root, e);

    if (r == -ENOMEM)
        return r;
    keys = r < 0 ? NULL : json_get(root, STR("keys"));
    if (!keys || keys->type != JSON_ARRAY)
        return err_set(e, EBADMSG, "this is no set of keys");
    if (json_count(keys) > JWKS_KEYS_MAX)
        return err_set(e, EBADMSG, "the set has %zu keys; %d are the most", json_count(keys),
                       JWKS_KEYS_MAX);
    *ret = (struct jwks){.count = 0};
    json_each(one, keys)
    {
        struct jwk *key = &ret->keys[ret->count];

        if (!is_usable(one, &key->alg))
            continue;
        r = take_key(a, one, key, e);
        if (r == -ENOMEM)
            return r;
        if (r == 0)
            ret->count++;
    }
    return 0;
}

const struct jwk *jwks_find(const struct jwks *keys, const struct jwt *t)
{
    const struct jwk *found = NULL;

    for (size_t i = 0; i < keys->count; i++) {
        const struct jwk *key = &keys->keys[i];

        if (key->alg != t->alg || (t->kid.n && !str_eq(key->kid, t->kid)))
            continue;
        if (t->kid.n)
            return key;
        if (found)
            return NULL; /* which one, it does not say */
        found = key;
    }
    return found;
}
