/* isolated_layer.h - what a session wrote, as the overlay keeps it: a tree of what is new or other
 * than below, with marks for what is gone. */
#pragma once

#include <sys/stat.h>

#include "execd/isolated/isolated.h"

enum { LAYER_PATH_MAX = 40 };

/* A path that walk.h takes; it holds as long as the session does. */
void layer_path(const struct isolated *s, char out[LAYER_PATH_MAX]);
/* What stands behind that in a path of the walk: "a/b". */
struct str layer_below(struct str path, const char *root);

bool layer_is_gone(const struct stat *st);       /* a mark: what is below is not there */
bool layer_is_opaque(int dir, const char *name); /* nothing of what is below shows through */
