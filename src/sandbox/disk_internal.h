/* disk_internal.h - the two implementations of disk.h. */
#pragma once

#include "sandbox/disk.h"

static inline uint64_t disk_inodes(uint64_t bytes)
{
    uint64_t inodes = bytes / DISK_BYTES_PER_INODE;

    return inodes < DISK_INODES_MIN ? DISK_INODES_MIN : inodes;
}

/* disk_quota.c */

/* First project id, one per slot; the one before it is for the test. */
enum { DISK_PROJECT_FIRST = 0x4f530000 };

/* Adds a file or directory to the project; files made in the directory later inherit it. */
int disk_quota_join(int dir, const char *name, uint32_t project, struct err *e);
/* 0 means no limit. `dir` is any directory of the file system. */
int disk_quota_set(int dir, uint32_t project, uint64_t bytes, uint64_t inodes, struct err *e);
/* Whether a limit stops a writer on the file system of `dir`; tries it. */
bool disk_quota_works(int dir);

/* CAP_SYS_RESOURCE exempts from quotas. overlayfs always writes without it; false drops it here, to
 * test a limit. */
int disk_quota_above(bool above);

/* disk_image.c */

/* Creates disk.img in `dir` and returns a detached mount of it. */
int disk_image_make(struct disk_host *d, int dir, uint64_t bytes, struct err *e);
/* A detached, read-only mount of disk.img in `dir`, whether or not it is mounted elsewhere. -ENOENT
 * when there is none. */
int disk_image_open(int dir, struct err *e);
