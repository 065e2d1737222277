/* log_file.h - where our own log goes: descriptors and files, each line to all of them.
 *
 * A file that is full becomes FILE.1, that one FILE.2, and so on; the oldest goes, and so does what
 * is older than LOG_FILE_DAYS_MAX. A descriptor keeps its number. A pipe that nobody empties costs
 * lines, and never time; of equal messages, some are left out (log_sample.h). */
#pragma once

#include "base/err.h"
#include "execd/core/log_sample.h"

enum {
    LOG_FILE_BYTES_MAX = 100 << 20,
    LOG_FILES_KEPT = 10,
    LOG_FILE_DAYS_MAX = 30,
    LOG_FILE_CHECK_MS = 10 * 1000,
    LOG_SINKS_MAX = 8,
};

struct log_file {
    struct {
        int fd;
        char *path; /* NULL = no file */
    } sinks[LOG_SINKS_MAX];
    size_t sink_count;
    struct log_sample sample;
};

/* Where $EXECD_LOG_FILE says, else wherever $OPENSANDBOX_LOG_OUTPUT lists, with commas between
 * (stdout, stderr, or a path), else `fallback`, a descriptor. */
int log_file_open(struct log_file *f, int fallback, struct err *e) MUST_USE;
void log_file_close(struct log_file *f); /* the files; standard output and error stay */
log_sink log_file_write;                 /* for log_init; `user` is the log_file */

bool log_file_is_kept_small(const struct log_file *f); /* whether there is a file to check */
/* Begins new files when it is time. Blocks for a few renames. */
void log_file_check(struct log_file *f);
