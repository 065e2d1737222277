/* remove.h - removes a whole tree, a little at a time. Links are removed, never followed, also not
 * one that takes a directory's place meanwhile. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include "base/err.h"

struct remove_level; /* which directory we came through */

struct remove {
    int parent; /* where the tree stands */
    char *name; /* as what */
    DIR *dir;   /* being emptied; NULL before the first look */
    struct remove_level *levels;
    size_t depth, room;
};

/* What `path` names: anything. -EINVAL for the root directory and for paths that end in "." or
 * "..". The removal is to be done with in any case. */
int remove_open(struct remove *rm, const char *path, struct err *e) MUST_USE;
void remove_done(struct remove *rm); /* zeroed is fine */

/* One entry less. 1 while there is more to do, 0 when nothing is left, -errno when something does
 * not go. */
int remove_step(struct remove *rm, struct err *e) MUST_USE;

struct loop;

/* Removes it with nobody waiting, in slices of the loop. What does not go stays. */
void remove_in_background(struct loop *loop, const char *path);
