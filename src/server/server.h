/* server.h - runs opensandbox-server, from a loaded configuration to its last request. */
#pragma once

#include "server/config/config.h"

/* Serves until told to stop, and returns the exit status. `options` are those the configuration was
 * loaded from; SIGHUP loads it from them again. */
int server_run(struct config *config, const struct config_options *options);
