/* copy.h - copies a file or a whole tree to another file system in small steps: content, modes,
 * owners, times, symbolic links, FIFOs and devices. Extended attributes are not copied. A mount
 * below the tree is -EXDEV.
 *
 * Holes are kept if the file system reports them (SEEK_DATA). Hard links are kept for up to
 * COPY_LINKS_MAX files at a time that wait for another name, each first found at a path below the
 * tree of at most COPY_LINK_PATH_MAX bytes; other names become separate files. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "base/map.h"
#include "execd/tree/walk.h"

enum {
    COPY_LINKS_MAX = 4096,
    COPY_LINK_PATH_MAX = 512,
};

struct copy_level;

struct copy {
    int from, to; /* the directories of the source and of the copy */
    char name[NAME_MAX + 1], as[NAME_MAX + 1];
    struct stat st; /* of the source */
    struct walk walk;
    size_t root_bytes; /* length of the path of the tree, which begins all paths of the walk */
    struct map links;  /* by inode: copied files with more names to come */
    struct copy_level
        *levels; /* entered directories of the copy, which get their modes at their end */
    size_t depth, room;
    int out;              /* the current directory of the copy */
    int file_in, file_to; /* the file being copied */
    struct stat file_st;
    char *piece;
    bool begun;
};

/* Copies `path` to the name `as` in the directory `to` (borrowed), where that name must not exist.
 * Call copy_done in any case, also after a failure; it does not remove what was copied. */
int copy_open(struct copy *c, const char *path, int to, const char *as, struct err *e) MUST_USE;
void copy_done(struct copy *c); /* all zero is fine */

/* 1 while there is more to do, 0 when all is copied, or -errno. */
int copy_step(struct copy *c, struct err *e) MUST_USE;
