/* workdir.h - the working directory that a request asks for. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct child_user;

/* Expands `cwd` with the variables of `env` and checks that it is a directory. *ret_path lives in
 * the arena; an empty `cwd` leaves it unchanged. Error messages have the wording that clients know.
 */
int workdir_resolve(struct arena *a, struct str cwd, const char *const *env, const char **ret_path,
                    struct err *e) MUST_USE;

/* The same, but creates the directory and its parents if missing, as `user` (child_fs_enter). */
int workdir_make(struct arena *a, struct str cwd, const char *const *env,
                 const struct child_user *user, const char **ret_path, struct err *e) MUST_USE;
