/* pool.h - a few worker threads for what blocks: files, hashing, name lookup, databases.
 *
 * A job is data, `work`, which runs on a worker, and `done`, which runs back on the loop that
 * asked; nothing else crosses threads. Jobs are embedded in their owners and cost no allocation.
 * Both the threads and the queue are bounded, and slow jobs get at most half of either (at least
 * one), so that a burst of uploads cannot keep a short lookup waiting.
 *
 *     static void lookup_work(struct pool_job *job) { ... container_of(job, struct lookup, job) }
 *     static void lookup_done(struct pool_job *job, int error) { ... }
 *     r = pool_submit(pool, &lookup->job, loop, lookup_work, lookup_done, 0);
 *
 * One pool may serve several loops. Every loop outlives the pool. */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "net/loop.h"

struct pool;

enum pool_flags {
    POOL_SLOW = 1, /* may take longer than about 100 ms */
};

struct pool_job {
    /* All the pool's. A zeroed job is an idle one. */
    void (*work)(struct pool_job *job);
    void (*done)(struct pool_job *job, int error);
    struct loop *loop;
    struct loop_task task; /* brings it home */
    struct list link;      /* in a queue */
    uint64_t number;       /* in order of submission */
    int error;
    enum pool_job_state {
        POOL_JOB_IDLE,
        POOL_JOB_QUEUED,
        POOL_JOB_RUNNING,
        POOL_JOB_ENDED, /* done is on its way */
    } state;
    bool slow;
};

struct pool_conf {
    const char *name;   /* of the threads; 15 characters are shown */
    unsigned threads;   /* 1 to POOL_THREADS_MAX */
    unsigned queue_max; /* jobs that wait; at least 1 */
};
enum { POOL_THREADS_MAX = 64 };

int pool_new(const struct pool_conf *conf, struct pool **ret_pool, struct err *e);

/* Takes no more jobs, cancels the queued ones (done comes, with ECANCELED) and waits for those that
 * run. 0 when all workers ended; -ETIMEDOUT when some still run after wait_ms: a thread cannot be
 * stopped from outside, so the pool stays as it is, and one may call again. BLOCKS. */
int pool_stop(struct pool *p, uint32_t wait_ms);
/* pool_stop without a limit, then frees. NULL is fine. What ended is still to be delivered: run the
 * loops once more, or loop_settle them. BLOCKS. */
void pool_free(struct pool *p);

/* Any thread that may touch the job; usually the loop's own. 0, and then done comes exactly once,
 * on the thread of `loop`, with error 0 or ECANCELED; until then the job and its data stay in
 * place. -EAGAIN when the queue is full, -ESHUTDOWN after pool_stop, -EBUSY when the job is not
 * idle. */
int pool_submit(struct pool *p, struct pool_job *job, struct loop *loop,
                void (*work)(struct pool_job *), void (*done)(struct pool_job *, int error),
                unsigned flags);

/* Takes back a job that no worker has begun: true, and neither work nor done will come. False when
 * it is too late; done comes, or came. */
bool pool_cancel(struct pool *p, struct pool_job *job);

struct pool_stats {
    unsigned threads, running, running_slow, queued, queued_slow;
    uint64_t finished;
};
void pool_stats(struct pool *p, struct pool_stats *ret);
