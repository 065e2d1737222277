/* forks.h - makes sandboxes of a running one's files: a hidden snapshot, and sandboxes of it.
 *
 * The snapshot's record goes when the sandboxes are there; they keep its files. Loop thread only.
 */
#pragma once

#include "api/request.h"
#include "server/core/sandboxes.h"

/* Called exactly once, on the loop. `made` has `count` sandboxes, none when fail is not NULL: then
 * those that were made are being deleted. */
typedef void fork_done_fn(void *user, struct sandbox *const *made, size_t count,
                          const struct api_fail *fail);

/* Makes sandboxes like `sb`, with what the request changes; each with an id, token and expiry of
 * its own. `timeout_s_max` as of struct api_create_host. Arguments are copied. */
void sandbox_fork(struct sandbox *sb, const struct principal *by, const struct api_fork *request,
                  int64_t timeout_s_max, fork_done_fn *done, void *user);
