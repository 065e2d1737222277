/* slice.h - splits long work into steps: they run for about a millisecond per loop turn, so that
 * other events are served in between. */
#pragma once

#include "net/loop.h"

struct slice {
    struct loop *loop;
    struct loop_timer timer;
    /* Does a little. False ends the work, for good or until slice_start; the step may then free its
     * owner. */
    bool (*step)(struct slice *s);
};

/* Runs the first turn within this call, so that short work is done when it returns. */
void slice_start(struct slice *s, struct loop *loop, bool (*step)(struct slice *s));
void slice_stop(struct slice *s); /* no further step; fine if never started */
