/* isolated_gauge.h - watches the size of a layer on disk while its session lives. Loop thread only.
 *
 * A tmpfs has a size limit, a directory has none. So the gauge often asks the file system for its
 * free space (statfs), which is cheap. It walks the layer if the layer could have exceeded its
 * limit since the last walk, and at least every GAUGE_WALK_S. Open files without a name (unlinked)
 * are not counted. */
#pragma once

#include "execd/isolated/isolated.h"

enum {
    GAUGE_LOOK_MS = 250,
    GAUGE_WALK_S = 60,
    GAUGE_ENTRY_BYTES = 512, /* assumed size of an entry, in addition to its blocks */
};

struct isolated_gauge;

/* on_outgrown is called once, never from within this call: the layer is larger than `bytes_max`, or
 * cannot be measured. It may call gauge_stop(). */
struct isolated_gauge *gauge_start(struct isolated *s, uint64_t bytes_max,
                                   void (*on_outgrown)(struct isolated *s));
void gauge_stop(struct isolated_gauge *g); /* NULL is fine */
