/* snapshot.h - what a sandbox wrote, as a layer others can stand on.
 *
 * The directory it goes to may be a caller's who is not root and moves things about meanwhile. So
 * every step is taken from a directory that is held open, none through a link or "..". */
#pragma once

#include "base/err.h"
#include <stdbool.h>

struct snapshot {
    int layer;          /* as disk_open_layer has it */
    uint32_t uid_first; /* outside, what is 0 inside */
    bool usr;           /* with the writable layer of /usr in its place */
    bool setuid;        /* files keep their setuid and setgid bits */
};

/* Copies the writable layer into the empty directory `to`: files, links, fifos, whiteouts and
 * overlayfs' marks, modes and times; ids as they are inside. Sparse files stay sparse; hard links
 * become copies. The sandbox must not be writing. */
int snapshot_copy(const struct snapshot *s, int to, struct err *e);

/* Removes all that a directory holds, however deep; what is mounted there stops it with -EBUSY. */
int snapshot_erase(int dir, struct err *e);
