/* gzip_store.h - bytes in the form of gzip (RFC 1952) without making them smaller: what asks for
 * that form gets it, and no library is needed. */
#pragma once

#include "base/buf.h"

enum {
    GZIP_STORE_EXTRA_BYTES = 32
}; /* what begin, end, or one block of 65,535 bytes adds at most */

struct gzip_store {
    uint32_t crc, bytes;
};

/* Each appends to `out` or fails as buf_add() does. */
int gzip_store_begin(struct gzip_store *g, struct buf *out) MUST_USE;
int gzip_store_add(struct gzip_store *g, struct str data, struct buf *out) MUST_USE;
int gzip_store_end(struct gzip_store *g, struct buf *out) MUST_USE;
