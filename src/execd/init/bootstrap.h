/* bootstrap.h - execd as what starts in a foreign image: what images/execd/bootstrap.sh does, where
 * there need not be a shell. For start-up: BLOCKS. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

/* The file of variables, which is made when it is missing, and $EXECD_BOOTSTRAP_PRE_SCRIPT. A
 * script, and a shell for it, run first: the shell then runs this program again with `argv`, and
 * what the script exported. Returns otherwise. */
void bootstrap_prepare(const char *const *argv);

/* What to run: $BOOTSTRAP_CMD in a shell; or with "-c" in front the words behind it in a shell; or
 * the words themselves; or, when there are none, nothing: the sandbox stays until it is told to
 * end. -ENOENT when there is no shell for it. */
int bootstrap_entry(struct arena *a, const char *const *words, const char *const **ret_argv,
                    struct err *e) MUST_USE;
