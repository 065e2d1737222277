#include "execd/command/command_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"

/* Overlays of older kernels lack O_TMPFILE: then creates a named file and unlinks it at once. */
static int open_nameless(const char *dir)
{
    enum { NAME_LEN = 24 };
    auto_fd dirfd = fd_open_at(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, PATH_FREE, NULL);
    char name[NAME_LEN + 1];
    int fd;

    if (dirfd < 0)
        return dirfd;
    fd = fd_open_at(dirfd, ".", O_TMPFILE | O_RDWR, 0600, PATH_FREE, NULL);
    if (fd >= 0)
        return fd;
    id_short(name, NAME_LEN);
    fd = fd_open_at(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, PATH_FREE, NULL);
    if (fd >= 0)
        (void)unlinkat(dirfd, name, 0);
    return fd;
}

static int log_open(struct command_log *log)
{
    const char *const dirs[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm", "/"};
    int fd = -ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(dirs) && fd < 0; i++)
        if (dirs[i] && dirs[i][0])
            fd = open_nameless(dirs[i]);
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
