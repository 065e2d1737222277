/* metrics_group.h - finds our own cgroup if no files were passed in: in a container that another
 * runtime created. Supports cgroup v1 and v2, with and without a cgroup namespace. */
#pragma once

#include "execd/metrics/metrics.h"

/* Opens the files and fills in limits that are not set, from the group that `groups` (the text of
 * /proc/self/cgroup) names below `root` ("/sys/fs/cgroup") and from its ancestors, as far as
 * visible. False, and no change, if there is no limit or a file is missing. Reads a few small
 * files. */
bool metrics_find_group(struct metrics_source *s, const char *root, struct str groups);
/* Same, for the cgroup of this process. */
bool metrics_find_own_group(struct metrics_source *s);
