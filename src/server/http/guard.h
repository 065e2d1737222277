/* guard.h - steps of every request before it is routed: request id, CORS, API key.
 *
 * In the order of the contract (1.2): the id first, so that refusals carry it; preflights are
 * answered without a key. */
#pragma once

#include "net/http_server.h"
#include "server/tenants/principal.h"

enum {
    GUARD_KEYS_MAX = 16,
    GUARD_ID_BYTES_MAX = 128, /* of a client's id; a longer one is replaced */
    GUARD_CORS_ROWS = 2,
};

struct guard {
    struct str keys[GUARD_KEYS_MAX];             /* borrowed; none = open access was configured */
    struct principal principals[GUARD_KEYS_MAX]; /* who has each key */
    size_t key_count;
    /* Further keys: who has this one, NULL = nobody; whether the text contains one. May be NULL. */
    const struct principal *(*find_more)(void *user, struct str key);
    bool (*held_more)(struct str text);
    /* A request without a key: who signed in and sent it, NULL = nobody; `why` is set when it has a
     * credential that is refused. May be NULL. */
    const struct principal *(*find_user)(void *user, struct http_req *req, struct err *why);
    /* A trusted proxy names the user: whether there is this tenant. */
    bool (*has_tenant)(void *user, struct str name);
    void *user;
    bool proxied; /* auth.mode is api_key_and_user */
    bool closed;  /* users sign in: nobody else has access, also without any key */
};

/* Adds an API key, which must outlive the guard; one past GUARD_KEYS_MAX is ignored. */
void guard_add_key(struct guard *g, struct str key);

#define GUARD_KEY_HEADER   "OPEN-SANDBOX-API-KEY"
#define GUARD_USER_HEADER  "X-OpenSandbox-User"
#define GUARD_TEAM_HEADER  "X-OpenSandbox-Team"
#define GUARD_ROLES_HEADER "X-OpenSandbox-Roles"
#define GUARD_ID_HEADER    "X-Request-ID"

/* For on_request; false when it has replied. No key is needed for /, /health, /ready, /version
 * (with or without /v1), /docs, /redoc, /openapi.json, the files of /console and the paths of
 * /auth, nor for those of proxies and previews, where the gateway checks a credential. Sets req->id
 * and the principal, and adds X-Request-ID and CORS headers to the reply. */
bool guard_admit(const struct guard *g, struct http_req *req);
/* The same for a request that another server has admitted. */
void guard_admit_forwarded(struct http_req *req, const struct principal *by);
/* Whether the path is one of those above, except proxy paths. Every client may request these, and
 * /health and /ready must be answered under any load. */
bool guard_is_open_path(struct str path);
/* Whether the path is one where a user begins or ends to be signed in, which is recorded. */
bool guard_is_sign_in_path(struct str path);
/* Who sent the request: principal_nobody unless the guard or, for a proxy path, the gateway found a
 * credential. */
const struct principal *guard_principal(const struct http_req *req);
/* Keeps a copy. Out of memory, the request has principal_nobody. */
void guard_set_principal(struct http_req *req, const struct principal *principal);
/* For on_refuse: gives an id to input that is no valid request. */
void guard_refuse(struct http_req *req);

/* CORS headers that let a page of another origin read the answer: GUARD_CORS_ROWS rows, or none
 * when the request has no Origin. Any origin may read, but never with the browser's credentials. */
size_t guard_cors_rows(const struct http_req *req, struct http_header rows[GUARD_CORS_ROWS]);

/* Who has this key; NULL when it is none of ours. Takes the same time for every key of a given
 * length. */
const struct principal *guard_find_key(const struct guard *g, struct str key);
/* Whether the text contains a key; compares as str_holds_secret() does. */
bool guard_holds_key(const struct guard *g, struct str text);
