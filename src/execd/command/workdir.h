/* workdir.h - the directory a request wants something to run in. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Fills in `cwd` with the variables of `env` and looks whether it is a directory. *ret_path lives
 * in the arena; an empty `cwd` leaves it as it is. The sentences are those that clients know. */
int workdir_resolve(struct arena *a, struct str cwd, const char *const *env, const char **ret_path,
                    struct err *e) MUST_USE;

/* The same for one that is made when it is not there, with its parents. */
int workdir_make(struct arena *a, struct str cwd, const char *const *env, const char **ret_path,
                 struct err *e) MUST_USE;
