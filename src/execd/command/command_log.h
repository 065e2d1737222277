/* command_log.h - the latest output of a command, in an unnamed file (O_TMPFILE).
 *
 * Offsets count from the first byte ever printed. A full log drops its oldest bytes. No other
 * process can open the file. It is created for the first byte at the latest, and vanishes when its
 * descriptor is closed. It is in the first of TMPDIR, /tmp, /var/tmp, /dev/shm and / that accepts
 * it: any of them may be missing, read-only or full. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum { COMMAND_LOG_BYTES_MAX = 64 << 20 };

struct command_log {
    int fd;            /* -EBADF: none yet, or closed */
    bool closed;       /* for good */
    uint64_t written;  /* bytes ever printed */
    uint64_t lost;     /* bytes before this offset are lost: the disk was full */
    uint64_t capacity; /* bytes kept */
};
#define COMMAND_LOG_NONE(bytes) ((struct command_log){.fd = -EBADF, .capacity = (bytes)})

/* Creates the file early, while no caller waits for it. If that fails, the first byte tries again.
 */
void command_log_open(struct command_log *log);
/* Closes a file without content; late output creates another one. */
void command_log_spare(struct command_log *log);
void command_log_close(struct command_log *log); /* no-op without a file */

/* Appends. On failure this output and all before it count as overwritten. */
int command_log_add(struct command_log *log, struct str data) MUST_USE;

/* Whether there is nothing to read and never will be. */
static inline bool command_log_is_gone(const struct command_log *log)
{
    return log->closed || (log->fd < 0 && log->written > 0);
}
/* The offset where reading can begin: `offset`, or that of the oldest byte kept. */
uint64_t command_log_seek(const struct command_log *log, uint64_t offset);
/* Reads up to `size` bytes from `offset` into `out`. Returns the number read, 0 at the end; -ESTALE
 * when they were overwritten, -EIO when the file is shorter than expected. */
ssize_t command_log_read(const struct command_log *log, uint64_t offset, char *out, size_t size);
/* Size of the file. */
uint64_t command_log_bytes(const struct command_log *log);
