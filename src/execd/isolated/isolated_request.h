/* isolated_request.h - parses and checks the bodies of /v1/isolated requests, and fills in
 * defaults. */
#pragma once

#include "base/json_bind.h"
#include "execd/isolated/isolated.h"
#include "net/http_server.h"

enum { ISOLATED_BODY_BYTES_MAX = 64 << 10, ISOLATED_RUN_BYTES_MAX = 4 << 20 };

/* Fills in the spec of a new session; creates its workspace if missing. All functions except
 * isolated_env_filter() send the error reply themselves when they fail. */
int isolated_request_create(struct http_req *req, struct isolated *s) MUST_USE;

struct isolated_job { /* strings are in the arena */
    struct str code;
    const char *cwd;        /* NULL: the shell's current directory */
    const char *const *env; /* environment of a shell started for it, without `envs` */
    const struct json_pair *envs;
    size_t envs_count;
    bool background;     /* no timeout applies */
    uint64_t timeout_ms; /* 0 = none */
};
int isolated_request_run(struct http_req *req, struct arena *a, const struct isolated *s,
                         struct isolated_job *ret) MUST_USE;

struct isolated_commit {
    bool reset_upper_after;
};
int isolated_request_commit(struct http_req *req, struct isolated_commit *ret) MUST_USE;

/* Selects the variables of `env` that pass into a session. */
int isolated_env_filter(struct arena *a, const struct isolated_spec *spec, const char *const *env,
                        const char *const **ret) MUST_USE;
