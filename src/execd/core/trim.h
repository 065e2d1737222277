/* trim.h - gives memory back while execd is idle. Loop thread only.
 *
 * The kernel maps a program's file in blocks of sixteen pages (fault-around), so a few requests map
 * most of execd. An idle execd needs little of it. One second after activity the mapped pages of
 * the file that cannot have been written are released (MADV_DONTNEED). They stay in the page cache:
 * using them again costs a minor fault. */
#pragma once

#include "net/loop.h"

struct trim {
    struct loop *loop;
    struct loop_timer timer;
    bool due;
};

void trim_init(struct trim *t, struct loop *loop);
void trim_soon(struct trim *t); /* call on activity */
void trim_done(struct trim *t); /* an all-zero struct is fine */
