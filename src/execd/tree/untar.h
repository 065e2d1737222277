/* untar.h - unpacks an archive below a directory, as its bytes come.
 *
 * Nothing outside of the directory is touched: names that are absolute or hold ".." are refused,
 * and every path is resolved beneath the directory, so that a link the archive (or somebody
 * meanwhile) puts there leads nowhere else. Each file appears whole, over one of its name; the
 * archive as such is no transaction. Directories that are there already keep their mode and
 * owner. */
#pragma once

#include "base/arena.h"
#include "execd/tree/sparse.h"
#include "execd/tree/tar.h"
#include "execd/tree/target.h"

enum { UNTAR_ARENA_MAX = 32 << 20 }; /* of the directories made, which get their modes at the end */

struct untar_dir;

struct untar {
    struct tar_reader reader;
    int root;
    bool owners; /* give files to the numbers of the archive, and keep setuid bits */
    struct arena arena;
    struct untar_dir *made; /* the last one first */
    int parent;             /* of the entry before this one, as the next usually is its sibling */
    struct buf parent_path;
    struct buf path; /* of the entry, clean */
    struct tar_entry entry;
    struct target file; /* being written */
    struct sparse sparse;
};

/* The directory is made when it is missing. To be done with in any case. */
int untar_open(struct untar *u, const char *dir, bool owners, struct err *e) MUST_USE;
void untar_done(struct untar *u); /* zeroed is fine; a file half written is gone */

/* 0, or -EBADMSG and -EOPNOTSUPP for what is wrong with the archive, else what the file system
 * says; with a sentence. */
int untar_feed(struct untar *u, struct str piece, struct err *e) MUST_USE;
int untar_end(struct untar *u, struct err *e) MUST_USE; /* the bytes are over */
/* Then, until it returns false: gives a directory its mode and time. */
bool untar_finish_step(struct untar *u);
