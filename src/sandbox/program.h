/* program.h - the first program of every sandbox, as a copy that can only be executed. */
#pragma once

#include "base/err.h"

/* Copies the file into a memfd, sealed against changes and readable only by root of the host. As
 * root inside cannot read the file, the kernel treats a process that runs it as the host's, in any
 * user namespace (not dumpable): no process inside can access its memory or its files in /proc.
 * Returns a descriptor to execute. */
int program_copy(const char *path, struct err *e);
