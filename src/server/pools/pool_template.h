/* pool_template.h - what the sandboxes of a pool are made of: the template of POST /pools, in
 * either of its forms, as the body of POST /sandboxes. */
#pragma once

#include "api/create.h"
#include "base/buf.h"

enum { POOL_TEMPLATE_MAX = 512 << 10 }; /* bytes of the body */

/* Appends the body to `out`. The forms are
 *
 *   {"image": {"uri": ...}, "entrypoint"?, "env"?, "resourceLimits"?, ..., "warmUp"?}
 *   {"spec": {"containers": [{"image": ..., "command"?, "args"?, "env"?, "resources"?}]},
 * "warmUp"?}
 *
 * the first with any field of POST /sandboxes but timeout, metadata and extensions, which are those
 * of each claim. *ret_warm_up is the command to run in each sandbox; "" = none. It borrows from the
 * template. */
int pool_template_write(const struct json *template, struct buf *out, struct str *ret_warm_up,
                        struct api_fail *f);
/* Reads such a body, with the checks of the server; host NULL = without. Messages begin with
 * "template.". */
int pool_template_parse(struct arena *a, struct str body, const struct api_create_host *host,
                        struct api_create *ret, struct api_fail *f);
/* Appends the file that gives later commands of a sandbox these variables: that of a claim, see
 * src/execd/core/envs.h. Fails when one of them cannot be given so. */
int pool_env_write(const struct json_pair *env, size_t count, struct buf *out, struct api_fail *f);
