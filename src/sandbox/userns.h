/* userns.h - user namespaces of sandboxes, each with a range of ids of its own. */
#pragma once

#include "base/err.h"

/* Makes one whose ids 0..count-1 are first..first+count-1 outside, and in which no user, cgroup and
 * time namespaces can be made, by whatever call. Returns its descriptor; nothing else holds it.
 * Needs CAP_SETUID and CAP_SETGID over the range. Forks two children that end at once. Where the
 * kernel refuses, the error says what to do about it. */
int userns_make(uint32_t first, uint32_t count, struct err *e);
