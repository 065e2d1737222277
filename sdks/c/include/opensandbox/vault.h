/* vault.h - the credential vault of a sandbox: secrets that its requests carry and its code never
 * sees. The sandbox was created with credential_proxy, and a policy that allows the hosts by rules.
 *
 * Answers have "revision", "credentials[0].name" and "bindings[0].name" and so on, never a value;
 * ret_answer may be NULL. Before the first create all others are -ENOENT. For a secret in one
 * variable struct osb_secret of sandbox.h is less work. */
#pragma once

#include <opensandbox/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

struct osb_credential {
    const char *name;
    const char *value; /* for "basic": Base64 of user:password */
};

/* Which requests get which credential. Lists are NULL-terminated; NULL = the server's default. */
struct osb_binding {
    const char *name;
    const char *const *hosts;   /* "api.example.com", "*.example.com"; never NULL */
    const char *const *schemes; /* "https", "http"; default https */
    const char *const *methods, *const *paths;
    const char *type;       /* "bearer", "basic", "apiKey", "customHeaders" */
    const char *credential; /* its name; not of customHeaders */
    const char *header;     /* of apiKey: the name of the header */
    /* Of customHeaders: names of headers, and of their credentials as values. */
    const struct osb_pair *headers;
    size_t header_count;
};

struct osb_vault_change {
    size_t size;
    int64_t expected_revision; /* 0 = any; another one is -EBUSY */
    const struct osb_credential *add_credentials, *replace_credentials;
    size_t add_credential_count, replace_credential_count;
    const struct osb_binding *add_bindings, *replace_bindings;
    size_t add_binding_count, replace_binding_count;
    const char *const *delete_credentials, *const *delete_bindings; /* NULL-terminated names */
};
#define OSB_VAULT_CHANGE .size = sizeof(struct osb_vault_change)

/* -EBUSY when there is one. */
int osb_vault_create(struct osb_sandbox *sandbox, const struct osb_credential *credentials,
                     size_t credential_count, const struct osb_binding *bindings,
                     size_t binding_count, struct osb_answer **ret_answer);
int osb_vault_get(struct osb_sandbox *sandbox, struct osb_answer **ret_answer);
/* All of it at once, or nothing. */
int osb_vault_patch(struct osb_sandbox *sandbox, const struct osb_vault_change *change,
                    struct osb_answer **ret_answer);
int osb_vault_delete(struct osb_sandbox *sandbox);
/* One of them, by name. */
int osb_vault_get_credential(struct osb_sandbox *sandbox, const char *name,
                             struct osb_answer **ret_answer);
int osb_vault_get_binding(struct osb_sandbox *sandbox, const char *name,
                          struct osb_answer **ret_answer);

#ifdef __cplusplus
}
#endif
