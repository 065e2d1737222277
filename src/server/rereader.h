/* rereader.h - a process that stays root to open one file, for a server that no longer is.
 *
 * The configuration may be root's alone, and is read again at SIGHUP. The process is asked by an
 * empty message and answers with a descriptor, for reading. The path is fixed at the start: a
 * server that was taken over gets nothing it has not read before. */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include <sys/types.h>

struct rereader {
    int sock;
    pid_t pid;
};
#define REREADER_NONE ((struct rereader){-EBADF, 0})

/* As root and with one thread, early: it inherits what is open and closes it. Links in the path are
 * followed now, and none later. */
int rereader_start(const char *path, struct rereader *ret, struct err *e) MUST_USE;
void rereader_stop(struct rereader *r); /* waits for its end; none is fine */

/* Opens the file. Blocks for seconds at most. */
int rereader_open(const struct rereader *r, struct err *e) MUST_USE;
