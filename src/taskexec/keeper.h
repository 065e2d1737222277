/* keeper.h - the process that runs one task and writes down how it ended, whatever becomes of the
 * executor. It is this program again, with other arguments. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Starts a keeper for dir/name. Returns once it has written its pid. main_container: run the
 * task in
 * the namespaces of that container (sidecar mode); NULL = in ours. */
int keeper_start(int dir, const char *name, const char *main_container, struct err *e);

/* Whether these are the arguments of a keeper: then keeper_main runs the task and never
 * returns. */
bool keeper_is_wanted(int argc, char **argv);
int keeper_main(int argc, char **argv);
