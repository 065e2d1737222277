#include "execd/command/command_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"

static int log_open(struct command_log *log)
{
    int fd = fd_nameless(getenv("TMPDIR"));

    log->fd = fd < 0 ? -EBADF : fd;
    return fd < 0 ? fd : 0;
}

void command_log_open(struct command_log *log)
{
    (void)log_open(log);
}

void command_log_spare(struct command_log *log)
{
    if (log->written == 0)
        fd_close(take_fd(&log->fd));
}

void command_log_close(struct command_log *log)
{
    log->closed = true;
    fd_close(take_fd(&log->fd));
}

int command_log_add(struct command_log *log, struct str data)
{
    int r = log->fd >= 0 || log->closed ? 0 : log_open(log);

    while (r >= 0 && log->fd >= 0 && data.n > 0) {
        uint64_t at = log->written % log->capacity;
        size_t n = min_size(data.n, log->capacity - at);

        r = fd_pwrite_all(log->fd, data.p, n, (off_t)at);
        if (r < 0)
            break;
        log->written += n;
        data = str_skip(data, n);
    }
    log->written += data.n;
    if (data.n > 0)
        log->lost = log->written;
    return r;
}

uint64_t command_log_seek(const struct command_log *log, uint64_t offset)
{
    uint64_t oldest = log->written > log->capacity ? log->written - log->capacity : 0;

    oldest = oldest < log->lost ? log->lost : oldest;
    return offset < oldest ? oldest : offset;
}

ssize_t command_log_read(const struct command_log *log, uint64_t offset, char *out, size_t size)
{
    uint64_t at = offset % log->capacity;
    size_t n = 0;
    int r;

    if (log->closed || command_log_seek(log, offset) != offset)
        return -ESTALE;
    if (offset >= log->written)
        return 0;
    size = min_size(min_size(size, log->written - offset), log->capacity - at);
    r = io_pread_full(log->fd, out, size, (off_t)at, &n);
    if (r < 0)
        return r;
    return n < size ? -EIO : (ssize_t)size;
}

uint64_t command_log_bytes(const struct command_log *log)
{
    uint64_t bytes = log->written < log->capacity ? log->written : log->capacity;

    return log->fd < 0 ? 0 : bytes;
}
