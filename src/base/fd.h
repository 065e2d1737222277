/* fd.h - file descriptors: closing, opening under a named policy, sending to another process.
 *
 * Every descriptor made here is CLOEXEC. Unset is -EBADF. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <errno.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/types.h>

void fd_close(int fd); /* keeps errno; negative is fine; never retried on EINTR */

static inline void fd_closep(int *fd)
{
    fd_close(*fd);
}
#define auto_fd __attribute__((cleanup(fd_closep))) int

/* Moves a descriptor out of its variable, which becomes -EBADF. */
static inline int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -EBADF;
    return taken;
}

/* How far a path may lead. A path string crosses a trust boundary only with the fd it is relative
 * to. */
enum path_policy {
    PATH_FREE = 0,                        /* the operator's own paths */
    PATH_BY_NAME = RESOLVE_NO_MAGICLINKS, /* through no link of /proc to an open file */
    PATH_REAL = RESOLVE_NO_SYMLINKS,      /* what realpath(3) answered */
    PATH_BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, /* user files below a root */
    PATH_STRICT = PATH_BENEATH | RESOLVE_NO_SYMLINKS,       /* our own state directories */
    PATH_IN_ROOT = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, /* as the sandbox sees it */
};

/* openat2 with O_CLOEXEC added. EAGAIN (a mount moved meanwhile) is retried a bounded number of
 * times. */
int fd_open_at(int dirfd, const char *path, int flags, mode_t mode, enum path_policy policy,
               struct err *e) MUST_USE;

int fd_set_nonblock(int fd, bool on) MUST_USE;

/* Writes all n bytes at `offset` of a regular file; the file position stays. */
int fd_pwrite_all(int fd, const void *p, size_t n, off_t offset) MUST_USE;

/* A pipe between a child and us, who keep the named end. It does not block; the other does, as
 * programs expect. */
enum fd_pipe_end { FD_PIPE_READ, FD_PIPE_WRITE };
int fd_pipe(enum fd_pipe_end ours, int *ret_ours, int *ret_theirs, struct err *e) MUST_USE;

enum { FD_SEND_MAX = 32 };

/* Has a socket take messages of `bytes`, whatever is usual here: as far as net.core.wmem_max, or
 * privilege, lets us. */
void fd_set_send_room(int sock, size_t bytes);
/* One SOCK_SEQPACKET (or datagram) message with up to FD_SEND_MAX descriptors. */
int fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count) MUST_USE;
/* Receives one message into exactly `size` bytes of room. *ret_n is its length; descriptors land in
 * fds[0..*ret_fd_count). -EMSGSIZE when data or descriptors were cut off: nothing is kept then. 0
 * with *ret_n == 0 is end of stream. */
int fd_recv(int sock, void *data, size_t size, size_t *ret_n, int fds[FD_SEND_MAX],
            size_t *ret_fd_count) MUST_USE;
