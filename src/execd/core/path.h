/* path.h - paths as users write them: expands $NAME, ${NAME} and ~, then makes the path absolute.
 * Of the file system only execd's working directory is consulted. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum { EXECD_PATH_BYTES_MAX = 4095 }; /* the kernel's limit (PATH_MAX - 1), also used for results */

/* The value of a variable among NULL-terminated "NAME=VALUE" rows, or STR_NONE. Later rows win, so
 * the variables of a request can follow those of execd. */
struct str path_env(const char *const *env, struct str name);

/* Appends `path` with its variables and its leading "~" or "~/" (HOME) expanded. -EINVAL for
 * undefined variables (the message lists all of them), "~" without HOME, and a NUL byte;
 * -ENAMETOOLONG past the ceiling of `out`. A '$' without a name after it stands for itself, as does
 * any '$' written "\$". On failure `out` is unchanged. "" stays "". */
int path_expand(struct str path, const char *const *env, struct buf *out, struct err *e) MUST_USE;

/* Appends `path` made absolute (against execd's working directory) and lexically clean: no "//",
 * ".", "..", and no trailing "/". "" is the working directory. Fails as path_expand or getcwd() do.
 */
int path_clean(struct str path, struct buf *out, struct err *e) MUST_USE;

/* path_expand, then path_clean: what most routes need. */
int path_resolve(struct str path, const char *const *env, struct buf *out, struct err *e) MUST_USE;

/* The last component of a clean path; "/" for the root. */
struct str path_base(struct str path);
/* All before the last component: "/" for a child of the root, "" for a path without "/". */
struct str path_parent(struct str path);
