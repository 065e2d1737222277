#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/id.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum { OPEN_TRIES_MAX = 32, NAMELESS_ID_LEN = 24 };

void fd_close(int fd)
{
    int saved = errno;

    /* On Linux close() releases the descriptor even when it returns EINTR: a retry could close one
     * that another thread has just opened. */
    if (fd >= 0)
        (void)close(fd);
    errno = saved;
}

int fd_open_at(int dirfd, const char *path, int flags, mode_t mode, enum path_policy policy,
               struct err *e)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .mode = flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY ? mode : 0,
        .resolve = (uint64_t)policy,
    };

    for (int i = 0; i < OPEN_TRIES_MAX; i++) {
        long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

        if (fd >= 0)
            return (int)fd;
        /* EAGAIN: a rename or mount raced with the path resolution, so the kernel could not prove
         * it safe. */
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return err_sys(e, errno, "open '%s'", path);
}

void fd_raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
    return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

/* Overlays of older kernels lack O_TMPFILE: then makes a named file and removes the name at once.
 */
static int nameless_in(const char *dir)
{
    auto_fd at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char name[NAMELESS_ID_LEN + 1];
    int fd;

    if (at < 0)
        return -errno;
    fd = openat(at, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd >= 0)
        return fd;
    id_short(name, NAMELESS_ID_LEN);
    fd = openat(at, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0)
        return -errno;
    (void)unlinkat(at, name, 0);
    return fd;
}

int fd_nameless(const char *dir)
{
    const char *const dirs[] = {dir, "/tmp", "/var/tmp", "/dev/shm", "/"};
    int fd = -ENOENT;

    for (size_t i = 0; i < ARRAY_LEN(dirs) && fd < 0; i++)
        if (dirs[i] && dirs[i][0])
            fd = nameless_in(dirs[i]);
    return fd;
}

/* MFD_NOEXEC_SEAL satisfies kernels that require it (vm.memfd_noexec); older ones reject it with
 * EINVAL. */
int fd_memory(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

int fd_pipe(enum fd_pipe_end ours, int *ret_ours, int *ret_theirs, struct err *e)
{
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    r = fd_set_nonblock(ends[ours], true);
    if (r < 0) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return err_sys(e, -r, "make a pipe");
    }
    *ret_ours = ends[ours];
    *ret_theirs = ends[!ours];
    return 0;
}

union fd_control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int) * FD_SEND_MAX)];
};

void fd_set_send_room(int sock, size_t bytes)
{
    int room =
        (int)min_size(bytes, INT_MAX / 2); /* the kernel doubles the value for its own overhead */

    if (setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
        (void)setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

int fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count)
{
    union fd_control control = {0};
    struct iovec iov = {(void *)data, n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (fd_count > FD_SEND_MAX)
        return -EINVAL;
    if (fd_count) {
        struct cmsghdr *c = &control.align;

        msg.msg_control = control.room;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
    }
    do
        sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return -errno;
    return (size_t)sent == n ? 0 : -EMSGSIZE;
}

/* Collects all descriptors of a message, so that none leaks when the message is refused. */
static size_t fd_collect(struct msghdr *msg, int fds[FD_SEND_MAX])
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = min_size((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), FD_SEND_MAX - count);
        memcpy(fds + count, CMSG_DATA(c), n * sizeof(int));
        count += n;
    }
    return count;
}

int fd_recv(int sock, void *data, size_t size, size_t *ret_n, int fds[FD_SEND_MAX],
            size_t *ret_fd_count)
{
    union fd_control control = {0};
    struct iovec iov = {data, size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    int got_fds[FD_SEND_MAX];
    ssize_t got;
    size_t count;

    do
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    count = fd_collect(&msg, got_fds);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        while (count > 0)
            fd_close(got_fds[--count]);
        return -EMSGSIZE;
    }
    memcpy(fds, got_fds, count * sizeof(int));
    *ret_n = (size_t)got;
    *ret_fd_count = count;
    return 0;
}

int fd_pwrite_all(int fd, const void *p, size_t n, off_t offset)
{
    const char *bytes = p;

    while (n > 0) {
        ssize_t done = pwrite(fd, bytes, n, offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        bytes += done;
        offset += done;
        n -= (size_t)done;
    }
    return 0;
}
