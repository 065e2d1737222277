/* rereader.h - a process that stays root to open one file, for a server that has dropped root.
 *
 * The configuration file may be readable by root only, and is read again at SIGHUP. The server
 * sends a number; the process answers with that number and a read-only descriptor, so that a late
 * answer is not taken for the answer to the next question. The path is fixed at the start: a
 * compromised server gets no file that it has not read before. */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include <sys/types.h>

struct rereader {
    int sock;
    pid_t pid;
    uint64_t asked; /* number of the last question, counted from 1 */
};
#define REREADER_NONE ((struct rereader){-EBADF, 0, 0})

/* Call as root, early, while there is one thread: the process closes what it inherits. Symbolic
 * links in the path are resolved now, and none is followed later. */
int rereader_start(const char *path, struct rereader *ret, struct err *e) MUST_USE;
/* Waits up to a second for the process to end, then kills it if permitted. REREADER_NONE is
 * fine. */
void rereader_stop(struct rereader *r);

/* Opens the file, which must be a regular file with one hard link. Blocks for seconds at most. */
int rereader_open(struct rereader *r, struct err *e) MUST_USE;
