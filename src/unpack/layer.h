/* layer.h - reads a layer's archive as a list of changes. Touches no file.
 *
 * Names are relative, without "." and "..", and have been checked: what an entry may not do is
 * refused here, with its name. Whiteouts of the image format (".wh.NAME") are changes of their
 * own. */
#pragma once

#include "base/tar.h"
#include "sandbox/unpack.h"

enum layer_kind {
    LAYER_FILE,
    LAYER_DIRECTORY,
    LAYER_SYMLINK,
    LAYER_HARD_LINK,
    LAYER_FIFO,
    LAYER_WHITEOUT, /* the name is gone */
    LAYER_OPAQUE,   /* what lower layers have in this directory is gone */
};

enum { LAYER_XATTRS_MAX = 64, LAYER_PIECES_MAX = 65536 };

struct layer_xattr {
    struct str name; /* NUL-terminated */
    struct str value;
};

/* A change. Borrowed: valid until the next. */
struct layer_change {
    enum layer_kind kind;
    const char *path;   /* "" = the layer's root */
    const char *target; /* of a link: a hard link's is checked as the path is */
    uint64_t size;      /* of a file, holes included */
    uint32_t mode, uid, gid;
    int64_t mtime;
    uint32_t mtime_ns;
    const struct layer_xattr *xattrs;
    size_t xattr_count;
};

struct layer_ops { /* a result < 0 ends the reading and is returned */
    int (*change)(void *ctx, const struct layer_change *change, struct err *e);
    /* Content of a file at an offset; offsets rise. */
    int (*data)(void *ctx, uint64_t offset, struct str piece, struct err *e);
    int (*end)(void *ctx, struct err *e); /* of the change */
};

struct layer_piece {
    uint64_t offset, bytes;
};

struct layer_reader {
    const struct layer_ops *ops;
    void *ctx;
    struct unpack_limits limits;
    struct tar_reader tar;
    struct buf path, target, given; /* given: the name as in the archive, for messages */
    /* Records of the next entry. */
    struct buf extra; /* names and values of attributes */
    struct layer_xattr xattrs[LAYER_XATTRS_MAX];
    size_t xattr_at[LAYER_XATTRS_MAX][2]; /* offsets in extra, as it moves when it grows */
    size_t xattr_count;
    struct buf sparse_name;
    struct buf pieces; /* of struct layer_piece */
    bool sparse, sparse_in_content;
    uint64_t sparse_size;
    uint64_t sparse_offset; /* of the 0.0 format: the offset whose length follows */
    bool has_sparse_offset;
    /* The current entry. */
    bool telling;       /* it is a change, told to the caller */
    size_t piece;       /* that the next byte of content belongs to */
    uint64_t piece_at;  /* bytes of it that were passed on */
    uint64_t offset;    /* of the next byte of a file that is not sparse */
    uint64_t map_bytes; /* of the map in the content that were read; padded to blocks */
    uint64_t map_numbers, map_count, map_value;
    bool map_digits;
    uint64_t content_left;
    uint64_t entries, bytes, file_bytes, skipped;
};

void layer_reader_init(struct layer_reader *r, const struct unpack_limits *limits,
                       const struct layer_ops *ops, void *ctx);
void layer_reader_done(struct layer_reader *r);
/* 0, or -errno with the entry and the reason. */
int layer_reader_feed(struct layer_reader *r, struct str piece, struct err *e) MUST_USE;
int layer_reader_end(struct layer_reader *r, struct err *e) MUST_USE;
