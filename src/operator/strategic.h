/* strategic.h - Kubernetes' strategic merge patch, applied here: for shardPatches and
 * shardTaskPatches.
 *
 * Maps merge, null deletes, lists of the pod's known fields merge by their key, other lists are
 * replaced. The directives $patch (replace, delete, merge), $retainKeys,
 * $setElementOrder/<list> and
 * $deleteFromPrimitiveList/<list> are understood. Pure. */
#pragma once

#include "base/json.h"

enum strategic_schema {
    STRATEGIC_POD,  /* lists of a Pod merge by key */
    STRATEGIC_NONE, /* every list is replaced: tasks */
};

/* The patched copy, in the arena. -EINVAL and the path for a patch that does not fit, -ENOMEM. */
int strategic_apply(struct arena *a, const struct json *target, const struct json *patch,
                    enum strategic_schema schema, struct json **ret, struct err *e);
