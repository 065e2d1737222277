/* spec_json.h - of what a sandbox was made, as it is kept for people to look at: limits and
 * environment, the latter without secrets. */
#pragma once

#include "api/create.h"
#include "base/buf.h"

/* {"limits":{...},"env":{...}}; values that look secret, by name or form, are "***". "env" is null
 * when there is too much of it. NULL when there is no memory; free() it. */
char *spec_json_new(const struct api_create *spec);

/* Lines of "name: value" for what spec_json_new made; nothing for other text. */
int spec_json_print(struct str json, struct buf *out);
