/* dirs.h - directories that the server makes at start-up, possibly as root. */
#pragma once

#include "server/config/config.h"

/* mkdir -p. Returns the directory, O_PATH; *ret_made tells whether it was missing. Parents get mode
 * 0755. As root it follows only symbolic links that root alone can have made: -EPERM else. */
int dirs_make(const char *path, mode_t mode, bool *ret_made, struct err *e) MUST_USE;

/* Makes a directory, mode 0700, for the account the server will run as. -EPERM when it has another
 * owner, and as dirs_make says. */
int dirs_prepare(const struct config *config, const char *path, struct err *e) MUST_USE;
