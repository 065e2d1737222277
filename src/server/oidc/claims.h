/* claims.h - who a token is about, as a principal. Pure.
 *
 * The rules are those of [auth.oidc]: somebody in no group that a role is mapped to gets none, and
 * is refused, and so is somebody without a tenant. */
#pragma once

#include "base/json.h"
#include "server/config/config.h"
#include "server/tenants/principal.h"

#define CLAIMS_PRINCIPAL "oidc:" /* begins key_id; a part of a hash of issuer and subject follows */

/* A role as the configuration says it; service_admin is an admin of all tenants. -EINVAL for
 * another word. */
int claims_role_parse(struct str word, enum principal_role *ret, bool *ret_everywhere) MUST_USE;

/* Claims that were checked. -EACCES with the reason. */
int claims_principal(const struct json *claims, const struct config *config, struct principal *ret,
                     struct err *e) MUST_USE;
