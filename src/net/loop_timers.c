#include "net/loop_timers.h"

#include "base/mem.h"
#include "base/time.h"
#include "net/loop.h"

enum { HEAP_FIRST = 64 };

static void heap_place(struct loop_timers *h, size_t i, struct loop_timer_slot slot)
{
    h->heap[i] = slot;
    slot.t->slot = (uint32_t)i + 1;
}

static void heap_up(struct loop_timers *h, size_t i, struct loop_timer_slot slot)
{
    while (i > 0) {
        size_t parent = (i - 1) / 2;

        if (h->heap[parent].key_ns <= slot.key_ns)
            break;
        heap_place(h, i, h->heap[parent]);
        i = parent;
    }
    heap_place(h, i, slot);
}

static void heap_down(struct loop_timers *h, size_t i, struct loop_timer_slot slot)
{
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->count)
            break;
        if (child + 1 < h->count && h->heap[child + 1].key_ns < h->heap[child].key_ns)
            child++;
        if (slot.key_ns <= h->heap[child].key_ns)
            break;
        heap_place(h, i, h->heap[child]);
        i = child;
    }
    heap_place(h, i, slot);
}

void loop_timers_done(struct loop_timers *h)
{
    free(h->heap);
    *h = (struct loop_timers){0};
}

static void heap_push(struct loop_timers *h, struct loop_timer *t)
{
    if (h->count == h->cap) {
        h->cap = h->cap ? h->cap * 2 : HEAP_FIRST;
        h->heap = mem_realloc(h->heap, h->cap * sizeof(*h->heap));
    }
    h->count++;
    heap_up(h, h->count - 1, (struct loop_timer_slot){t->due_ns, t});
}

void loop_timers_set(struct loop_timers *h, struct loop_timer *t, uint64_t due_ns)
{
    t->due_ns = due_ns;
    if (!t->slot)
        heap_push(h, t);
    else if (due_ns < h->heap[t->slot - 1].key_ns)
        heap_up(h, t->slot - 1, (struct loop_timer_slot){due_ns, t});
}

void loop_timers_remove(struct loop_timers *h, struct loop_timer *t)
{
    size_t i = t->slot;
    struct loop_timer_slot last;

    if (i == 0)
        return;
    i--;
    t->slot = 0;
    last = h->heap[--h->count];
    if (last.t == t)
        return;
    if (i > 0 && h->heap[(i - 1) / 2].key_ns > last.key_ns)
        heap_up(h, i, last);
    else
        heap_down(h, i, last);
}

uint64_t loop_timers_next_ns(const struct loop_timers *h)
{
    return h->count ? h->heap[0].key_ns : DEADLINE_NEVER;
}

struct loop_timer *loop_timers_pop_due(struct loop_timers *h, uint64_t now_ns)
{
    while (h->count && h->heap[0].key_ns <= now_ns) {
        struct loop_timer *t = h->heap[0].t;

        if (t->due_ns > now_ns) { /* its deadline was moved later */
            heap_down(h, 0, (struct loop_timer_slot){t->due_ns, t});
            continue;
        }
        loop_timers_remove(h, t);
        return t;
    }
    return NULL;
}
