/* archive_internal.h - the parts of an archive that is imported. */
#pragma once

#include "base/map.h"
#include "image/archive.h"

enum { ARCHIVE_PARTS_MAX = 16384 };

/* A file in the archive, or a link to one. */
struct archive_part {
    uint64_t offset, bytes;
    char *target; /* of a link */
};

/* What an archive has of an image. */
struct archive {
    int fd;
    struct map parts;           /* by path: struct archive_part */
    struct image_digest digest; /* of all of it */
    bool compressed;
    bool at_content; /* the offset of the last part is not known yet */
    struct archive_part *last;
    const char *piece; /* that is being read, and its offset */
    uint64_t piece_at;
    size_t others; /* entries that belong to no image */
};

void archive_done(struct archive *a);
/* Reads all of the file once. */
int archive_scan(struct archive *a, int fd, const volatile bool *cancel, struct err *e);
/* A file of it, also through a link. NULL when there is none. */
const struct archive_part *archive_find(const struct archive *a, struct str path);
/* Appends a small file. */
int archive_read(const struct archive *a, struct str path, size_t bytes_max, struct buf *out,
                 struct err *e);
/* Copies a file to the store. With `want` set its digest must be that. */
int archive_keep(const struct archive *a, struct image_store *s, struct str path,
                 const struct image_digest *want, struct image_store_pins *pins,
                 struct image_digest *ret, struct err *e);
