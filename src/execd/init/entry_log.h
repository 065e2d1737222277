/* entry_log.h - the last of what the entrypoint printed, in a file of bounded size.
 *
 * The form of the file is that of api/report.h. Nothing is buffered here: what was added can be
 * read outside at once. Blocks for as long as the file system does. */
#pragma once

#include "base/str.h"

struct entry_log {
    int fd; /* -EBADF: everything is thrown away */
    uint64_t written;
    uint64_t marks,
        marked_ms; /* times that were set; when the last one was, by the monotonic clock */
};

/* Starts an empty log in `fd`, which stays the caller's. */
int entry_log_init(struct entry_log *log, int fd) MUST_USE;

/* Appends. On failure the rest of `data` is lost, and the log is as good as before. */
int entry_log_add(struct entry_log *log, struct str data) MUST_USE;
