/* request.h - the smaller request bodies: renewal, snapshots, pools. */
#pragma once

#include "api/fail.h"
#include "base/arena.h"

/* {"expiresAt": ...}: text as of time_parse_lenient, or a Unix time as a number. The caller checks
 * that it is in the future. */
int api_renew_parse(struct arena *a, struct str type, struct str body, int64_t *ret_expires_us,
                    struct api_fail *f);

/* {"name": ...}, or no body, or null. *ret_name is "" when none was given. */
int api_snapshot_create_parse(struct arena *a, struct str type, struct str body,
                              struct str *ret_name, struct api_fail *f);

/* POST (create) and PUT /pools: only checks the body, as no runtime has pools. */
int api_pool_parse(struct arena *a, struct str type, struct str body, bool create,
                   struct api_fail *f);
