/* log_rotate.h - puts a log file aside: log becomes log.1, log.1 becomes log.2, and so on. */
#pragma once

#include "base/defs.h"

/* Renames dir/name and its older versions, of which `kept` stay; the oldest is replaced. One that
 * cannot be renamed is replaced by the next. -errno when the file itself could not be renamed. */
int log_rotate(int dir, const char *name, unsigned kept) MUST_USE;
/* Removes those of the older versions that were last written before `oldest` (time(2)). */
void log_rotate_drop(int dir, const char *name, unsigned kept, long long oldest);
