/* snapshot.h - copies what a sandbox wrote, as a layer for other sandboxes.
 *
 * A caller that is not root may own the target directory and change it meanwhile. So every step
 * starts at a directory that is held open, and none goes through a symbolic link or "..". */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct snapshot {
    int layer;          /* from disk_open_layer */
    uint32_t uid_first; /* host id of id 0 inside */
    bool usr;           /* include the writable layer of /usr */
    bool setuid;        /* files keep their setuid and setgid bits */
};

/* Copies the writable layer into the empty directory `to`: files, symbolic links, fifos, whiteouts
 * and overlay xattrs, modes and times; ids as seen inside. Sparse files stay sparse; hard links
 * become copies. The sandbox must not write meanwhile. */
int snapshot_copy(const struct snapshot *s, int to, struct err *e);

/* Removes everything in a directory, at any depth. -EBUSY when something is mounted there. */
int snapshot_erase(int dir, struct err *e);
