/* spec_request.h - the request that a sandbox was made by, as text, to make others like it.
 *
 * The text has all of the request but credentials of a registry and values of secretEnv. It is kept
 * in memory with the environment; in the store without, as values may be secret: then those of
 * spec_json.h are used, and one that was hidden there must be given anew. */
#pragma once

#include "api/create.h"
#include "base/buf.h"

/* NULL when it is too large, or has a field that cannot be written; free() it. */
char *spec_request_new(const struct api_create *spec, bool with_env);

/* Reads it: `request` if there is one, else what the stored `spec` has; 409 when neither has
 * enough. `given` are variables that take the place of those of the same name, or are added. */
int spec_request_read(struct arena *a, struct str request, struct str spec,
                      const struct json_pair *given, size_t given_count, struct api_create *ret,
                      struct api_fail *f);
