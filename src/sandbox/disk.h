/* disk.h - the writable layer of a sandbox, and the limit of its size.
 *
 * The layer is a set of directories: upper and work directories of the overlays for / and /usr.
 * They are in the slot's directory and share its file system, unless a limit is set. Then one of:
 *
 *   project quota   every directory has the slot's project id, which has a hard limit
 *   image           <slot>/disk.img, a sparse ext4 file system on a loop device, has its own
 *                   directories. Only the sandbox mounts it, at <slot>/disk: mount and device
 *                   vanish with the sandbox, the file with the slot's directory.
 *
 * Both limit inodes, too: one for each DISK_BYTES_PER_INODE, at least DISK_INODES_MIN. An image
 * uses some of its bytes for its own metadata. */
#pragma once

#include "base/err.h"
#include <stdbool.h>

enum {
    DISK_BYTES_MIN = 4 << 20,
    DISK_BYTES_PER_INODE = 16 << 10,
    DISK_INODES_MIN = 1024,
    DISK_LIMIT_MS_MAX = 60 * 1000, /* to make a file system */
};

enum disk_kind {
    DISK_NONE,  /* neither of those below works */
    DISK_QUOTA, /* project quota */
    DISK_IMAGE, /* loop-backed ext4 */
};

/* How this host limits disks. One per process. */
struct disk_host {
    enum disk_kind kind;
    int blank; /* an empty image in memory, of blank_bytes, to copy for the next of that size */
    uint64_t blank_bytes;
};

/* Tries what works on the file system of `state`, a directory of ours. Cannot fail: without either,
 * sandboxes without a limit still work, and a request for a limit reports what is wrong. */
void disk_host_open(struct disk_host *d, int state);
void disk_host_close(struct disk_host *d);
const char *disk_host_describe(const struct disk_host *d); /* short text for a log */

/* Makes the directories of a layer in `dir`; `owner` is the host id of root inside. */
int disk_make_layer(int dir, uint32_t owner, struct err *e);

struct disk_limit {
    uint32_t slot;
    uint32_t owner; /* host id of root inside */
    uint64_t bytes; /* at least DISK_BYTES_MIN */
};

/* Limits the layer in `dir`, which disk_make_layer made. *ret_mount is a detached mount that has
 * the layer instead, or -EBADF when it stays in `dir`. The error names the step. */
int disk_limit(struct disk_host *d, int dir, const struct disk_limit *limit, int *ret_mount,
               struct err *e);

/* Opens the directory with the layer of the slot directory `dir`, for reading, whether the sandbox
 * runs or has ended. */
int disk_open_layer(int dir, struct err *e);

/* --- images of volumes ---
 *
 * A volume of limited size is a file system of its own, too: disk.img in a directory that only the
 * broker can reach. It has a journal, as it outlives sandboxes and the host's crashes. Its files
 * are in the directory "files" of it. */

enum {
    DISK_VOLUME_BYTES_MIN = 16 << 20, /* a journal takes 4 MiB */
    DISK_VOLUME_ID_BYTES = 17,        /* 64 bits in hexadecimal digits, and the NUL */
};
#define DISK_VOLUME_BYTES_MAX (UINT64_C(8) << 40) /* half of what 32-bit block numbers reach */

/* Makes the image in `dir`. */
int disk_volume_make(int dir, uint64_t bytes, struct err *e);
/* A detached mount of it. All mounts of an image are of one file system: `dir` is locked (flock)
 * meanwhile, so that only one loop device gets it. `id` is written into the loop device. */
int disk_volume_mount(int dir, const char *id, struct err *e);
/* Whether `fd` is a file on an image of disk_volume_mount(); *ret_id is its id, and the last two
 * are what fstat() of the image says. */
bool disk_volume_of(int fd, char ret_id[DISK_VOLUME_ID_BYTES], uint64_t *ret_device,
                    uint64_t *ret_inode);

/* Removes the limit of a slot without files; `slots` is a directory on the same file system. */
void disk_forget(const struct disk_host *d, int slots, uint32_t slot);
