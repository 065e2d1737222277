/* metrics_group.h - our own control group, where nobody handed us its files: in a container of
 * somebody else's making. Control groups v1 and v2, with and without a namespace of their own. */
#pragma once

#include "execd/metrics/metrics.h"

/* Fills in the files, and the limits that are not given, from the group that `groups` (the text of
 * /proc/self/cgroup) names below `root` ("/sys/fs/cgroup"), and from the groups above it as far as
 * they can be seen. False when there is no limit, or not all of the files: then nothing is changed.
 * Reads a few small files. */
bool metrics_find_group(struct metrics_source *s, const char *root, struct str groups);
/* The same for this process. */
bool metrics_find_own_group(struct metrics_source *s);
