/* tree.h - whole directory trees. */
#pragma once

#include "base/err.h"

/* Removes parent/name with all it holds, however deep; absent is fine. Links are removed, not
 * followed; what is mounted below stops it with -EBUSY. Holds two descriptors whatever the depth.
 * Nobody else may be moving directories in the tree meanwhile. May take long. */
int tree_remove(int parent, const char *name, struct err *e);
