/* spec_json.h - of what a sandbox was made, as it is kept: limits and environment for people to
 * look at, the latter without secrets; and whether it was created with secureAccess. */
#pragma once

#include "api/create.h"
#include "base/buf.h"

/* {"limits":{...},"secure_access":true,"env":{...}}, without the second when it was not asked for.
 * Values of env that look secret, by name or form, are "***". "env" is null
 * when there is too much of it. NULL when there is no memory; free() it. */
char *spec_json_new(const struct api_create *spec);

/* Whether what spec_json_new made was of a request with secureAccess; also when `json` is damaged,
 * so that access is never opened by mistake. */
bool spec_json_is_secure(struct str json);

/* Lines of "name: value" for what spec_json_new made; nothing for other text. */
int spec_json_print(struct str json, struct buf *out);
