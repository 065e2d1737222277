/* tree.h - directory trees: made and removed. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

/* Makes a directory and those above it, with `mode` minus the umask; existing ones are fine.
 * Follows symbolic links. Allocates nothing. */
int tree_make(const char *path, mode_t mode) MUST_USE;

/* Whether a directory that was just opened for reading has no entry: 1, 0 or -errno. Allocates
 * nothing. */
int tree_is_empty(int dir) MUST_USE;

/* Removes parent/name recursively, to any depth; it need not exist. Removes symbolic links without
 * following them; fails with -EBUSY at a mount point below it. Uses two descriptors at any depth.
 * No other process may move directories in the tree meanwhile. May take long. */
int tree_remove(int parent, const char *name, struct err *e);
/* The same, but removes at most `most` entries: 1 when some are left, for another call. */
int tree_remove_some(int parent, const char *name, size_t most, struct err *e);
