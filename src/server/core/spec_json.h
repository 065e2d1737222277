/* spec_json.h - the stored form of what a sandbox was made of: limits and environment for people to
 * read, the environment without secrets; and whether it was created with secureAccess. */
#pragma once

#include "api/create.h"
#include "base/buf.h"
#include "server/core/idempotency.h"
#include "server/store/seal.h"

/* {"limits":{...},"secure_access":true,"request":"...","pool":"name","env":{...}}. "secure_access"
 * only if requested; "persistent" and "stop_on_expiry" the same; "execd_token": true if env has
 * EXECD_ACCESS_TOKEN, however large it is; "pool" only if it comes from one;
 * "secretEnv" without values only if it has any.
 * The request is as of spec_request.h, without env, and left out when it is too large. If it is
 * persistent, "sealed" is the request with env, by the seal and for this id; without a seal, env
 * is in "request". Values of env that look secret, by name or form, are "***". "env" is null when
 * it is too large. NULL when out of memory; free() it. */
char *spec_json_new(const struct api_create *spec, const struct seal *seal, struct str id);

/* The request that was sealed; NULL without one, or when the seal or id is another. free() it. */
char *spec_json_unseal(struct str json, const struct seal *seal, struct str id);

/* The facts in it that the server acts on. */
struct spec_facts {
    bool secure;                     /* secureAccess was requested */
    bool execd_token;                /* env has EXECD_ACCESS_TOKEN: execd requires its own token */
    bool persistent, stop_on_expiry; /* as of struct api_create */
    struct api_limits limits;        /* without gpus */
};

/* Reads the text of spec_json_new. Damaged text counts as secure, so that access is never opened by
 * mistake. */
struct spec_facts spec_json_facts(struct str json);

/* The mark of idempotency.h, "" = none. */
void spec_json_idempotency(struct str json, char ret[IDEMPOTENCY_MARK_MAX]);

/* The pool that the sandbox comes from; NULL when from none. free() it. */
char *spec_json_pool(struct str json);

/* secretEnv as shown to clients, "" = none. free() it. */
char *spec_json_secrets(struct str json);

/* Prints lines of "name: value" for the text of spec_json_new; nothing for other text. */
int spec_json_print(struct str json, struct buf *out);
