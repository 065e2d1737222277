/* command_log.h - the last of what a command printed, in a file without a name.
 *
 * Bytes are counted from the first ever printed. A log that is full forgets its oldest. Nobody else
 * can open the file, which is made for the first byte, if not before, and goes with its descriptor.
 * It lies in TMPDIR, /tmp, /var/tmp, /dev/shm or /, whichever takes it first: any of them may be
 * missing, read-only or full. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { COMMAND_LOG_BYTES_MAX = 64 << 20 };

struct command_log {
    int fd;            /* -EBADF: none yet, or given up */
    bool closed;       /* given up */
    uint64_t written;  /* bytes ever printed */
    uint64_t lost;     /* all before this offset, to a disk that took no more */
    uint64_t capacity; /* so many are kept */
};
#define COMMAND_LOG_NONE(bytes) ((struct command_log){.fd = -EBADF, .capacity = (bytes)})

/* Makes the file now, while nobody waits. Where that fails, the first byte tries again. */
void command_log_open(struct command_log *log);
/* Gives back a file that nothing was written to: what comes late makes another. */
void command_log_spare(struct command_log *log);
void command_log_close(struct command_log *log); /* none is fine */

/* Appends. On failure that output, and all before it, is as good as overwritten. */
int command_log_add(struct command_log *log, struct str data) MUST_USE;

/* Whether there is nothing to read and never will be. */
static inline bool command_log_is_gone(const struct command_log *log)
{
    return log->closed || (log->fd < 0 && log->written > 0);
}
/* Where reading can begin: at `offset`, or at the oldest byte that is still there. */
uint64_t command_log_seek(const struct command_log *log, uint64_t offset);
/* Reads up to `size` bytes from `offset` on into `out`: how many, 0 at the end. -ESTALE when they
 * are no longer there, -EIO when the file is not what we wrote. */
ssize_t command_log_read(const struct command_log *log, uint64_t offset, char *out, size_t size);
/* What the file takes. */
uint64_t command_log_bytes(const struct command_log *log);
