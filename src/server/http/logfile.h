/* logfile.h - a log file that is rotated when it has grown: log, log.1, log.2, ...
 *
 * The descriptor number never changes, so that a logger may write to it from any thread; rotation
 * replaces the file behind it (dup3). A line may still go to the old file meanwhile. */
#pragma once

#include "base/err.h"
#include "net/loop.h"
#include <sys/types.h>

struct logfile;

struct logfile_conf {
    const char *path; /* absolute */
    uint64_t bytes_max;
    unsigned backups; /* rotated files to keep; 0 truncates the file instead */
    uid_t uid;        /* owner of the file and its directory when they are created here; */
    gid_t gid;        /* -1 = unchanged */
};

/* Opens for appending (0600) and creates missing directories. Follows no symbolic link, and refuses
 * a file with several hard links: root may open a log below directories of another account. Checks
 * the size every second. Keeps the directory open, so that a process can open logs before it drops
 * privileges; it can rotate them later if the new account owns the directory. */
int logfile_open(struct loop *loop, const struct logfile_conf *conf, struct logfile **ret_file,
                 struct err *e);
void logfile_close(struct logfile *f); /* NULL is fine */

int logfile_fd(const struct logfile *f);
/* Opens the path again, after a tool has moved the file away. */
void logfile_reopen(struct logfile *f);
