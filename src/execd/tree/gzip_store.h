/* gzip_store.h - writes the gzip format (RFC 1952) without compression, so that clients that expect
 * gzip are served without a library. */
#pragma once

#include "base/buf.h"

enum {
    GZIP_STORE_EXTRA_BYTES = 32
}; /* most bytes that begin, end, or a block of 65,535 bytes adds */

struct gzip_store {
    uint32_t crc, bytes;
};

/* Each appends to `out`, or fails as buf_add() does. */
int gzip_store_begin(struct gzip_store *g, struct buf *out) MUST_USE;
int gzip_store_add(struct gzip_store *g, struct str data, struct buf *out) MUST_USE;
int gzip_store_end(struct gzip_store *g, struct buf *out) MUST_USE;
