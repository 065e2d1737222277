/* io.h - complete reads and writes: they retry EINTR, continue after short transfers, and stop at a
 * deadline.
 *
 * Deadlines are those of time.h. They apply to sockets, pipes and terminals, blocking or not, and
 * to files that poll as ready but return EAGAIN, as some files in /sys do. They do not apply to
 * other regular files and block devices, whose waits cannot be bounded. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Reads until n bytes are there or the file ends (*ret_n < n). -ETIMEDOUT at the deadline; bytes
 * read before an error are lost. */
int io_read_full(int fd, void *p, size_t n, uint64_t deadline, size_t *ret_n) MUST_USE;
/* The same at an offset of a regular file; does not move the file position. */
int io_pread_full(int fd, void *p, size_t n, off_t offset, size_t *ret_n) MUST_USE;
/* Writes all of it. A socket whose peer is gone gives -EPIPE without SIGPIPE. A pipe gives -EPIPE
 * only in a process that ignores SIGPIPE; all our programs do. */
int io_write_full(int fd, struct str data, uint64_t deadline) MUST_USE;

/* Appends a whole file. -EFBIG when it is longer than bytes_max (also for files of size 0, as in
 * /proc), -EMSGSIZE past the buffer's limit; *out is unchanged on failure. Follows symbolic links:
 * use it only for paths of the operator or our own. */
int io_read_file(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e);
/* The same for a path that another process may change; it never waits. -EINVAL for anything but a
 * regular file, -ETIMEDOUT for a file that has no data yet, such as /proc/kmsg. */
int io_read_regular(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e);

/* Replaces dirfd/name atomically: after a crash it has either the old or the new content. Writes a
 * temporary file beside it, then fsync, rename, fsync of the directory. `name` is one component. If
 * the last fsync fails, the new content is in place but may not survive a power loss; that is an
 * error too. */
int io_write_file_atomic(int dirfd, const char *name, struct str data, mode_t mode, struct err *e);

/* A read-only mapping of a file that another process may truncate. A direct read past the new end
 * would raise SIGBUS; io_map_copy returns -EIO instead. Any thread may copy. */
struct io_map {
    const char *p; /* NULL when the file is empty; read only through io_map_copy */
    size_t n;      /* the file's length when it was opened */
};

/* Keeps no descriptor. The first call installs the process's SIGBUS handler; a fault elsewhere goes
 * to the previous handler, or kills the process by default. -EFBIG past bytes_max, -EINVAL for
 * anything but a regular file. */
int io_map_open(int fd, size_t bytes_max, struct io_map *ret_map) MUST_USE;
/* Copies n bytes from `offset`. -ERANGE when they are outside the mapping, -EIO when the file was
 * truncated before them (`out` is then undefined). */
int io_map_copy(const struct io_map *map, size_t offset, void *out, size_t n) MUST_USE;
void io_map_close(struct io_map *map); /* accepts NULL and an unopened map; map becomes empty */
