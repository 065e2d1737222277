/* slice.h - long work in short turns: a step is called again and again, about a millisecond per
 * turn of the loop, so that everyone else is served in between. */
#pragma once

#include "net/loop.h"

struct slice {
    struct loop *loop;
    struct loop_timer timer;
    /* Does a little. False ends it: for good, or until slice_start; it may then free its owner. */
    bool (*step)(struct slice *s);
};

/* Begins with a first turn right here, so that short work is over when it returns. */
void slice_start(struct slice *s, struct loop *loop, bool (*step)(struct slice *s));
void slice_stop(struct slice *s); /* no step comes any more; never started is fine */
