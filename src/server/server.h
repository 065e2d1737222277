/* server.h - opensandbox-server as a whole: from a configuration to its last request. */
#pragma once

#include "server/config/config.h"

/* Serves until told to stop. `options` are what the configuration was loaded from, for SIGHUP. The
 * exit status. */
int server_run(struct config *config, const struct config_options *options);
