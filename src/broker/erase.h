/* erase.h - removes the files of callers and sandboxes, in any amount and at any depth. */
#pragma once

#include "base/err.h"

/* Removes everything in a directory. -EBUSY when something is mounted there. */
int erase_tree(int dir, struct err *e);
