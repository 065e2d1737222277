/* bootstrap.h - starts execd in a foreign image. It does what images/execd/bootstrap.sh does, but
 * the image need not contain a shell. For start-up: BLOCKS. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

/* Creates the file of environment variables if it is missing. If $EXECD_BOOTSTRAP_PRE_SCRIPT names
 * a script and the image has a shell, the shell runs the script and then executes this program
 * again with `argv` and the script's exports; the call does not return. Returns otherwise. */
void bootstrap_prepare(const char *const *argv);

/* Chooses the entrypoint: $BOOTSTRAP_CMD in a shell; else, if words[0] is "-c", the remaining words
 * in a shell; else the words themselves. Without words nothing runs, and the sandbox stays until it
 * is told to end. -ENOENT: a shell is needed and there is none. */
int bootstrap_entry(struct arena *a, const char *const *words, const char *const **ret_argv,
                    struct err *e) MUST_USE;
