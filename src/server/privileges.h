/* privileges.h - how the server gives up root. */
#pragma once

#include "server/config/config.h"

/* As root: switches to the configured account for good. Otherwise only sets no_new_privs. */
int privileges_drop(const struct config *config, struct err *e);
