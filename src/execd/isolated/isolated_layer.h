/* isolated_layer.h - the upper layer of a session's overlay: a tree of new and changed files, with
 * whiteouts for removed ones. */
#pragma once

#include <sys/stat.h>

#include "execd/isolated/isolated.h"

enum { LAYER_PATH_MAX = 40 };

/* Path of the layer for walk.h; valid while the session exists. */
void layer_path(const struct isolated *s, char out[LAYER_PATH_MAX]);
/* The part of a walk's path below `root`: "a/b". */
struct str layer_below(struct str path, const char *root);

bool layer_is_gone(const struct stat *st);       /* a whiteout: hides the lower entry */
bool layer_is_opaque(int dir, const char *name); /* an opaque directory: hides all lower entries */
