/* command_log.h - the last of what a background command printed, in a file without a name.
 *
 * Bytes are counted from the first ever printed. A log that is full forgets its oldest. Nobody else
 * can open the file, and it goes with its descriptor. It lies in TMPDIR, /tmp, /var/tmp, /dev/shm
 * or /, whichever takes it first: any of them may be missing, read-only or full. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { COMMAND_LOG_BYTES_MAX = 64 << 20 };

struct command_log {
    int fd;            /* -EBADF: none, or given up */
    uint64_t written;  /* bytes ever printed */
    uint64_t capacity; /* of which so many are kept */
};

int command_log_open(struct command_log *log, uint64_t capacity, struct err *e) MUST_USE;
void command_log_close(struct command_log *log); /* none is fine */

/* Appends. On failure that output is lost, as if it had been overwritten at once. */
int command_log_add(struct command_log *log, struct str data) MUST_USE;

/* Where reading can begin: at `offset`, or at the oldest byte that is still there. */
uint64_t command_log_seek(const struct command_log *log, uint64_t offset);
/* Reads up to `size` bytes from `offset` on into `out`: how many, 0 at the end. -ESTALE when they
 * are no longer there. */
ssize_t command_log_read(const struct command_log *log, uint64_t offset, char *out, size_t size);
/* What the file takes. */
uint64_t command_log_bytes(const struct command_log *log);
