/* tar.h - writes headers of tar(1) archives, and parses untrusted archives as they arrive.
 *
 * Writes POSIX ustar, with a PAX header before an entry that does not fit ustar. Reads these, the
 * older v7 format, GNU long names and, for callers that ask, sparse files. Memory is bounded for
 * every archive: content is passed on in pieces. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    TAR_BLOCK_BYTES = 512,
    TAR_TEXT_BYTES_MAX = 4096,    /* of a path or a link's target */
    TAR_EXTRA_BYTES_MAX = 1 << 20 /* of one PAX header */
};

enum tar_type {
    TAR_FILE = '0',
    TAR_HARD_LINK = '1',
    TAR_LINK = '2',
    TAR_CHAR_DEVICE = '3',
    TAR_BLOCK_DEVICE = '4',
    TAR_DIRECTORY = '5',
    TAR_FIFO = '6',
};

struct tar_entry {
    enum tar_type type;
    struct str path;   /* of a directory: with a trailing '/' when written */
    struct str target; /* of links */
    uint64_t size;     /* of the content that follows; only for files */
    uint32_t mode;     /* 12 bits */
    uint64_t uid, gid;
    int64_t mtime;     /* seconds since 1970 */
    uint32_t mtime_ns; /* read only */
    uint32_t dev_major, dev_minor;
    const char *owner, *group; /* written when not NULL; not read */
};

/* --- writing --- */

/* Appends the header. Content follows, then tar_padding() zero bytes, then the next header. */
int tar_write_head(struct buf *out, const struct tar_entry *entry) MUST_USE;
int tar_write_end(struct buf *out) MUST_USE;
size_t tar_padding(uint64_t size);

/* The entry for a stat; the caller sets the names. Not for sockets: tar has no type for them. */
struct tar_entry tar_entry_of(const struct stat *st);

/* The content of a file being archived. */
struct tar_content {
    int fd;         /* -EBADF = none, or finished */
    uint64_t left;  /* bytes of content */
    size_t padding; /* bytes after it */
};
/* 1; or 0 for a file that was removed or replaced by another type meanwhile. An empty file is
 * finished at once. */
int tar_content_open(struct tar_content *c, int dir, const char *name,
                     struct stat *ret_st) MUST_USE;
/* Appends a piece, and the padding after the last. A file that shrinks is padded with zeros and one
 * that grows is cut: its size was already written. */
int tar_content_add(struct tar_content *c, struct buf *out, size_t bytes_max) MUST_USE;

/* --- reading --- */

struct tar_reader_ops { /* a result < 0 ends the reading and is returned */
    int (*entry)(void *ctx, const struct tar_entry *entry, struct err *e); /* borrowed */
    int (*data)(void *ctx, struct str piece, struct err *e);               /* content of a file */
    int (*entry_end)(void *ctx, struct err *e);
    /* NULL, or told of each record of a PAX header that the reader does not use itself, before the
     * entry it belongs to; both are borrowed. Sparse files of the old GNU format are told as
     * records "GNU.sparse.realsize" and "GNU.sparse.map". Without it sparse files are refused. */
    int (*extra)(void *ctx, struct str key, struct str value, struct err *e);
};

struct tar_reader {
    const struct tar_reader_ops *ops;
    void *ctx;
    enum tar_reader_state {
        TAR_AT_HEAD,
        TAR_IN_CONTENT,
        TAR_IN_EXTRA, /* a PAX header, or a GNU long name */
        TAR_IN_SKIPPED,
        TAR_IN_SPARSE, /* blocks between the head of a sparse file and its content */
        TAR_AT_END,
        TAR_BROKEN,
    } state;
    char head[TAR_BLOCK_BYTES];
    size_t head_n;
    bool begun;       /* a header was read */
    char extra_type;  /* of TAR_IN_EXTRA: 'x', 'L', 'K' */
    uint64_t left;    /* bytes of content still to come */
    size_t padding;   /* bytes after it */
    struct buf extra; /* content of TAR_IN_EXTRA so far, or the map of TAR_IN_SPARSE */
    char sparse_head[TAR_BLOCK_BYTES]; /* of TAR_IN_SPARSE */
    struct buf path, target;
    struct tar_override { /* values from extra headers for the next entry */
        bool path, target, size, mtime, uid, gid;
        uint64_t size_value, uid_value, gid_value;
        int64_t mtime_value;
        uint32_t mtime_ns;
    } said;
};

void tar_reader_init(struct tar_reader *r, const struct tar_reader_ops *ops, void *ctx);
void tar_reader_done(struct tar_reader *r);
/* 0, or with a message: -EBADMSG for an invalid archive, -EOPNOTSUPP for unknown entry types, or
 * the result of a callback. After a failure it accepts no more. Bytes after the end of the archive
 * are ignored. */
int tar_reader_feed(struct tar_reader *r, struct str piece, struct err *e) MUST_USE;
/* End of input: -EBADMSG when the archive is incomplete. */
int tar_reader_end(struct tar_reader *r, struct err *e) MUST_USE;
