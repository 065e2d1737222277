/* layer_copy.h - copies the writable layer of a sandbox, and merges layers, into shifted layers.
 *
 * A caller that is not root may own the target directory and change it meanwhile. So every step
 * starts at a directory that is held open, and none goes through a symbolic link or "..". */
#pragma once

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>

struct layer_size {
    uint64_t entries, bytes; /* bytes that were copied, not those of links */
};

/* When to give up. */
struct layer_stop {
    int caller;        /* socket: -ECANCELED soon after its other side is closed; or -EBADF */
    uint64_t deadline; /* -ETIMEDOUT soon after it, see base/time.h */
};

/* Files that were copied before the sandbox was frozen. */
struct layer_ahead {
    int dir; /* -EBADF = none */
    char name[32];
};

struct layer_copy {
    int from;          /* from disk_open_layer */
    uint32_t id_first; /* id of root's files in it */
    bool usr;          /* include the writable layer of /usr */
    struct layer_stop stop;
    const struct layer_ahead *ahead; /* with the same target; NULL = none */
};

/* Copies large files that nobody writes to, while the sandbox runs, into a new directory below
 * `to`. The layer_copy() that follows, of the frozen sandbox, takes those that have not changed
 * since, so that it lasts as long as what is changing demands. A file that cannot be copied is left
 * to it. */
void layer_ahead_start(const struct layer_copy *c, int to, struct layer_ahead *ret);
/* Removes what was not taken; until then `to` is no layer. */
int layer_ahead_end(struct layer_ahead *a, int to, struct err *e);

/* Copies the writable layer into the empty directory `to`: files, symbolic links, fifos, whiteouts,
 * attributes, modes and times; ids as in a layer with PLAN_LAYER_SHIFTED. Sparse files stay sparse,
 * hard links stay hard links, and data is shared where the file system can. Leaves out what we put
 * into sandboxes ourselves. The sandbox must not write meanwhile. */
int layer_copy(const struct layer_copy *c, int to, struct layer_size *ret, struct err *e);

struct layer_merge {
    const int *layers; /* shifted layers, topmost first */
    size_t count;
    bool link; /* make hard links where possible: the layers must never be written again */
    struct layer_stop stop;
};

/* Merges them into the empty directory `to`: one layer with the same effect, above whatever is
 * below. */
int layer_merge(const struct layer_merge *m, int to, struct layer_size *ret, struct err *e);
