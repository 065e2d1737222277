/* copy.h - copies a file or a whole tree to another file system, a little at a time: content,
 * modes, owners, times, links as links, pipes and devices as such. Holes are kept where the file
 * system tells of them, and several names of one file are again of one, as long as COPY_LINKS_MAX
 * files at a time wait for another name, each first met below COPY_LINK_PATH_MAX bytes of path;
 * others become files of their own. Extended attributes are not kept. What is mounted below the
 * tree is -EXDEV. */
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
    int from, to; /* the directory that holds the source, and where the copy goes */
    char name[NAME_MAX + 1], as[NAME_MAX + 1];
    struct stat st; /* of the source */
    struct walk walk;
    size_t root_bytes; /* of paths of the walk: what leads to the tree */
    struct map links;  /* by inode: files of the copy that more names are to come of */
    struct copy_level
        *levels; /* directories of the copy, which get their modes when they are full */
    size_t depth, room;
    int out;              /* the directory of the copy we are in */
    int file_in, file_to; /* a file being copied */
    struct stat file_st;
    char *piece;
    bool begun;
};

/* Copies `path` to the name `as` of the directory `to` (borrowed), where nothing of that name is.
 * The copy is to be done with in any case; what it made stays. */
int copy_open(struct copy *c, const char *path, int to, const char *as, struct err *e) MUST_USE;
void copy_done(struct copy *c); /* zeroed is fine */

/* 1 while there is more to do, 0 when all is copied, or -errno. */
int copy_step(struct copy *c, struct err *e) MUST_USE;
