/* pool.h - worker threads for blocking work: files, hashing, name lookup, databases.
 *
 * A job has data, `work`, which runs on a worker, and `done`, which runs on the loop that submitted
 * it; nothing else crosses threads. Jobs are embedded in their owners and need no allocation. Both
 * threads and queue are limited, and slow jobs get at most half of either (at least one), so that a
 * burst of uploads cannot delay a short lookup.
 *
 *   static void lookup_work(struct pool_job *job) { ... container_of(job, struct lookup, job) }
 *   static void lookup_done(struct pool_job *job, int error) { ... }
 *
 *   r = pool_submit(pool, &lookup->job, loop, lookup_work, lookup_done, 0);
 *
 * One pool may serve several loops. Every loop must outlive the pool. */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "net/loop.h"

struct pool;

enum pool_flags {
    POOL_SLOW = 1, /* may take longer than about 100 ms */
};

struct pool_job {
    /* All fields are private. A zeroed job is idle. */
    void (*work)(struct pool_job *job);
    void (*done)(struct pool_job *job, int error);
    struct loop *loop;
    struct loop_task task; /* posts the job back to its loop */
    struct list link;      /* in a queue */
    uint64_t number;       /* in order of submission */
    int error;
    enum pool_job_state {
        POOL_JOB_IDLE,
        POOL_JOB_QUEUED,
        POOL_JOB_RUNNING,
        POOL_JOB_ENDED, /* `done` is posted */
    } state;
    bool slow;
};

struct pool_conf {
    const char *name;   /* thread name; 15 characters are shown */
    unsigned threads;   /* 1 to POOL_THREADS_MAX */
    unsigned queue_max; /* waiting jobs; at least 1 */
};
enum { POOL_THREADS_MAX = 64 };

int pool_new(const struct pool_conf *conf, struct pool **ret_pool, struct err *e);

/* Accepts no more jobs, cancels the queued ones (done comes with ECANCELED) and waits for running
 * ones. 0 when all workers ended; -ETIMEDOUT when some still run after wait_ms: a thread cannot be
 * stopped from outside, so the pool stays valid and the call may be repeated. BLOCKS. */
int pool_stop(struct pool *p, uint32_t wait_ms);
/* pool_stop without a limit, then frees. Accepts NULL. Finished jobs are not delivered yet: run the
 * loops once more, or loop_settle them. BLOCKS. */
void pool_free(struct pool *p);

/* From any thread that may access the job; usually the loop's own. On 0, done comes exactly once,
 * on the thread of `loop`, with error 0 or ECANCELED; until then the job and its data must stay in
 * place. -EAGAIN when the queue is full, -ESHUTDOWN after pool_stop, -EBUSY when the job is not
 * idle. */
int pool_submit(struct pool *p, struct pool_job *job, struct loop *loop,
                void (*work)(struct pool_job *), void (*done)(struct pool_job *, int error),
                unsigned flags);

/* Removes a job that no worker has begun: true, and neither work nor done will be called. False
 * when it is too late: done will be called, or was. */
bool pool_cancel(struct pool *p, struct pool_job *job);

struct pool_stats {
    unsigned threads, running, running_slow, queued, queued_slow;
    uint64_t finished;
};
void pool_stats(struct pool *p, struct pool_stats *ret);
