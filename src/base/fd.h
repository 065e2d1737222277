/* fd.h - file descriptors: closing, opening under a named policy, sending to another process.
 *
 * Every descriptor made here is close-on-exec. An unset descriptor is -EBADF. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include <errno.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <sys/types.h>

void fd_close(int fd); /* keeps errno; accepts negative values; does not retry on EINTR */

static inline void fd_closep(int *fd)
{
    fd_close(*fd);
}
#define auto_fd __attribute__((cleanup(fd_closep))) int

/* Returns the descriptor and sets the variable to -EBADF. */
static inline int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -EBADF;
    return taken;
}

/* How openat2 resolves a path. A path from an untrusted source is used only relative to a directory
 * descriptor. */
enum path_policy {
    PATH_FREE = 0,                        /* paths set by the operator: no restriction */
    PATH_BY_NAME = RESOLVE_NO_MAGICLINKS, /* follows no magic link (/proc/PID/fd/N) */
    PATH_REAL = RESOLVE_NO_SYMLINKS,      /* a result of realpath(3): no symbolic link is left */
    PATH_BENEATH = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS, /* user files below a root directory */
    PATH_STRICT = PATH_BENEATH | RESOLVE_NO_SYMLINKS,       /* our own state directories */
    PATH_IN_ROOT = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, /* dirfd acts as the root directory */
};

/* openat2 with O_CLOEXEC added. Retries EAGAIN (a concurrent rename or mount) a bounded number of
 * times. */
int fd_open_at(int dirfd, const char *path, int flags, mode_t mode, enum path_policy policy,
               struct err *e) MUST_USE;

/* Raises the limit of open descriptors of this process as far as it may. */
void fd_raise_limit(void);

int fd_set_nonblock(int fd, bool on) MUST_USE;

/* A file without a name, for reading and writing: it is gone when its last descriptor is closed.
 * fd_nameless makes it in the first of these directories that accepts one: dir (may be NULL), /tmp,
 * /var/tmp, /dev/shm, /. fd_memory makes it in memory (memfd_create): not executable, and it can be
 * sealed. Both return -errno on failure. */
int fd_nameless(const char *dir) MUST_USE;
int fd_memory(const char *name) MUST_USE;

/* Writes all n bytes at `offset` of a regular file; does not move the file position. */
int fd_pwrite_all(int fd, const void *p, size_t n, off_t offset) MUST_USE;

/* A pipe to or from a child. Our end, the one `ours` names, is non-blocking; the child's end
 * blocks, as programs expect. */
enum fd_pipe_end { FD_PIPE_READ, FD_PIPE_WRITE };
int fd_pipe(enum fd_pipe_end ours, int *ret_ours, int *ret_theirs, struct err *e) MUST_USE;

enum { FD_SEND_MAX = 240 }; /* the kernel's maximum is 253 */

/* Raises the socket's send buffer so that messages of `bytes` fit, as far as net.core.wmem_max or
 * CAP_NET_ADMIN allows. */
void fd_set_send_room(int sock, size_t bytes);
/* Sends one SOCK_SEQPACKET (or datagram) message with up to FD_SEND_MAX descriptors. */
int fd_send(int sock, const void *data, size_t n, const int *fds, size_t fd_count) MUST_USE;
/* Receives one message of at most `size` bytes. *ret_n is its length; its descriptors are in
 * fds[0..*ret_fd_count). -EMSGSIZE when data or descriptors were truncated: then no descriptor is
 * kept. 0 with *ret_n == 0 is end of stream. */
int fd_recv(int sock, void *data, size_t size, size_t *ret_n, int fds[FD_SEND_MAX],
            size_t *ret_fd_count) MUST_USE;
