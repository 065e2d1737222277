/* dir_blobs.h - a store for pulls in a directory, for tests: blobs are files, nothing is unpacked.
 *
 * Files: <hex> a blob, <hex>.part one on its way, images one line per record. */
#pragma once

#include "image/blobs.h"
#include "net/loop.h"

struct dir_blobs {
    struct loop *loop;
    int dirfd;
    /* Faults: the errno that an operation answers; 0 = none. */
    int open_error, commit_error, unpack_error;
    bool unpack_hangs; /* until it is cancelled */
    /* What was seen. */
    _Atomic unsigned begun, ended, committed, abandoned_kept, abandoned_dropped, unpacked, recorded,
        opened;
    _Atomic uint64_t resumed_bytes;
};

extern const struct image_blobs_ops dir_blobs_ops;
