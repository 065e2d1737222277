/* create.h - POST /sandboxes: parses the body, with every check that needs only the body. Checks
 * that depend on configuration, state or runtime are done elsewhere. Strings borrow from the
 * arena. */
#pragma once

#include "api/fail.h"
#include "api/limits.h"
#include "api/secret.h"
#include "api/volume.h"
#include "base/arena.h"
#include "base/json_bind.h"

enum {
    API_TIMEOUT_S_MIN = 60,
    API_ENV_MAX = 4096,
    API_ENTRYPOINT_MAX = 1024,
    API_EGRESS_RULES_MAX = 1024,
    API_RENEW_EXTEND_S_MIN = 300,
    API_RENEW_EXTEND_S_MAX = 86400,
};
/* More than 6000 years; the end can still be written as a date. */
#define API_TIMEOUT_S_MAX INT64_C(200000000000)

enum api_pull_policy {
    API_PULL_DEFAULT, /* as the server's configuration says */
    API_PULL_IF_NOT_PRESENT,
    API_PULL_ALWAYS,
    API_PULL_NEVER,
};
extern const struct json_name api_pull_names[];

struct api_create {
    struct str image; /* "" for a snapshot or a pool */
    struct str auth_user, auth_password;
    int pull_policy;        /* enum api_pull_policy */
    struct str snapshot_id; /* "" = none */
    struct str os, arch;    /* "" = not given; lower case, one of the known values */
    int64_t timeout_s;      /* 0 = no timeout */
    struct api_limits limits;
    struct json_pair
        *limit_texts; /* the same as written, with keys that `limits` has no room for */
    size_t limit_texts_count;
    struct json_pair *env; /* nulls dropped; keys not empty, without '=' */
    size_t env_count;
    struct json_pair *metadata; /* labels */
    size_t metadata_count;
    struct str *entrypoint;
    size_t entrypoint_count;
    bool network_policy, credential_proxy, secure_access, hooks; /* requested */
    bool persistent;     /* its files stay when it is stopped */
    bool stop_on_expiry; /* stopped when it expires, in place of deleted; only with the former */
    struct str network_policy_json; /* {"defaultAction":...,"egress":[...]}; "" = none */
    /* secretEnv; with any, credential_proxy and network_policy are set, too. Without a policy of
     * the request, everything is allowed, and the hosts by rules of their own. */
    struct api_secrets secrets;
    struct str idempotency;  /* not of the wire: see idempotency.h of the server; "" = none */
    struct str secrets_from; /* not of the wire: the sandbox whose values these are; "" = given */
    struct api_volume *volumes;
    size_t volumes_count;
    struct str pool_ref;     /* "" = none; with a pool most other fields are optional */
    uint32_t renew_extend_s; /* from extensions; 0 = not given */
    struct str runtime;      /* the same: a stronger or weaker runtime by name; "" = not given */
    struct json_pair *extensions; /* all of them */
    size_t extensions_count;
};

/* Must not block. On failure returns -errno and fills `f` with the answer. */
typedef int api_create_check_fn(void *user, const struct api_create *spec, struct api_fail *f);

/* Checks of the server that belong in the middle of the rules. NULL = none. */
struct api_create_host {
    int64_t timeout_s_max; /* 0 = no limit */
    /* Whether pool_ref and snapshot_id exist; no other member is set yet. */
    api_create_check_fn *check_source;
    /* Whether the server supports what is requested, except volumes, which are not set yet. */
    api_create_check_fn *check_abilities;
    void *user;
    bool secrets_kept; /* the body is a stored one: values of secretEnv are left out */
};

/* Parses the body of a request with content type `type`. On failure returns -errno and fills `f`
 * with the answer: the first mistake in the contract's order. */
int api_create_parse(struct arena *a, struct str type, struct str body,
                     const struct api_create_host *host, struct api_create *ret,
                     struct api_fail *f);

/* --- the other direction, for clients --- */

/* Maps that the parser turns into the numbers and flags of struct api_create. */
struct api_create_maps {
    struct json_pair *limits, *extensions; /* NULL: the field is left out */
    size_t limits_count, extensions_count;
};

/* Appends the body of a request to `out`: all of `spec` but limits, pool_ref, renew_extend_s,
 * runtime and hooks, and the maps. Volumes are of a host path or a claim. Values are not judged,
 * that is for the server; -EBADMSG with a message only when network_policy_json is not a policy.
 * Also -EMSGSIZE, -ENOMEM. The arena is for work. */
int api_create_write(struct arena *a, const struct api_create *spec,
                     const struct api_create_maps *maps, struct buf *out, struct err *e);
