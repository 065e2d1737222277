#include "server/tenants/principal.h"

#include <errno.h>
#include <stdio.h>

#include "base/sha.h"

enum { FINGERPRINT_BYTES = 6 };

const struct principal principal_server = {"server", TENANT_DEFAULT, ROLE_ADMIN, true, "", ""};
const struct principal principal_pool = {"pool", TENANT_DEFAULT, ROLE_ADMIN, true, "", ""};
const struct principal principal_warming = {
    "pool:warming", TENANT_DEFAULT, ROLE_ADMIN, true, "", ""};
const struct principal principal_nobody = {"anonymous", TENANT_DEFAULT, ROLE_NONE, false, "", ""};
const struct principal principal_anyone = {"anonymous", TENANT_DEFAULT, ROLE_ADMIN, true, "", ""};

struct principal principal_of_key(struct str key)
{
    struct principal p = {"key:", TENANT_DEFAULT, ROLE_ADMIN, true, "", ""};
    uint8_t digest[SHA256_BYTES];
    size_t n = strlen(p.key_id);

    /* Bound to this use: the hash of a key alone may serve to look it up elsewhere. */
    hmac_sha256_of(STR("opensandbox key id"), key, digest);
    for (size_t i = 0; i < FINGERPRINT_BYTES; i++, n += 2)
        (void)snprintf(p.key_id + n, sizeof(p.key_id) - n, "%02x", digest[i]);
    return p;
}

struct principal principal_of_sandbox(struct str id)
{
    struct principal p = {"", TENANT_DEFAULT, ROLE_SANDBOX, false, "", ""};

    (void)snprintf(p.key_id, sizeof(p.key_id), "sandbox:%.*s", STR_ARG(id));
    (void)snprintf(p.sandbox, sizeof(p.sandbox), "%.*s", STR_ARG(id));
    return p;
}

bool principal_is_of_pool(const char *key_id)
{
    return strcmp(key_id, principal_pool.key_id) == 0 ||
           strcmp(key_id, principal_warming.key_id) == 0;
}

static const char *const role_names[] = {
    [ROLE_NONE] = "none",         [ROLE_SANDBOX] = "sandbox", [ROLE_READ_ONLY] = "read_only",
    [ROLE_OPERATOR] = "operator", [ROLE_ADMIN] = "admin",
};

const char *principal_role_name(enum principal_role role)
{
    return role_names[role];
}

int principal_role_parse(struct str word, enum principal_role *ret)
{
    if (str_eq(word, STR("service_admin"))) /* as proxies of the original's design say it */
        word = STR("admin");
    for (enum principal_role role = ROLE_SANDBOX; role < ARRAY_LEN(role_names); role++)
        if (str_eq(word, str_of(role_names[role]))) {
            *ret = role;
            return 0;
        }
    return -EINVAL;
}

bool principal_sees(const struct principal *p, const char *tenant)
{
    return p->everywhere || strcmp(p->tenant, tenant) == 0;
}

bool principal_sees_sandbox(const struct principal *p, const char *tenant, const char *id)
{
    return principal_sees(p, tenant) && (!p->sandbox[0] || strcmp(p->sandbox, id) == 0);
}
