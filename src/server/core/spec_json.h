/* spec_json.h - of what a sandbox was made, as it is kept: limits and environment for people to
 * look at, the latter without secrets; and whether it was created with secureAccess. */
#pragma once

#include "api/create.h"
#include "base/buf.h"

/* {"limits":{...},"secure_access":true,"env":{...}}, without the second when it was not asked for.
 * Values of env that look secret, by name or form, are "***". "env" is null
 * when there is too much of it. NULL when there is no memory; free() it. */
char *spec_json_new(const struct api_create *spec);

/* What of it the server itself heeds. */
struct spec_facts {
    bool secure;      /* secureAccess was asked for */
    bool execd_token; /* env has EXECD_ACCESS_TOKEN: execd asks for a token of its own */
};

/* Of what spec_json_new made. Text that is damaged counts as secure, so that access is never opened
 * by mistake. */
struct spec_facts spec_json_facts(struct str json);

/* Lines of "name: value" for what spec_json_new made; nothing for other text. */
int spec_json_print(struct str json, struct buf *out);
