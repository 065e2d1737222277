/* isolated_gauge.h - how much a layer takes that lies on a disk, looked at while its session lives.
 * Loop thread only.
 *
 * A tmpfs has a size; a directory has none. So the file system is asked often how much of it is
 * free, which is cheap, and the layer is walked when it could have outgrown its ceiling since it
 * last was, and every GAUGE_WALK_S in any case. What is open and has no name is not counted. */
#pragma once

#include "execd/isolated/isolated.h"

enum {
    GAUGE_LOOK_MS = 250,
    GAUGE_WALK_S = 60,
    GAUGE_ENTRY_BYTES = 512, /* what an entry takes, beside its blocks */
};

struct isolated_gauge;

/* on_outgrown comes once, never from within this call, and may stop it: the layer is larger than
 * that, or cannot be measured. */
struct isolated_gauge *gauge_start(struct isolated *s, uint64_t bytes_max,
                                   void (*on_outgrown)(struct isolated *s));
void gauge_stop(struct isolated_gauge *g); /* NULL is fine */
