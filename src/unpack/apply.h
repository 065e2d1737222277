/* apply.h - carries out the changes of a layer below a directory, in the form that overlayfs reads.
 *
 * Follows no symbolic link, and so never leaves the directory. A later entry replaces an earlier
 * one of the same name; a directory keeps what is in it. A whiteout becomes a device 0/0. An opaque
 * directory is handed to `opaque`, as only the host's root may mark it. */
#pragma once

#include "unpack/layer.h"

struct apply {
    int root; /* directory to fill */
    int (*opaque)(void *ctx, int dir, struct err *e);
    void *ctx;
    int parent; /* of the current entry */
    struct buf parent_path;
    int file; /* the current file */
    struct layer_change now;
    struct buf times; /* of directories, set at the end: struct apply_time and the path, each */
    bool is_file;
};

extern const struct layer_ops apply_ops; /* ctx: struct apply */

void apply_init(struct apply *a, int root, int (*opaque)(void *ctx, int dir, struct err *e),
                void *ctx);
void apply_done(struct apply *a);
/* After the last change: sets the times of directories. */
int apply_end(struct apply *a, struct err *e);
