/* remove.h - removes a whole tree in small steps. Links are removed and never followed, also if one
 * replaces a directory meanwhile. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "base/err.h"

struct remove_level; /* a directory on the way down */

struct remove {
    int parent; /* the directory that holds the tree */
    char *name; /* of the tree in `parent` */
    DIR *dir;   /* being emptied; NULL before the first step */
    struct remove_level *levels;
    size_t depth, room;
};

/* Prepares to remove `path`, of any file type. -EINVAL for the root directory and for paths that
 * end in "." or "..". Call remove_done in any case. */
int remove_open(struct remove *rm, const char *path, struct err *e) MUST_USE;
void remove_done(struct remove *rm); /* all zero is fine */

/* Removes one entry. 1 while there is more to do, 0 when nothing is left, -errno when an entry
 * cannot be removed. */
int remove_step(struct remove *rm, struct err *e) MUST_USE;

struct loop;

/* Removes `path` in slices of the loop. Stops silently at an entry that cannot be removed. */
void remove_in_background(struct loop *loop, const char *path);
