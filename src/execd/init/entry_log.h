/* entry_log.h - keeps the end of the entrypoint's output in a file of bounded size.
 *
 * api/report.h defines the file format. Nothing is buffered: added data can be read from outside at
 * once. Blocks for as long as the file system does. */
#pragma once

#include "base/str.h"

struct entry_log {
    int fd; /* -EBADF: all output is discarded */
    uint64_t written;
    uint64_t marks, marked_ms; /* number of time marks; CLOCK_MONOTONIC of the last one */
};

/* Starts an empty log in `fd`. The caller keeps ownership of `fd`. */
int entry_log_init(struct entry_log *log, int fd) MUST_USE;

/* Appends `data`. On failure the rest of `data` is lost, but the log stays valid and usable. */
int entry_log_add(struct entry_log *log, struct str data) MUST_USE;
