/* disk_internal.h - the two ways of disk.h. */
#pragma once

#include "sandbox/disk.h"

static inline uint64_t disk_inodes(uint64_t bytes)
{
    uint64_t inodes = bytes / DISK_BYTES_PER_INODE;

    return inodes < DISK_INODES_MIN ? DISK_INODES_MIN : inodes;
}

/* disk_quota.c */

/* Project ids count up from here, one per slot; the one before is for trying. */
enum { DISK_PROJECT_FIRST = 0x4f530000 };

/* A file or directory counts for the project, and so does what is made in it from now on. */
int disk_quota_join(int dir, const char *name, uint32_t project, struct err *e);
/* 0 is no limit. `dir` is any directory of the file system. */
int disk_quota_set(int dir, uint32_t project, uint64_t bytes, uint64_t inodes, struct err *e);
/* Whether a limit really stops a writer on the file system of `dir`. */
bool disk_quota_works(int dir);

/* Who has CAP_SYS_RESOURCE is above quotas. overlayfs always writes without it; we do so here, to
 * see a limit at work. */
int disk_quota_above(bool above);

/* disk_image.c */

/* Makes disk.img in `dir` and returns a detached mount of it. */
int disk_image_make(struct disk_host *d, int dir, uint64_t bytes, struct err *e);
/* A detached, read-only mount of the disk.img there, whether it is mounted elsewhere or not.
 * -ENOENT when there is none. */
int disk_image_open(int dir, struct err *e);
