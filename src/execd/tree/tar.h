/* tar.h - archives in the form of tar(1): heads written, and foreign bytes read as they come.
 *
 * Written is POSIX ustar, with a PAX head before an entry that ustar has no room for. Read is that,
 * what came before it (v7), and long names in GNU's way. Memory is bounded whatever an archive
 * says: content is passed on in pieces. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    TAR_BLOCK_BYTES = 512,
    TAR_TEXT_BYTES_MAX = 4096,    /* of a path or a link's target */
    TAR_EXTRA_BYTES_MAX = 1 << 20 /* of one PAX head */
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
    struct str path;   /* of a directory: with a '/' at the end, when written by us */
    struct str target; /* of links */
    uint64_t size;     /* of the content behind it; only files have any */
    uint32_t mode;     /* 12 bits */
    uint64_t uid, gid;
    int64_t mtime; /* seconds since 1970 */
    uint32_t dev_major, dev_minor;
    const char *owner, *group; /* written, when not NULL; not read */
};

/* --- writing --- */

/* Appends the head. Content follows, then tar_padding() zero bytes, then the next head. */
int tar_write_head(struct buf *out, const struct tar_entry *entry) MUST_USE;
int tar_write_end(struct buf *out) MUST_USE;
size_t tar_padding(uint64_t size);

/* What a file system says of a file; names are left to the caller. No socket: an archive has no
 * place for one. */
struct tar_entry tar_entry_of(const struct stat *st);

/* The content of a file on its way into an archive. */
struct tar_content {
    int fd;         /* -EBADF = none, or no more */
    uint64_t left;  /* of it */
    size_t padding; /* behind it */
};
/* 1; or 0 for a file that is gone, or was replaced by something else, meanwhile. An empty one is
 * over at once. */
int tar_content_open(struct tar_content *c, int dir, const char *name,
                     struct stat *ret_st) MUST_USE;
/* Appends a piece, and the padding behind the last. A file that shrinks is filled up with zeros,
 * one that grows is cut: its size is told already. */
int tar_content_add(struct tar_content *c, struct buf *out, size_t bytes_max) MUST_USE;

/* --- reading --- */

struct tar_reader_ops { /* what they return < 0 ends the reading and is returned */
    int (*entry)(void *ctx, const struct tar_entry *entry, struct err *e); /* borrowed */
    int (*data)(void *ctx, struct str piece, struct err *e);               /* of a file */
    int (*entry_end)(void *ctx, struct err *e);
};

struct tar_reader {
    const struct tar_reader_ops *ops;
    void *ctx;
    enum tar_reader_state {
        TAR_AT_HEAD,
        TAR_IN_CONTENT,
        TAR_IN_EXTRA, /* a PAX head, or a long name */
        TAR_IN_SKIPPED,
        TAR_AT_END,
        TAR_BROKEN,
    } state;
    char head[TAR_BLOCK_BYTES];
    size_t head_n;
    bool begun;       /* a head was read */
    char extra_type;  /* of TAR_IN_EXTRA: 'x', 'L', 'K' */
    uint64_t left;    /* bytes of content to come */
    size_t padding;   /* behind it */
    struct buf extra; /* what is read of TAR_IN_EXTRA */
    struct buf path, target;
    struct tar_override { /* what an extra head said of the next entry */
        bool path, target, size, mtime, uid, gid;
        uint64_t size_value, uid_value, gid_value;
        int64_t mtime_value;
    } said;
};

void tar_reader_init(struct tar_reader *r, const struct tar_reader_ops *ops, void *ctx);
void tar_reader_done(struct tar_reader *r);
/* 0, or -EBADMSG for what is no archive, -EOPNOTSUPP for one with entries we do not know, or what
 * the callbacks say; with a sentence. After a failure it takes no more. What stands behind the end
 * of the archive is ignored. */
int tar_reader_feed(struct tar_reader *r, struct str piece, struct err *e) MUST_USE;
/* The bytes are over: -EBADMSG when the archive is not. */
int tar_reader_end(struct tar_reader *r, struct err *e) MUST_USE;
