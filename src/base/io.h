/* io.h - reading and writing that finishes: interrupted calls go on, short ones are completed,
 * waiting ends at a deadline.
 *
 * Deadlines are those of time.h. They bound waiting on sockets, pipes and terminals, blocking or
 * not, and on what calls itself ready and says EAGAIN, as some files of /sys; on other regular
 * files and disks no one can, and they are not looked at. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Reads until n bytes are there or the file ends: *ret_n < n means it ended. -ETIMEDOUT at the
 * deadline; what was read until then is lost, as after any error. */
int io_read_full(int fd, void *p, size_t n, uint64_t deadline, size_t *ret_n) MUST_USE;
/* The same at an offset of a regular file, whose position stays. */
int io_pread_full(int fd, void *p, size_t n, off_t offset, size_t *ret_n) MUST_USE;
/* Writes all of it. A socket whose peer is gone is -EPIPE without a SIGPIPE; a pipe is -EPIPE only
 * in a process that ignores the signal, which all our programs do. */
int io_write_full(int fd, struct str data, uint64_t deadline) MUST_USE;

/* Appends a file's whole content. -EFBIG when it is longer than bytes_max (also files that claim to
 * be empty, as in /proc), -EMSGSIZE when the buffer's ceiling is lower; *out is unchanged on
 * failure. The path is the operator's or ours: links are followed. */
int io_read_file(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e);
/* The same for a path that others may change under us, which waits for nothing: -EINVAL for what is
 * no regular file, as a pipe; -ETIMEDOUT for one that has nothing yet, as /proc/kmsg. */
int io_read_regular(int dirfd, const char *path, size_t bytes_max, struct buf *out, struct err *e);

/* Replaces dirfd/name so that a crash leaves the old or the new content, and never a mix: a
 * temporary file beside it, fsync, rename, fsync of the directory. `name` is one component. When
 * the last fsync fails the new content is in place but may not survive a power cut, and that is
 * reported too. */
int io_write_file_atomic(int dirfd, const char *name, struct str data, mode_t mode, struct err *e);

/* A read-only mapping of a file that others may shorten at any time. A plain load past the new end
 * would kill the process with SIGBUS; io_map_copy answers -EIO instead. Any thread may copy. */
struct io_map {
    const char *p; /* NULL when the file is empty; read it through io_map_copy only */
    size_t n;      /* the file's length when it was opened */
};

/* Keeps no descriptor. Installs the process's SIGBUS handler on first use; a fault elsewhere goes
 * to the handler that was there before, or kills the process as ever. -EFBIG past bytes_max,
 * -EINVAL for what is not a regular file. */
int io_map_open(int fd, size_t bytes_max, struct io_map *ret_map) MUST_USE;
/* Copies n bytes from `offset`; -ERANGE when they do not lie within the mapping, -EIO when the file
 * no longer has them (`out` is then undefined). */
int io_map_copy(const struct io_map *map, size_t offset, void *out, size_t n) MUST_USE;
void io_map_close(struct io_map *map); /* NULL or never opened is fine; map becomes empty */
