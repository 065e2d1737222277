#include "server/core/principal.h"

#include <stdio.h>

#include "base/sha.h"

enum { FINGERPRINT_BYTES = 6 };

const struct principal principal_server = {"server", TENANT_DEFAULT, ROLE_ADMIN};
const struct principal principal_pool = {"pool", TENANT_DEFAULT, ROLE_ADMIN};
const struct principal principal_warming = {"pool:warming", TENANT_DEFAULT, ROLE_ADMIN};
const struct principal principal_nobody = {"anonymous", TENANT_DEFAULT, ROLE_NONE};
const struct principal principal_anyone = {"anonymous", TENANT_DEFAULT, ROLE_ADMIN};

struct principal principal_of_key(struct str key)
{
    struct principal p = {"key:", TENANT_DEFAULT, ROLE_ADMIN};
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
    struct principal p = {"", TENANT_DEFAULT, ROLE_SANDBOX};

    (void)snprintf(p.key_id, sizeof(p.key_id), "sandbox:%.*s", STR_ARG(id));
    return p;
}

bool principal_is_of_pool(const char *key_id)
{
    return strcmp(key_id, principal_pool.key_id) == 0 ||
           strcmp(key_id, principal_warming.key_id) == 0;
}

const char *principal_role_name(enum principal_role role)
{
    static const char *const names[] = {
        [ROLE_NONE] = "none",
        [ROLE_SANDBOX] = "sandbox",
        [ROLE_ADMIN] = "admin",
    };

    return names[role];
}
