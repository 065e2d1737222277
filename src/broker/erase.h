/* erase.h - removes the files of callers and sandboxes, in any amount and at any depth. */
#pragma once

#include "base/err.h"

/* Removes everything in a directory. -EBUSY when something is mounted there. */
int erase_tree(int dir, struct err *e);
/* The same, but removes about `most` entries: 1 when some are left, for another call. */
int erase_some(int dir, uint32_t most, struct err *e);
