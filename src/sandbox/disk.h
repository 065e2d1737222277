/* disk.h - the writable layer of a sandbox, and how much it may hold.
 *
 * The layer is a set of directories: upper and scratch of the overlays for / and /usr. They lie in
 * the slot's directory and share its file system, unless a limit is asked for. Then either
 *
 *   the file system counts    every directory gets the slot's project id, and the id a hard limit;
 *   or an image bounds them   <slot>/disk.img, a sparse ext4 file system behind a loop device, has
 *                             directories of its own. Only the sandbox mounts it, so the mount and
 *                             the device go when the sandbox does, the file with the slot's
 *                             directory. <slot>/disk is where it is mounted.
 *
 * Both bound inodes, too: one for each DISK_BYTES_PER_INODE, DISK_INODES_MIN at least. An image
 * spends some of its bytes on metadata of its own. */
#pragma once

#include "base/err.h"

enum {
    DISK_BYTES_MIN = 4 << 20,
    DISK_BYTES_PER_INODE = 16 << 10,
    DISK_INODES_MIN = 1024,
    DISK_LIMIT_MS_MAX = 60 * 1000, /* for a new file system */
};

enum disk_kind {
    DISK_NONE,  /* neither worked when it was tried */
    DISK_QUOTA, /* project quota */
    DISK_IMAGE, /* loop-backed ext4 */
};

/* How this host limits. One per process. */
struct disk_host {
    enum disk_kind kind;
    int blank; /* an empty image in memory, of blank_bytes: the next of that size is a copy */
    uint64_t blank_bytes;
};

/* Tries out on the file system of `state`, a directory of ours, what works. Cannot fail: without a
 * way, sandboxes without a limit are as good as ever, and others are told what is wrong. */
void disk_host_open(struct disk_host *d, int state);
void disk_host_close(struct disk_host *d);
const char *disk_host_describe(const struct disk_host *d); /* a few words for a log */

/* Makes the directories of a layer in `dir`; the sandbox's root is `owner`. */
int disk_make_layer(int dir, uint32_t owner, struct err *e);

struct disk_limit {
    uint32_t slot;
    uint32_t owner; /* outside id of the sandbox's root */
    uint64_t bytes; /* DISK_BYTES_MIN or more */
};

/* Limits the layer in `dir`, which is as disk_make_layer left it. *ret_mount is a detached mount
 * that has the layer instead, or -EBADF when it stays in `dir`. The error names the step. */
int disk_limit(struct disk_host *d, int dir, const struct disk_limit *limit, int *ret_mount,
               struct err *e);

/* The directory that has the layer of the slot directory `dir`, for reading: of a sandbox that
 * lives as of one that has ended. */
int disk_open_layer(int dir, struct err *e);

/* Ends the limit of a slot whose files are gone; `slots` is a directory on their file system. */
void disk_forget(const struct disk_host *d, int slots, uint32_t slot);
