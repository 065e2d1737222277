#include "server/oidc/jwt.h"

#include <errno.h>
#include <math.h>

#include "base/codec.h"

enum {
    TOKEN_DEPTH_MAX = 16,
    TOKEN_NODES_MAX = 4096,
    TIME_MAX = 1 << 30, /* times 8: a number of seconds until the year 2242 */
};

static const struct str alg_names[JWT_ALG_COUNT] = {
    [JWT_RS256] = STR_INIT("RS256"),
    [JWT_ES256] = STR_INIT("ES256"),
    [JWT_EDDSA] = STR_INIT("EdDSA"),
};

int jwt_alg_parse(struct str word, enum jwt_alg *ret)
{
    for (enum jwt_alg alg = 0; alg < JWT_ALG_COUNT; alg++)
        if (str_eq(word, alg_names[alg])) {
            *ret = alg;
            return 0;
        }
    return -ENOENT;
}

/* --- reading --- */

static int decode(struct arena *a, struct str text, struct str *ret, struct err *e)
{
    size_t room = BASE64_DATA_MAX(text.n), n = 0;
    char *out = arena_alloc(a, room + 1);

    if (!out)
        return err_set(e, ENOMEM, "the token needs too much memory");
    if (!text.n || base64_decode(text, BASE64_URL | BASE64_NO_PAD, out, room, &n) < 0)
        return err_set(e, EBADMSG, "a part of the token is no base64url");
    *ret = str_make(out, n);
    return 0;
}

/* JSON of which each name occurs once: two readers cannot differ over which of two counts. */
static int decode_object(struct arena *a, struct str text, struct json **ret, struct err *e)
{
    static const struct json_limits limits = {
        .text_bytes_max = JWT_BYTES_MAX,
        .nodes_max = TOKEN_NODES_MAX,
        .depth_max = TOKEN_DEPTH_MAX,
        .duplicates = JSON_DUPLICATES_REJECT,
    };
    struct str plain;
    int r = decode(a, text, &plain, e);

    if (r < 0)
        return r;
    r = json_parse(a, plain, &limits, ret, NULL);
    if (r == -ENOMEM)
        return err_set(e, ENOMEM, "the token needs too much memory");
    if (r < 0 || (*ret)->type != JSON_OBJECT)
        return err_set(e, EBADMSG, "a part of the token is no JSON object");
    return 0;
}

static int read_header(const struct json *header, struct jwt *ret, struct err *e)
{
    const struct json *kid = json_get(header, STR("kid"));
    struct str alg;

    if (json_to_str(json_get(header, STR("alg")), &alg) < 0 || jwt_alg_parse(alg, &ret->alg) < 0)
        return err_set(e, EBADMSG,
                       "the token is not signed by RS256, ES256 or EdDSA, and no other is taken");
    if (json_get(header, STR("crit")) || json_get(header, STR("b64")))
        return err_set(e, EBADMSG, "the token needs extensions that are not known");
    ret->kid = STR("");
    if (kid && json_to_str(kid, &ret->kid) < 0)
        return err_set(e, EBADMSG, "the name of the token's key is no text");
    return 0;
}

int jwt_parse(struct arena *a, struct str text, struct jwt *ret, struct err *e)
{
    struct str rest = text, header_text = STR_NONE, claims_text = STR_NONE;
    struct json *header, *claims;
    struct jwt t = {0};
    int r;

    if (text.n > JWT_BYTES_MAX)
        return err_set(e, EMSGSIZE, "the token is longer than %d bytes", JWT_BYTES_MAX);
    if (!str_cut(&rest, '.', &header_text) || !rest.p || !str_cut(&rest, '.', &claims_text) ||
        !rest.p || str_find(rest, '.') < rest.n)
        return err_set(e, EBADMSG, "the token has not three parts");
    t.signed_text = str_make(text.p, header_text.n + 1 + claims_text.n);
    r = decode_object(a, header_text, &header, e);
    if (r == 0)
        r = read_header(header, &t, e);
    if (r == 0)
        r = decode_object(a, claims_text, &claims, e);
    if (r == 0)
        r = decode(a, rest, &t.signature, e);
    if (r < 0)
        return r;
    t.claims = claims;
    *ret = t;
    return 0;
}

/* --- claims --- */

static bool is_text(const struct json *v, struct str text)
{
    struct str s;

    return json_to_str(v, &s) == 0 && str_eq(s, text);
}

/* A NumericDate (RFC 7519, 2), which may have a fraction. */
static int read_time(const struct jwt *t, const char *name, int64_t *ret)
{
    double v;

    if (json_to_double(json_get(t->claims, str_of(name)), &v) < 0 || !isfinite(v) || v < 0 ||
        v > 8.0 * TIME_MAX)
        return -EINVAL;
    *ret = (int64_t)v;
    return 0;
}

static int check_times(const struct jwt *t, int64_t now_s, struct err *e)
{
    int64_t exp, iat, nbf;

    if (read_time(t, "exp", &exp) < 0 || read_time(t, "iat", &iat) < 0)
        return err_set(e, EACCES, "the token does not say when it was made and ends");
    if (exp + JWT_SKEW_S <= now_s)
        return err_set(e, EACCES, "the token has expired");
    if (iat > now_s + JWT_SKEW_S)
        return err_set(e, EACCES, "the token is of the future: compare the clocks");
    if (!json_get(t->claims, STR("nbf")))
        return 0;
    if (read_time(t, "nbf", &nbf) < 0 || nbf > now_s + JWT_SKEW_S)
        return err_set(e, EACCES, "the token is not valid yet");
    return 0;
}

static int check_audience(const struct jwt *t, const struct jwt_rules *rules, struct err *e)
{
    const struct json *aud = json_get(t->claims, STR("aud")),
                      *azp = json_get(t->claims, STR("azp"));
    bool found = is_text(aud, rules->audience);
    size_t count = 1;

    if (aud && aud->type == JSON_ARRAY) {
        count = json_count(aud);
        json_each(one, aud)
        {
            found |= is_text(one, rules->audience);
        }
    }
    if (!found)
        return err_set(e, EACCES, "the token is for another audience");
    if (rules->is_id_token && (azp || count > 1) && !is_text(azp, rules->audience))
        return err_set(e, EACCES, "the token was given to another client");
    return 0;
}

int jwt_check(const struct jwt *t, const struct jwt_rules *rules, struct err *e)
{
    struct str sub;
    int r;

    if (!is_text(json_get(t->claims, STR("iss")), rules->issuer))
        return err_set(e, EACCES, "the token is of another issuer");
    if (json_to_str(json_get(t->claims, STR("sub")), &sub) < 0 || !sub.n)
        return err_set(e, EACCES, "the token does not say whose it is");
    r = check_audience(t, rules, e);
    if (r == 0)
        r = check_times(t, rules->now_s, e);
    if (r == 0 && rules->nonce.p && !is_text(json_get(t->claims, STR("nonce")), rules->nonce))
        return err_set(e, EACCES, "the token was made for another sign-in");
    return r;
}
