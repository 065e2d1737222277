/* work.h - queues of objects to decide on: one entry for each, in order, one pass at a time,
 * with a
 * delay after failures that grows. Loop thread only. */
#pragma once

#include "base/list.h"
#include "net/loop.h"
#include "operator/plan.h"

struct queues;

struct work {
    struct list link;
    struct queues *queues;
    struct loop_timer timer; /* a pass that is due later */
    enum object_kind kind;   /* sandbox, pool or snapshot */
    unsigned failures;       /* in a row */
    bool queued, running, dirty;
    bool dead; /* the object is gone: freed when its pass ends */
};

enum { QUEUE_COUNT = OBJECT_SNAPSHOT + 1 };

struct queue {
    struct list waiting;
    size_t depth;
    unsigned running, limit;
    uint64_t passes, failures;
};

struct queues {
    struct loop *loop;
    struct queue rows[QUEUE_COUNT]; /* by object_kind */
    struct loop_yield pump;
    bool open; /* false: nothing runs yet */
    /* Begins a pass; it ends by work_end, also before this returns. */
    void (*run)(struct work *w);
    void (*free_dead)(struct work *w);
};

void queues_init(struct queues *q, struct loop *loop, void (*run)(struct work *),
                 void (*free_dead)(struct work *));
void queues_open(struct queues *q);  /* passes may run */
void queues_close(struct queues *q); /* none begins from now on */

void work_init(struct work *w, struct queues *q, enum object_kind kind);
void work_wake(struct work *w);                    /* as soon as its turn comes */
void work_wake_after(struct work *w, uint64_t ms); /* the earliest of several counts */
/* The pass is over. After a failure the next comes by itself, later each time. */
void work_end(struct work *w, bool failed);
/* The object is gone. free_dead comes now, or at the end of the pass that runs. */
void work_drop(struct work *w);
