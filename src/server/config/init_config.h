/* init_config.h - opensandbox-server init-config: writes a configuration to begin with. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* The text of an example: embedded, docker, k8s (and docker-zh, k8s-zh, which are the same). NULL =
 * every key in comments. -EINVAL for another name. */
int init_config_text(const char *example, struct buf *out, struct err *e);

/* Writes it with mode 0600; path NULL is ~/.sandbox.toml. An existing file is replaced by force
 * only, -EEXIST otherwise. Appends to `says` what was done. */
int init_config_write(const char *path, const char *example, bool force, struct buf *says,
                      struct err *e);
