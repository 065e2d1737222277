/* tar_internal.h - the layout of a header block, for tar_write.c and tar_read.c. */
#pragma once

#include <assert.h>

#include "base/tar.h"

/* Numbers are octal text that ends with a NUL or a space; large ones may be binary, with the first
 * bit set. Texts end with a NUL when they are shorter than their field. */
struct tar_head {
    char name[100];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char checksum[8];
    char type;
    char target[100];
    char magic[8]; /* "ustar" NUL "00"; by GNU "ustar  " */
    char owner[32];
    char group[32];
    char dev_major[8];
    char dev_minor[8];
    char prefix[155];
    char unused[12];
};
static_assert(sizeof(struct tar_head) == TAR_BLOCK_BYTES, "a head is a block");

/* A piece of a sparse file of the old GNU format; a head has four in place of the prefix. */
struct tar_piece {
    char offset[12], bytes[12];
};
enum {
    TAR_SPARSE = 'S',
    TAR_SPARSE_AT = 386, /* of the four pieces in the head */
    TAR_SPARSE_HEAD_PIECES = 4,
    TAR_SPARSE_BLOCK_PIECES = 21, /* in each block after it */
    TAR_SPARSE_MORE_AT = 482,     /* in the head: whether a block follows */
    TAR_SPARSE_BLOCK_MORE_AT = 504,
    TAR_SPARSE_SIZE_AT = 483,
};

/* The sum of all bytes, with the checksum field itself as spaces. Some programs add signed bytes.
 */
static inline int64_t tar_head_sum(const char *block, bool with_sign)
{
    size_t from = offsetof(struct tar_head, checksum);
    int64_t sum = 0;

    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
        char c = i >= from && i < from + sizeof(((struct tar_head *)0)->checksum) ? ' ' : block[i];

        sum += with_sign ? (int64_t)(signed char)c : (int64_t)(unsigned char)c;
    }
    return sum;
}
