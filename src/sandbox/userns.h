/* userns.h - user namespaces of sandboxes, each with its own range of ids. */
#pragma once

#include "base/err.h"

/* Makes one that maps ids 0..count-1 to first..first+count-1 outside. No user, cgroup and time
 * namespaces can be made in it, by any system call. Returns its descriptor, the only reference.
 * Needs CAP_SETUID and CAP_SETGID over the range. Forks two children that exit at once. When the
 * kernel refuses, the error says what to do about it. */
int userns_make(uint32_t first, uint32_t count, struct err *e);
/* Makes one for ID-mapped mounts: ids from..from+count-1 on disk become first..first+count-1, and
 * id from+count becomes root outside, who owns what overlayfs makes for itself. */
int userns_make_map(uint32_t from, uint32_t first, uint32_t count, struct err *e);
