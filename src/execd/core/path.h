/* path.h - paths as users write them: $NAME, ${NAME} and ~ filled in, then made absolute. Nothing
 * here looks at the file system, but for our own working directory. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { EXECD_PATH_BYTES_MAX = 4095 }; /* what the kernel takes; a sensible ceiling for results */

/* The value of a variable among "NAME=VALUE" rows that end with a NULL, or STR_NONE. Later rows
 * win, so that a request's own may stand behind the daemon's. */
struct str path_env(const char *const *env, struct str name);

/* Appends `path` with its variables and its leading "~" or "~/" (HOME) filled in. A variable nobody
 * defined is -EINVAL and all such names are listed, as is "~" without HOME and a NUL byte; a result
 * past the ceiling of `out` is -ENAMETOOLONG. A '$' that begins no name stands for itself, and so
 * does any '$' written "\$". On failure `out` is as before. "" stays "". */
int path_expand(struct str path, const char *const *env, struct buf *out, struct err *e) MUST_USE;

/* Appends `path` absolute (against our working directory) and lexically clean: no "//", ".", "..",
 * no "/" at the end. "" is the working directory. Fails as path_expand does, or as getcwd(). */
int path_clean(struct str path, struct buf *out, struct err *e) MUST_USE;

/* Both in turn: what most routes do with a path. */
int path_resolve(struct str path, const char *const *env, struct buf *out, struct err *e) MUST_USE;

/* What stands behind the last "/" of a clean path; "/" for the root. */
struct str path_base(struct str path);
/* What stands before it: "/" for a child of the root, "" for a path without any. */
struct str path_parent(struct str path);
