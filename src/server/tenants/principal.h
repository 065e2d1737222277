/* principal.h - who asks for something: the credential used, its tenant, its role. A value, without
 * secrets: it may be logged and stored. */
#pragma once

#include "base/str.h"

#include "base/id.h"

enum { PRINCIPAL_KEY_ID_MAX = 64, PRINCIPAL_TENANT_MAX = 64, PRINCIPAL_USER_MAX = 64 };

/* Each may do what those before it may. */
enum principal_role {
    ROLE_NONE,      /* paths that every client may request, and the gateway when it is open */
    ROLE_SANDBOX,   /* one sandbox: look at it, its data plane */
    ROLE_READ_ONLY, /* look at everything of the tenant, but into no sandbox */
    ROLE_OPERATOR,  /* make, change and open sandboxes */
    ROLE_ADMIN,     /* also pools, keys, the audit record */
};

struct principal {
    /* "key:" and the fingerprint of an API key, "sandbox:<id>" for a sandbox's token or a signed
     * route, "anonymous" without a credential, "server" for what the server does by itself,
     * "pool" and "pool:warming" for sandboxes that wait in a pool */
    char key_id[PRINCIPAL_KEY_ID_MAX];
    char tenant[PRINCIPAL_TENANT_MAX]; /* the owner of what it makes */
    enum principal_role role;
    bool everywhere;               /* it sees every tenant, not only its own */
    char sandbox[ID_UUID_MAX];     /* the only one that it may open; "" = any of the tenant */
    char user[PRINCIPAL_USER_MAX]; /* of a trusted proxy, or who signed in; "" = none */
};

#define TENANT_DEFAULT "default" /* owns what keys of the configuration make */

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
/* "read_only", "operator", "admin" or "service_admin", "sandbox"; -EINVAL for other words. */
int principal_role_parse(struct str word, enum principal_role *ret);

/* Whether what `tenant` owns exists for it. */
bool principal_sees(const struct principal *p, const char *tenant);
/* The same for a sandbox. */
bool principal_sees_sandbox(const struct principal *p, const char *tenant, const char *id);
