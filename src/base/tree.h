/* tree.h - whole directory trees. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Removes parent/name with all it holds, however deep; absent is fine. Links are removed, not
 * followed; what is mounted below stops it with -EBUSY. Holds two descriptors whatever the depth.
 * Nobody else may be moving directories in the tree meanwhile. May take long. */
int tree_remove(int parent, const char *name, struct err *e);
/* The same as long as no more than `most` entries go: 1 when there are more, for another call. */
int tree_remove_some(int parent, const char *name, size_t most, struct err *e);
