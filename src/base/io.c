#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/time.h"

enum {
    READ_CHUNK_BYTES = 64 * 1024,
    TEMP_TRIES_MAX = 16,
    TEMP_ID_LEN = 12,
};
/* The kernel moves at most this much per call (MAX_RW_COUNT). */
#define IO_CALL_MAX ((size_t)0x7ffff000)

static size_t io_ask(size_t n)
{
    return n > 1 && fault_hit(FAULT_SHORT_IO) ? 1 : min_size(n, IO_CALL_MAX);
}

/* Waits until the descriptor is ready. A regular file always is. */
static int io_wait(int fd, short events, uint64_t deadline)
{
    if (fd < 0)
        return -EBADF; /* poll() would ignore it and wait */
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int r = poll(&p, 1, deadline_left_ms(deadline));

        if (r > 0)
            return p.revents & POLLNVAL ? -EBADF : 0; /* POLLERR, POLLHUP: the next call fails */
        if (r < 0 && errno != EINTR)
            return -errno;
        if (r == 0 && deadline_passed(deadline))
            return -ETIMEDOUT;
    }
}

int io_read_full(int fd, void *p, size_t n, uint64_t deadline, size_t *ret_n)
{
    bool wait = deadline != DEADLINE_NEVER; /* without a deadline, wait only after EAGAIN */
    size_t done = 0;

    while (done < n) {
        int r = wait ? io_wait(fd, POLLIN, deadline) : 0;
        ssize_t got;

        if (r < 0)
            return r;
        got = read(fd, (char *)p + done, io_ask(n - done));
        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno == EAGAIN && !deadline_passed(deadline))
            wait = true;
        else if (errno != EINTR)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
    }
    *ret_n = done;
    return 0;
}

int io_pread_full(int fd, void *p, size_t n, off_t offset, size_t *ret_n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = pread(fd, (char *)p + done, io_ask(n - done), offset + (off_t)done);

        if (got == 0)
            break;
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return -errno;
    }
    *ret_n = done;
    return 0;
}

/* One write that does not block where the kernel allows that. A large write to a blocking pipe
 * could block past the deadline; PIPE_BUF bytes fit whenever poll() reports POLLOUT. */
static ssize_t io_write_some(int fd, struct str data, uint64_t deadline)
{
    size_t n = io_ask(data.n);
    ssize_t sent = send(fd, data.p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent >= 0 || errno != ENOTSOCK)
        return sent;
    if (deadline != DEADLINE_NEVER)
        n = min_size(n, PIPE_BUF);
    return write(fd, data.p, n);
}

int io_write_full(int fd, struct str data, uint64_t deadline)
{
    bool wait = deadline != DEADLINE_NEVER;

    while (data.n > 0) {
        int r = wait ? io_wait(fd, POLLOUT, deadline) : 0;
        ssize_t sent;

        if (r < 0)
            return r;
        sent = io_write_some(fd, data, deadline);
        if (sent >= 0)
            data = str_skip(data, (size_t)sent);
        else if (errno == EAGAIN && !deadline_passed(deadline))
            wait = true;
        else if (errno != EINTR)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
    }
    return 0;
}

/* Returns `too_long` when the file has more data. */
static int io_expect_end(int fd, int too_long, uint64_t deadline)
{
    size_t got = 0;
    char extra;
    int r = io_read_full(fd, &extra, 1, deadline, &got);

    return r < 0 ? r : got ? too_long : 0;
}

/* Appends until the end of the file, whatever size stat reports. */
static int io_read_rest(int fd, size_t bytes_max, uint64_t deadline, struct buf *out)
{
    size_t room = out->max - out->n;
    size_t left = min_size(bytes_max, room);

    while (left > 0) {
        size_t want = min_size(left, READ_CHUNK_BYTES), got = 0;
        int r = buf_reserve(out, want);

        if (r == 0)
            r = io_read_full(fd, out->p + out->n, want, deadline, &got);
        if (r < 0)
            return r;
        buf_claim(out, got);
        left -= got;
        if (got < want)
            return 0;
    }
    return io_expect_end(fd, bytes_max <= room ? -EFBIG : -EMSGSIZE, deadline);
}

/* Reads a descriptor that was just opened from `path`. */
static int io_read_all(int fd, const char *path, size_t bytes_max, uint64_t deadline,
                       struct buf *out, struct err *e)
{
    size_t before = out->n;
    int r = io_read_rest(fd, bytes_max, deadline, out);

    if (r == 0)
        return 0;
    buf_cut(out, before);
    if (r == -EFBIG)
        return err_set(e, EFBIG, "read '%s': longer than %zu bytes", path, bytes_max);
    return err_sys(e, -r, "read '%s'", path);
}

int io_read_file(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e)
{
    auto_fd fd = fd_open_at(dirfd, path, O_RDONLY | O_NOCTTY, 0, PATH_FREE, e);

    return fd < 0 ? fd : io_read_all(fd, path, bytes_max, DEADLINE_NEVER, out, e);
}

int io_read_regular(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e)
{
    auto_fd fd = fd_open_at(dirfd, path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0, PATH_FREE, e);
    struct stat st;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return err_sys(e, errno, "read '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "read '%s': not a regular file", path);
    return io_read_all(fd, path, bytes_max, deadline_in_ms(0), out, e);
}

/* Creates a new file next to `name`, with a name that no other writer uses. */
static int io_open_temp(int dirfd, const char *name, mode_t mode, char temp[NAME_MAX + 1],
                        struct err *e)
{
    char id[TEMP_ID_LEN + 1];

    if (name[0] == '\0' || strchr(name, '/') || strlen(name) + TEMP_ID_LEN + 2 > NAME_MAX)
        return err_set(e, EINVAL, "write '%s': not a plain file name", name);
    for (int i = 0; i < TEMP_TRIES_MAX; i++) {
        int fd;

        id_short(id, TEMP_ID_LEN);
        snprintf(temp, NAME_MAX + 1, ".%s.%s", name, id);
        fd = openat(dirfd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST && errno != EINTR)
            break;
    }
    return err_sys(e, errno, "create '%s'", temp);
}

static int io_fill_temp(int fd, struct str data, mode_t mode)
{
    int r = io_write_full(fd, data, DEADLINE_NEVER);

    if (r < 0)
        return r;
    if (fchmod(fd, mode) < 0 || fsync(fd) < 0) /* fchmod: the umask must not narrow the mode */
        return -errno;
    return 0;
}

/* dirfd may be AT_FDCWD or O_PATH, which fsync does not accept. */
static int io_sync_dir(int dirfd)
{
    auto_fd fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int io_write_file_atomic(int dirfd, const char *name, struct str data, mode_t mode, struct err *e)
{
    char temp[NAME_MAX + 1];
    auto_fd fd = io_open_temp(dirfd, name, mode, temp, e);
    int r;

    if (fd < 0)
        return fd;
    r = io_fill_temp(fd, data, mode);
    if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(dirfd, temp, 0);
        return err_sys(e, -r, "write '%s'", name);
    }
    r = io_sync_dir(dirfd);
    return r < 0 ? err_sys(e, -r, "sync the directory of '%s'", name) : 0;
}
