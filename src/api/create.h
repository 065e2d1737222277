/* create.h - POST /sandboxes: the body into C, with every check it can be given by itself. What
 * depends on configuration, state or runtime is left to those. Strings borrow from the arena. */
#pragma once

#include "api/fail.h"
#include "api/limits.h"
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
/* Past 6000 years, and so that its end can still be written as a date. */
#define API_TIMEOUT_S_MAX INT64_C(200000000000)

struct api_create {
    struct str image; /* "" when from a snapshot or a pool */
    struct str auth_user, auth_password;
    struct str snapshot_id; /* "" = none */
    struct str os, arch;    /* "" = not asked for; lower case, one of the known ones */
    int64_t timeout_s;      /* 0 = never */
    struct api_limits limits;
    struct json_pair *env; /* nulls dropped; keys not empty, without '=' */
    size_t env_count;
    struct json_pair *metadata; /* labels */
    size_t metadata_count;
    struct str *entrypoint;
    size_t entrypoint_count;
    bool network_policy, credential_proxy, secure_access, hooks; /* asked for */
    struct str network_policy_json; /* {"defaultAction":...,"egress":[...]}; "" = none */
    struct api_volume *volumes;
    size_t volumes_count;
    struct str pool_ref;     /* "" = none; then little else need be given */
    uint32_t renew_extend_s; /* of extensions; 0 = not asked for */
};

/* Must not block. On failure returns -errno, and `f` is the answer. */
typedef int api_create_check_fn(void *user, const struct api_create *spec, struct api_fail *f);

/* What only the server knows, but is asked for in the middle of the rules. NULL = nothing. */
struct api_create_host {
    int64_t timeout_s_max; /* 0 = no limit */
    /* Whether there are pool_ref and snapshot_id; no other member can be relied on yet. */
    api_create_check_fn *check_source;
    /* Whether all but volumes, which are not there yet, can be had. */
    api_create_check_fn *check_abilities;
    void *user;
};

/* body: of a request whose content type was `type`. On failure returns -errno, and `f` is the
 * answer: the first mistake in the contract's order. */
int api_create_parse(struct arena *a, struct str type, struct str body,
                     const struct api_create_host *host, struct api_create *ret,
                     struct api_fail *f);
