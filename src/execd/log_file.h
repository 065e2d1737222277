/* log_file.h - a log of bounded size: a file that is full becomes FILE.1, that one FILE.2, and so
 * on; the oldest goes. The descriptor keeps its number. */
#pragma once

#include "base/err.h"

enum {
    LOG_FILE_BYTES_MAX = 10 << 20,
    LOG_FILES_KEPT = 3,
    LOG_FILE_CHECK_MS = 10 * 1000,
    LOG_FILE_PATH_MAX = 1024
};

struct log_file {
    int fd;
    char path[LOG_FILE_PATH_MAX]; /* "" = no file */
};

/* Where $EXECD_LOG_FILE says, else the first that $OPENSANDBOX_LOG_OUTPUT lists (stdout, stderr, or
 * a path), else `fallback`, a descriptor. */
int log_file_open(struct log_file *f, int fallback, struct err *e) MUST_USE;
/* Begins a new one when it is time. Blocks for a few renames. */
void log_file_check(struct log_file *f);
