/* trim.h - less memory while nothing happens. Loop thread only.
 *
 * The kernel maps a program's file sixteen pages at a time, so whoever passes through execd once
 * has most of it mapped. Little of that is needed to wait, which is what most of them do. A second
 * after something happened the mapped pages of the file are given back, those that nobody can have
 * written. They are in the page cache still: what runs next finds them at the price of a fault. */
#pragma once

#include "net/loop.h"

struct trim {
    struct loop *loop;
    struct loop_timer timer;
    bool due;
};

void trim_init(struct trim *t, struct loop *loop);
void trim_soon(struct trim *t); /* something happens */
void trim_done(struct trim *t); /* all zero is fine */
