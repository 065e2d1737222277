/* untar.h - unpacks an archive below a directory, as its bytes arrive.
 *
 * Nothing outside of the directory is touched: absolute names and those with ".." are refused, and
 * every path is resolved beneath the directory (RESOLVE_BENEATH), so that no link, from the archive
 * or created meanwhile, leads out of it. Each file appears complete and replaces one of its name;
 * the archive as a whole is not atomic. Existing directories keep their mode and owner. */
#pragma once

#include "base/arena.h"
#include "base/tar.h"
#include "execd/tree/sparse.h"
#include "execd/tree/target.h"

enum { UNTAR_ARENA_MAX = 32 << 20 }; /* for created directories, which get their modes at the end */

struct untar_dir;

struct untar {
    struct tar_reader reader;
    int root;
    bool owners; /* set the archive's uid and gid, and keep setuid bits */
    struct arena arena;
    struct untar_dir *made; /* last one first */
    /* Directory of the previous entry; the next one is usually in it, too. */
    int parent;
    struct buf parent_path;
    struct buf path; /* of the entry, clean */
    struct tar_entry entry;
    struct target file; /* being written */
    struct sparse sparse;
};

/* Creates the directory if it is missing. Call untar_done in any case. */
int untar_open(struct untar *u, const char *dir, bool owners, struct err *e) MUST_USE;
void untar_done(struct untar *u); /* all zero is fine; removes an incomplete file */

/* 0, or with a message: -EBADMSG or -EOPNOTSUPP for an invalid archive, else the error of the file
 * system. */
int untar_feed(struct untar *u, struct str piece, struct err *e) MUST_USE;
int untar_end(struct untar *u, struct err *e) MUST_USE; /* end of input */
/* Call it afterwards until it returns false: each call sets the mode and time of a directory. */
bool untar_finish_step(struct untar *u);
