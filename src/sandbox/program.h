/* program.h - the program every sandbox begins with, as a copy that can be run and nothing else. */
#pragma once

#include "base/err.h"

/* Copies the file into memory, sealed against every change and readable by nobody but root of the
 * host. That root inside may not read it makes the kernel treat a process that runs it as the
 * host's, whatever user namespace it is in: its files below /proc and its memory are out of reach
 * for all processes inside. Returns a descriptor to execute. */
int program_copy(const char *path, struct err *e);
