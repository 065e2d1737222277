#include "server/oidc/claims.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/sha.h"

enum { PATH_STEPS_MAX = 8, FINGERPRINT_BYTES = 12 };

int claims_role_parse(struct str word, enum principal_role *ret, bool *ret_everywhere)
{
    enum principal_role role;

    if (principal_role_parse(word, &role) < 0 || role < ROLE_READ_ONLY)
        return -EINVAL;
    *ret = role;
    *ret_everywhere = str_eq(word, STR("service_admin"));
    return 0;
}

/* A claim by its name, or by a path such as realm_access.roles. */
static const struct json *claim_at(const struct json *claims, struct str path)
{
    const struct json *at = json_get(claims, path);
    struct str step;

    if (at)
        return at;
    at = claims;
    for (int i = 0; at && str_cut(&path, '.', &step); i++)
        at = i < PATH_STEPS_MAX ? json_get(at, step) : NULL;
    return at;
}

/* Whether the claim, a text or a list of texts, has this one. */
static bool holds(const struct json *claim, struct str text)
{
    struct str s;

    if (json_to_str(claim, &s) == 0)
        return str_eq(s, text);
    if (claim && claim->type == JSON_ARRAY)
        json_each(one, claim)
        {
            if (json_to_str(one, &s) == 0 && str_eq(s, text))
                return true;
        }
    return false;
}

static int take_role(const struct json *groups, const struct config *config, struct principal *p,
                     struct err *e)
{
    const struct config_list *allowed = &config->auth_oidc.allowed_groups;
    bool admitted = allowed->count == 0;

    for (size_t i = 0; i < allowed->count; i++)
        admitted |= holds(groups, str_of(allowed->at[i]));
    if (!admitted)
        return err_set(e, EACCES, "this user is in none of auth.oidc.allowed_groups");
    for (size_t i = 0; i < config->auth_oidc.roles.count; i++) {
        const struct config_pair *row = &config->auth_oidc.roles.at[i];
        enum principal_role role;
        bool everywhere;

        if (!holds(groups, str_of(row->name)) ||
            claims_role_parse(str_of(row->value), &role, &everywhere) < 0)
            continue;
        if (role > p->role)
            p->role = role;
        p->everywhere |= everywhere;
    }
    if (p->role == ROLE_NONE)
        return err_set(e, EACCES, "this user is in no group that auth.oidc.roles gives a role");
    return 0;
}

static int take_tenant(const struct json *claims, const struct json *groups,
                       const struct config *config, struct principal *p, struct err *e)
{
    struct str tenant = str_of(config->auth_oidc.tenant);
    const struct config_pairs *rows = &config->auth_oidc.tenants;

    if (config->auth_oidc.tenant_claim[0]) {
        if (json_to_str(claim_at(claims, str_of(config->auth_oidc.tenant_claim)), &tenant) < 0)
            tenant = STR("");
    } else {
        for (size_t i = rows->count; i-- > 0;) /* the first counts */
            if (holds(groups, str_of(rows->at[i].name)))
                tenant = str_of(rows->at[i].value);
    }
    if (!tenant.n && p->everywhere)
        tenant = STR(TENANT_DEFAULT);
    if (!tenant.n || str_copy(p->tenant, sizeof(p->tenant), tenant) < 0)
        return err_set(e, EACCES, "auth.oidc gives this user no tenant");
    return 0;
}

/* What a log line can show: the user chooses some of these texts. */
static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return s.n > 0;
}

static void take_names(const struct json *claims, const struct config *config, struct str sub,
                       struct principal *p)
{
    uint8_t digest[SHA256_BYTES];
    struct hmac_sha256 h;
    size_t n = strlen(CLAIMS_PRINCIPAL);
    struct str user;

    hmac_sha256_init(&h, STR("opensandbox oidc subject"));
    hmac_sha256_add(&h, str_of(config->auth_oidc.issuer));
    hmac_sha256_add(&h, STR("\n"));
    hmac_sha256_add(&h, sub);
    hmac_sha256_end(&h, digest);
    memcpy(p->key_id, CLAIMS_PRINCIPAL, n);
    (void)hex_encode(str_make((const char *)digest, FINGERPRINT_BYTES), p->key_id + n);
    if (json_to_str(claim_at(claims, str_of(config->auth_oidc.user_claim)), &user) == 0 &&
        is_plain(user) && str_copy(p->user, sizeof(p->user), user) == 0)
        return;
    if (!is_plain(sub) || str_copy(p->user, sizeof(p->user), sub) < 0)
        memcpy(p->user, p->key_id, strlen(p->key_id) + 1);
}
static_assert(sizeof(CLAIMS_PRINCIPAL) + 2 * FINGERPRINT_BYTES <= PRINCIPAL_KEY_ID_MAX, "it fits");
static_assert((int)PRINCIPAL_USER_MAX >= (int)PRINCIPAL_KEY_ID_MAX, "a key id is a user's name");

int claims_principal(const struct json *claims, const struct config *config, struct principal *ret,
                     struct err *e)
{
    const struct json *groups = claim_at(claims, str_of(config->auth_oidc.groups_claim));
    struct principal p = {0};
    struct str sub;
    int r;

    if (json_to_str(json_get(claims, STR("sub")), &sub) < 0 || !sub.n)
        return err_set(e, EACCES, "the token does not say whose it is");
    r = take_role(groups, config, &p, e);
    if (r == 0)
        r = take_tenant(claims, groups, config, &p, e);
    if (r < 0)
        return r;
    take_names(claims, config, sub, &p);
    *ret = p;
    return 0;
}
