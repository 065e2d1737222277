/* logfile.h - a log in a file that is put aside when it has grown: log, log.1, log.2, ...
 *
 * The descriptor stays the same for good, so that a logger may write to it from any thread;
 * rotation puts another file below it. A line may still go to the old file meanwhile. */
#pragma once

#include "base/err.h"
#include "net/loop.h"
#include <sys/types.h>

struct logfile;

struct logfile_conf {
    const char *path; /* absolute */
    uint64_t bytes_max;
    unsigned backups; /* files put aside that are kept; 0 empties the file instead */
    uid_t uid;        /* whose the file and its directory become when they are made here; */
    gid_t gid;        /* -1 = nobody else's */
};

/* Opens for appending (0600), making the directories that are missing. No link is followed anywhere
 * in the path, and the file must have one name only: the path may lead through directories of the
 * account that root opens the log for. Looks at the size every second. The directory stays open, so
 * that a process that is to lose its rights can open logs before; it can put them aside afterwards
 * if the directory is the new owner's. */
int logfile_open(struct loop *loop, const struct logfile_conf *conf, struct logfile **ret_file,
                 struct err *e);
void logfile_close(struct logfile *f); /* NULL is fine */

int logfile_fd(const struct logfile *f);
/* Opens the file anew, for tools that moved it away. */
void logfile_reopen(struct logfile *f);
