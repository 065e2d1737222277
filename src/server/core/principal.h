/* principal.h - who asks for something: the credential used, its tenant, its role. A value, without
 * secrets: it may be logged and stored. */
#pragma once

#include "base/str.h"

enum { PRINCIPAL_KEY_ID_MAX = 64, PRINCIPAL_TENANT_MAX = 64 };

enum principal_role {
    ROLE_NONE,    /* paths that every client may request, and the gateway when it is open */
    ROLE_SANDBOX, /* the data plane of one sandbox */
    ROLE_ADMIN,   /* everything */
};

struct principal {
    /* "key:" and the fingerprint of an API key, "sandbox:<id>" for a sandbox's token or a signed
     * route, "anonymous" without a credential, "server" for what the server does by itself,
     * "pool" and "pool:warming" for sandboxes that wait in a pool */
    char key_id[PRINCIPAL_KEY_ID_MAX];
    char tenant[PRINCIPAL_TENANT_MAX];
    enum principal_role role;
};

#define TENANT_DEFAULT "default" /* the only one, so far */

extern const struct principal principal_server;
extern const struct principal principal_nobody; /* anonymous, without a role */
extern const struct principal principal_anyone; /* anonymous at a server without keys: an admin */

/* Owners of a sandbox that nobody has claimed: ready to be claimed, and not ready, or not any more.
 * A server that finds the latter at its start removes them. */
extern const struct principal principal_pool;
extern const struct principal principal_warming;

/* The fingerprint is a part of a hash: one cannot compute the key from it, but test a guess of it.
 * So a key must not be guessable, which holds without a fingerprint, too. */
struct principal principal_of_key(struct str key);
struct principal principal_of_sandbox(struct str id);

bool principal_is_of_pool(const char *key_id); /* of either of the two owners above */

const char *principal_role_name(enum principal_role role); /* "admin" */
