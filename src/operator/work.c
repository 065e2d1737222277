#include "operator/work.h"

#include "base/time.h"

enum {
    BACKOFF_FIRST_MS = 5,
    BACKOFF_MAX_MS = 30 * 1000,
    BACKOFF_STEPS = 13, /* 5 ms * 2^13 is past the maximum */
    PASSES_PER_TURN = 64,
};

void queues_init(struct queues *q, struct loop *loop, void (*run)(struct work *),
                 void (*free_dead)(struct work *))
{
    *q = (struct queues){.loop = loop, .run = run, .free_dead = free_dead};
    for (size_t i = 0; i < QUEUE_COUNT; i++) {
        list_init(&q->rows[i].waiting);
        q->rows[i].limit = 1;
    }
}

static struct work *next_of(struct queue *queue)
{
    struct work *w;

    if (list_empty(&queue->waiting) || queue->running >= queue->limit)
        return NULL;
    w = container_of(queue->waiting.next, struct work, link);
    list_remove(&w->link);
    queue->depth--;
    w->queued = false;
    w->running = true;
    w->dirty = false;
    queue->running++;
    queue->passes++;
    return w;
}

static void pump(struct loop_yield *y);

static void pump_later(struct queues *q)
{
    if (q->open)
        loop_yield(q->loop, &q->pump, pump);
}

static void pump(struct loop_yield *y)
{
    struct queues *q = container_of(y, struct queues, pump);
    unsigned budget = PASSES_PER_TURN;
    bool more = true;

    while (q->open && more && budget > 0) {
        more = false;
        for (size_t i = 0; i < QUEUE_COUNT && budget > 0; i++) {
            struct work *w = next_of(&q->rows[i]);

            if (!w)
                continue;
            budget--;
            more = true;
            q->run(w);
        }
    }
    if (more && q->open)
        pump_later(q);
}

void queues_open(struct queues *q)
{
    q->open = true;
    pump_later(q);
}

void queues_close(struct queues *q)
{
    q->open = false;
}

void work_init(struct work *w, struct queues *q, enum object_kind kind)
{
    *w = (struct work){.queues = q, .kind = kind};
    list_init(&w->link);
}

void work_wake(struct work *w)
{
    struct queue *queue = &w->queues->rows[w->kind];

    if (w->dead)
        return;
    if (w->running) {
        w->dirty = true;
        return;
    }
    if (w->queued)
        return;
    w->queued = true;
    queue->depth++;
    list_push(&queue->waiting, &w->link);
    pump_later(w->queues);
}

static void timer_due(struct loop_timer *t)
{
    work_wake(container_of(t, struct work, timer));
}

void work_wake_after(struct work *w, uint64_t ms)
{
    uint64_t due = loop_now_ns(w->queues->loop) + ms * TIME_NS_PER_MS;

    if (w->dead || (loop_timer_armed(&w->timer) && w->timer.due_ns <= due))
        return;
    loop_timer_set(w->queues->loop, &w->timer, due, timer_due);
}

void work_end(struct work *w, bool failed)
{
    struct queue *queue = &w->queues->rows[w->kind];
    uint64_t delay;

    queue->running--;
    w->running = false;
    pump_later(w->queues);
    if (w->dead) {
        w->queues->free_dead(w);
        return;
    }
    if (!failed) {
        w->failures = 0;
        if (w->dirty)
            work_wake(w);
        return;
    }
    queue->failures++;
    delay = (uint64_t)BACKOFF_FIRST_MS
            << (w->failures < BACKOFF_STEPS ? w->failures : BACKOFF_STEPS);
    w->failures++;
    work_wake_after(w, delay < BACKOFF_MAX_MS ? delay : BACKOFF_MAX_MS);
}

void work_drop(struct work *w)
{
    loop_timer_stop(w->queues->loop, &w->timer);
    if (w->queued) {
        list_remove(&w->link);
        w->queues->rows[w->kind].depth--;
        w->queued = false;
    }
    w->dead = true;
    if (!w->running)
        w->queues->free_dead(w);
}
