/* fields.h - numbers by name, from the flat tables of /proc and of control group files. */
#pragma once

#include "base/str.h"

/* The number behind "name " or "name: " at the beginning of a line; " kB" may follow it. -ENOENT
 * when there is no such line, -EINVAL when what follows is no number. */
int fields_find(struct str text, const char *name, uint64_t *ret) MUST_USE;
