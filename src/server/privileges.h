/* privileges.h - how the server gives up root. */
#pragma once

#include "server/config/config.h"

/* As root: switches for good to the configured account, and to these groups besides its own.
 * Otherwise only sets no_new_privs. */
int privileges_drop(const struct config *config, const gid_t *groups, size_t group_count,
                    struct err *e);
