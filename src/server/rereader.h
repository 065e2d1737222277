/* rereader.h - a process that stays root to open one file, for a server that no longer is.
 *
 * The configuration may be root's alone, and is read again at SIGHUP. The process is asked by a
 * number and answers with the same number and a descriptor, for reading: an answer that comes too
 * late is not taken for that to the next question. The path is fixed at the start: a
 * server that was taken over gets nothing it has not read before. */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include <sys/types.h>

struct rereader {
    int sock;
    pid_t pid;
    uint64_t asked; /* questions so far, the number of the last one */
};
#define REREADER_NONE ((struct rereader){-EBADF, 0, 0})

/* As root and with one thread, early: it inherits what is open and closes it. Links in the path are
 * followed now, and none later. */
int rereader_start(const char *path, struct rereader *ret, struct err *e) MUST_USE;
/* Waits for its end, and after a second no longer: it is killed then, if we still may. None is
 * fine. */
void rereader_stop(struct rereader *r);

/* Opens the file, which must be a plain one of one name. Blocks for seconds at most. */
int rereader_open(struct rereader *r, struct err *e) MUST_USE;
