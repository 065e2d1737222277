/* volume_names.h - names of volumes, as a tenant says them and as the runtime knows them.
 *
 * The runtime has one set of names. Those of the tenant "default" are in it as they are; "data" of
 * tenant "acme" is "t--acme--data" there. No name of a tenant has "--", so that there is one way to
 * read that; and a client may not say a name that begins with "t--", unless it sees all tenants. */
#pragma once

#include "api/create.h"
#include "server/tenants/principal.h"

enum { VOLUME_NAME_MAX = 253 + 1 };

/* The name of the runtime. -ENOENT for one that cannot be the principal's, -EMSGSIZE for one that
 * is too long. */
int volume_name_inside(const struct principal *by, struct str name, char ret[VOLUME_NAME_MAX]);
/* The name as the principal says it; false when it is another tenant's. */
bool volume_name_outside(const struct principal *by, struct str name, struct str *ret);

/* Sets the names of the runtime in what a principal asked for. Refuses directories of the host to
 * all but the tenant "default": they are not of one tenant. */
int volume_names_set(struct arena *a, const struct principal *by, struct api_create *spec,
                     struct api_fail *f);
