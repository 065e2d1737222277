/* fields.h - numbers by name, from the flat tables of /proc and of cgroup files. */
#pragma once

#include "base/str.h"

/* The number after "name " or "name: " at the beginning of a line; " kB" may follow it. -ENOENT
 * when there is no such line, -EINVAL when no number follows. */
int fields_find(struct str text, const char *name, uint64_t *ret) MUST_USE;
