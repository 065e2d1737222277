/* walk.h - goes through a directory tree in order of names, in small steps.
 *
 * No link is followed, also if one replaces a directory meanwhile: every step is relative to an
 * open directory, and ".." is checked to lead back to the previous one. Holds one descriptor,
 * briefly two, at any depth, and for each directory on the way down its remaining names, up to a
 * limit. */
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
    WALK_UP,    /* an entered directory has ended */
    WALK_MORE,  /* no result yet; call again */
};

struct walk_entry {  /* valid until the next call */
    struct str path; /* the root's path and the path below it; NUL-terminated */
    struct str name; /* NUL-terminated */
    struct stat st;
    size_t level; /* 1 for entries of the root */
};

struct walk_level;

struct walk {
    int fd; /* the current directory */
    struct walk_level *levels;
    size_t depth, room;
    size_t name_bytes;
    struct buf path;
    char *entries; /* buffer for getdents */
    /* Set by the caller: skip what cannot be read, stat'ed or returned to, except the root. */
    bool lenient;
};

/* -ENOTDIR when the root is no directory, also for a link to one. Call walk_done in any case. */
int walk_open(struct walk *w, const char *root, struct err *e) MUST_USE;
void walk_done(struct walk *w); /* all zero is fine */

/* The next event, an enum walk_event; or -errno, which ends the walk. Takes well below a
 * millisecond. Entries that vanish meanwhile are left out. */
int walk_next(struct walk *w, struct walk_entry *ret, struct err *e) MUST_USE;

/* Enters the directory just returned. On failure the walk continues after it. */
int walk_enter(struct walk *w, const struct walk_entry *entry, struct err *e) MUST_USE;

/* The current directory, for *at() calls. */
static inline int walk_dir(const struct walk *w)
{
    return w->fd;
}
