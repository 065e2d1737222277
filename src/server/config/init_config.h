/* init_config.h - opensandbox-server init-config: writes a first configuration file. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* The text of an example: embedded, docker, k8s (docker-zh and k8s-zh are the same as these). NULL
 * = every key, commented out. -EINVAL for another name. */
int init_config_text(const char *example, struct buf *out, struct err *e);

/* Writes it with mode 0600; path NULL is ~/.sandbox.toml. -EEXIST when the file exists, unless
 * `force` is set. Appends to `says` what was done. */
int init_config_write(const char *path, const char *example, bool force, struct buf *says,
                      struct err *e);
