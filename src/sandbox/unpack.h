/* unpack.h - what the broker, its callers and the program that unpacks a layer tell each other.
 *
 * A layer is an archive that a stranger made. A program of its own (src/unpack) unpacks it: it has
 * no privilege outside its namespaces, reaches nothing but the directory it fills, and ends when
 * its job does. Messages are structs of fixed size, each one packet. */
#pragma once

#include "base/err.h"
#include "base/sha.h"

/* All must be set. */
struct unpack_limits {
    uint64_t entries;
    uint64_t bytes;       /* of all files, holes included, and of the archive itself */
    uint32_t depth;       /* of directories */
    uint32_t xattr_bytes; /* of one entry: names and values */
    uint32_t ratio;       /* uncompressed bytes to compressed ones; of large archives */
    uint32_t time_ms;
};
#define UNPACK_LIMITS_DEFAULT                                                                      \
    {                                                                                              \
        .entries = 2000000, .bytes = UINT64_C(64) << 30, .depth = 128, .xattr_bytes = 64 << 10,    \
        .ratio = 250, .time_ms = 30 * 60 * 1000                                                    \
    }

enum {
    UNPACK_ENTRIES_MAX = 1 << 24,
    UNPACK_DEPTH_MAX = 1024,
    UNPACK_XATTR_BYTES_MAX = 1 << 20,
    UNPACK_RATIO_MAX = 1 << 20,
    UNPACK_TIME_MS_MAX = 4 * 3600 * 1000,
};
#define UNPACK_BYTES_MAX (UINT64_C(1) << 44)

/* -EINVAL with the limit that is 0 or above its maximum. */
int unpack_limits_check(const struct unpack_limits *limits, struct err *e);

struct unpack_report {
    int32_t result; /* 0, or -errno with the entry and the reason in err */
    struct err err;
    uint8_t diff_id[SHA256_BYTES]; /* SHA-256 of the uncompressed archive */
    uint64_t entries;
    uint64_t bytes;      /* of the uncompressed archive */
    uint64_t file_bytes; /* of the files, without holes */
    uint64_t skipped;    /* attributes and nodes below /dev that were left out */
};

/* --- from the program to the process that watches it --- */

enum unpack_said {
    UNPACK_OPAQUE = 1, /* with a directory that hides those of lower layers; answered by a byte */
    UNPACK_DONE,       /* with the report; the last message */
};
struct unpack_message {
    uint32_t said; /* enum unpack_said */
    struct unpack_report report;
};

/* Descriptors of the program; its root directory is the one to fill. */
enum {
    UNPACK_FD_BLOB = 3,
    UNPACK_FD_SOCK = 4,   /* SOCK_SEQPACKET */
    UNPACK_FD_LIMITS = 5, /* a pipe with struct unpack_limits */
};
