/* log_file.h - where execd's own log goes: each line is written to all descriptors and files.
 *
 * A full file becomes FILE.1, FILE.1 becomes FILE.2, and so on; the oldest one and those older than
 * LOG_FILE_DAYS_MAX are deleted. A descriptor keeps its number. A full pipe loses lines and never
 * blocks. Repeated messages are sampled (log_sample.h). */
#pragma once

#include "base/err.h"
#include "execd/log/log_sample.h"

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

/* Opens the file that $EXECD_LOG_FILE names, else the comma-separated list $OPENSANDBOX_LOG_OUTPUT
 * (stdout, stderr, or a path), else the descriptor `fallback`. */
int log_file_open(struct log_file *f, int fallback, struct err *e) MUST_USE;
void log_file_close(struct log_file *f); /* standard output and error stay open */
log_sink log_file_write;                 /* for log_init; `user` is the log_file */

bool log_file_is_kept_small(const struct log_file *f); /* whether there is a file to check */
/* Rotates the files that are full. Blocks for a few renames. */
void log_file_check(struct log_file *f);
