/* loop_timers.h - the loop's timers: a binary heap with keys that may be too early.
 *
 * A timer's key is the time it was queued for; its due time may be later. Moving a deadline later,
 * as every read on a connection does, only stores the new time. When the key comes up and the due
 * time is later, the timer is queued again. */
#pragma once

#include "base/defs.h"

struct loop_timer;
struct loop_timers {
    struct loop_timer_slot {
        uint64_t key_ns;
        struct loop_timer *t;
    } * heap;
    size_t count, cap;
};

void loop_timers_done(struct loop_timers *h);
void loop_timers_set(struct loop_timers *h, struct loop_timer *t, uint64_t due_ns);
void loop_timers_remove(struct loop_timers *h, struct loop_timer *t);

/* The next key; DEADLINE_NEVER when there is none. */
uint64_t loop_timers_next_ns(const struct loop_timers *h);
/* Removes one timer that is due and returns it, or NULL. */
struct loop_timer *loop_timers_pop_due(struct loop_timers *h, uint64_t now_ns);
