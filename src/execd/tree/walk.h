/* walk.h - goes through a directory tree in order of names, a little at a time.
 *
 * No link is followed, also not one that takes a directory's place meanwhile: every step is taken
 * relative to an open directory, and going up is checked to lead back where it came from. Holds one
 * descriptor, or two for a moment, whatever the depth, and of each directory on the way down the
 * names still to come, up to a ceiling. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    WALK_DEPTH_MAX = 10000,
    WALK_PATH_BYTES_MAX = 64 << 10,
    WALK_NAME_BYTES_MAX = 32 << 20, /* of all names held at a time */
};

enum walk_event {
    WALK_END,   /* of the tree */
    WALK_ENTRY, /* the entry is filled */
    WALK_UP,    /* a directory entered is over */
    WALK_MORE,  /* nothing to tell yet; call again */
};

struct walk_entry {  /* until the next call */
    struct str path; /* the root's and what leads here; NUL-terminated */
    struct str name; /* NUL-terminated */
    struct stat st;
    size_t level; /* 1 for what stands in the root */
};

struct walk_level;

struct walk {
    int fd; /* the directory we are in */
    struct walk_level *levels;
    size_t depth, room;
    size_t name_bytes;
    struct buf path;
    char *entries; /* what getdents fills */
    bool lenient;  /* to be set: what cannot be read, looked at or come back to is left out, but for
                      the root */
};

/* -ENOTDIR when the root is no directory (or a link to one). The walk is to be done with in any
 * case. */
int walk_open(struct walk *w, const char *root, struct err *e) MUST_USE;
void walk_done(struct walk *w); /* zeroed is fine */

/* The next event, an enum walk_event, or -errno, after which there is none. Takes well below a
 * millisecond. Entries that vanish meanwhile are left out. */
int walk_next(struct walk *w, struct walk_entry *ret, struct err *e) MUST_USE;

/* Goes down into the directory just told of. On failure the walk goes on behind it. */
int walk_enter(struct walk *w, const struct walk_entry *entry, struct err *e) MUST_USE;

/* Of the directory we are in; to make things relative to it. */
static inline int walk_dir(const struct walk *w)
{
    return w->fd;
}
