#include "execd/tree/slice.h"

#include "base/time.h"

enum { SLICE_NS = 1000 * 1000 };

static void slice_turn(struct slice *s);

static void slice_on_timer(struct loop_timer *t)
{
    slice_turn(container_of(t, struct slice, timer));
}

static void slice_turn(struct slice *s)
{
    uint64_t end_ns = time_mono_ns() + SLICE_NS;

    while (s->step(s)) {
        if (time_mono_ns() < end_ns)
            continue;
        loop_timer_set(s->loop, &s->timer, loop_now_ns(s->loop), slice_on_timer);
        return;
    }
}

void slice_start(struct slice *s, struct loop *loop, bool (*step)(struct slice *s))
{
    s->loop = loop;
    s->step = step;
    loop_timer_stop(loop, &s->timer);
    slice_turn(s);
}

void slice_stop(struct slice *s)
{
    if (s->loop)
        loop_timer_stop(s->loop, &s->timer);
}
