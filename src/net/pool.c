#include "net/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"

enum {
    WORKER_STACK_BYTES = 1 << 20, /* musl's default of 128 KiB is too small for name lookup */
    NAME_MAX_BYTES = 16,          /* of a thread name, with its NUL: the kernel's limit */
};

enum pool_class {
    CLASS_FAST,
    CLASS_SLOW,
    CLASS_COUNT,
};

/* Each kind of job has a queue. Job numbers increase, so the smaller head is the older job. */
struct pool_queue {
    struct list jobs;
    unsigned queued, running;
    unsigned queued_max, running_max;
};

struct pool {
    pthread_mutex_t lock; /* guards all below, and the state of jobs */
    pthread_cond_t work;  /* a job was queued, or the pool stops */
    pthread_cond_t ended; /* a worker ended */
    struct pool_queue queues[CLASS_COUNT];
    unsigned queue_max;
    uint64_t submitted, finished;
    bool stopping;
    unsigned alive; /* workers that have not ended */
    unsigned thread_count;
    pthread_t threads[POOL_THREADS_MAX];
    char name[NAME_MAX_BYTES];
};

static struct pool_queue *queue_of(struct pool *p, const struct pool_job *job)
{
    return &p->queues[job->slow ? CLASS_SLOW : CLASS_FAST];
}

static struct pool_job *queue_first(const struct pool_queue *q)
{
    return list_empty(&q->jobs) ? NULL : container_of(q->jobs.next, struct pool_job, link);
}

/* --- back to the loop --- */

static void job_on_loop(struct loop_task *t)
{
    struct pool_job *job = container_of(t, struct pool_job, task);
    int error = job->error;

    job->state = POOL_JOB_IDLE;
    job->done(job, error); /* may free the job, or submit it again */
}

/* The pool does not access the job after this. */
static void job_send_home(struct pool_job *job)
{
    loop_post(job->loop, &job->task, job_on_loop);
}

/* --- workers --- */

/* The oldest job that may run now. */
static struct pool_job *pool_take(struct pool *p)
{
    struct pool_job *best = NULL;

    for (int i = 0; i < CLASS_COUNT; i++) {
        struct pool_queue *q = &p->queues[i];
        struct pool_job *job = q->running < q->running_max ? queue_first(q) : NULL;

        if (job && (!best || job->number < best->number))
            best = job;
    }
    if (best) {
        struct pool_queue *q = queue_of(p, best);

        list_remove(&best->link);
        q->queued--;
        q->running++;
        best->state = POOL_JOB_RUNNING;
    }
    return best;
}

static void pool_run(struct pool *p, struct pool_job *job)
{
    struct pool_queue *q = queue_of(p, job);

    pthread_mutex_unlock(&p->lock);
    job->work(job);
    pthread_mutex_lock(&p->lock);
    q->running--;
    p->finished++;
    job->state = POOL_JOB_ENDED;
    job_send_home(job);
}

static void *worker_main(void *arg)
{
    struct pool *p = arg;

    (void)pthread_setname_np(pthread_self(), p->name);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct pool_job *job = pool_take(p);

        if (job)
            pool_run(p, job);
        else if (p->stopping)
            break;
        else
            pthread_cond_wait(&p->work, &p->lock);
    }
    p->alive--;
    pthread_cond_broadcast(&p->ended);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* --- submitting --- */

static int pool_enqueue(struct pool *p, struct pool_job *job)
{
    struct pool_queue *q = queue_of(p, job);

    if (p->stopping)
        return -ESHUTDOWN;
    if (q->queued == q->queued_max ||
        p->queues[CLASS_FAST].queued + p->queues[CLASS_SLOW].queued == p->queue_max)
        return -EAGAIN;
    job->number = p->submitted++;
    job->state = POOL_JOB_QUEUED;
    list_push(&q->jobs, &job->link);
    q->queued++;
    pthread_cond_signal(&p->work);
    return 0;
}

int pool_submit(struct pool *p, struct pool_job *job, struct loop *loop,
                void (*work)(struct pool_job *), void (*done)(struct pool_job *, int),
                unsigned flags)
{
    int r = -EBUSY;

    pthread_mutex_lock(&p->lock);
    if (job->state == POOL_JOB_IDLE) {
        *job = (struct pool_job){.work = work, .done = done, .loop = loop};
        job->slow = flags & POOL_SLOW;
        r = pool_enqueue(p, job);
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* Takes a queued job out. */
static void pool_dequeue(struct pool *p, struct pool_job *job, enum pool_job_state state)
{
    list_remove(&job->link);
    queue_of(p, job)->queued--;
    job->state = state;
}

bool pool_cancel(struct pool *p, struct pool_job *job)
{
    bool queued;

    pthread_mutex_lock(&p->lock);
    queued = job->state == POOL_JOB_QUEUED;
    if (queued)
        pool_dequeue(p, job, POOL_JOB_IDLE);
    pthread_mutex_unlock(&p->lock);
    return queued;
}

/* --- the pool --- */

/* Workers block signals that other threads wait for, but not those of their own faults: the kernel
 * would kill the process without running the handler that reports why. */
static void block_signals(sigset_t *ret_old)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t set;

    sigfillset(&set);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        sigdelset(&set, own[i]);
    pthread_sigmask(SIG_SETMASK, &set, ret_old);
}

static int pool_start_workers(struct pool *p, unsigned count)
{
    pthread_attr_t attr;
    sigset_t old;
    int r = 0;

    block_signals(&old); /* inherited by the threads we start */
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, WORKER_STACK_BYTES);
    pthread_mutex_lock(&p->lock);
    while (r == 0 && p->thread_count < count) {
        r = pthread_create(&p->threads[p->thread_count], &attr, worker_main, p);
        if (r == 0)
            p->alive = ++p->thread_count;
    }
    pthread_mutex_unlock(&p->lock);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

static void pool_init_sync(struct pool *p)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->ended, &attr);
    pthread_condattr_destroy(&attr);
}

static unsigned half_of(unsigned n)
{
    return n > 1 ? n / 2 : 1;
}

int pool_new(const struct pool_conf *conf, struct pool **ret_pool, struct err *e)
{
    struct pool *p;
    int r;

    if (conf->threads < 1 || conf->threads > POOL_THREADS_MAX || conf->queue_max < 1)
        return err_set(e, EINVAL, "a pool has 1 to %d threads and a queue", POOL_THREADS_MAX);
    p = mem_new(struct pool);
    pool_init_sync(p);
    snprintf(p->name, sizeof(p->name), "%s", conf->name);
    p->queue_max = conf->queue_max;
    p->queues[CLASS_FAST].running_max = conf->threads;
    p->queues[CLASS_FAST].queued_max = conf->queue_max;
    p->queues[CLASS_SLOW].running_max = half_of(conf->threads);
    p->queues[CLASS_SLOW].queued_max = half_of(conf->queue_max);
    for (int i = 0; i < CLASS_COUNT; i++)
        list_init(&p->queues[i].jobs);
    r = pool_start_workers(p, conf->threads);
    if (r < 0) {
        pool_free(p);
        return err_sys(e, -r, "start worker threads");
    }
    *ret_pool = p;
    return 0;
}

static void pool_cancel_queued(struct pool *p)
{
    for (int i = 0; i < CLASS_COUNT; i++)
        for (struct pool_job *job; (job = queue_first(&p->queues[i]));) {
            pool_dequeue(p, job, POOL_JOB_ENDED);
            job->error = ECANCELED;
            job_send_home(job);
        }
}

/* With the lock held: waits until no worker is left, or the deadline passed. */
static int pool_wait_ended(struct pool *p, uint64_t deadline_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(deadline_ns / 1000000000),
        .tv_nsec = (long)(deadline_ns % 1000000000),
    };

    while (p->alive > 0) {
        int r = deadline_ns == DEADLINE_NEVER ? pthread_cond_wait(&p->ended, &p->lock)
                                              : pthread_cond_timedwait(&p->ended, &p->lock, &until);

        if (r == ETIMEDOUT && p->alive > 0)
            return -ETIMEDOUT;
    }
    return 0;
}

static int pool_stop_until(struct pool *p, uint64_t deadline_ns)
{
    int r;

    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pool_cancel_queued(p);
    pthread_cond_broadcast(&p->work);
    r = pool_wait_ended(p, deadline_ns);
    pthread_mutex_unlock(&p->lock);
    return r;
}

int pool_stop(struct pool *p, uint32_t wait_ms)
{
    return pool_stop_until(p, deadline_in_ms(wait_ms));
}

void pool_free(struct pool *p)
{
    if (!p)
        return;
    (void)pool_stop_until(p, DEADLINE_NEVER);
    for (unsigned i = 0; i < p->thread_count; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void pool_stats(struct pool *p, struct pool_stats *ret)
{
    const struct pool_queue *fast = &p->queues[CLASS_FAST], *slow = &p->queues[CLASS_SLOW];

    pthread_mutex_lock(&p->lock);
    *ret = (struct pool_stats){
        .threads = p->thread_count,
        .running = fast->running + slow->running,
        .running_slow = slow->running,
        .queued = fast->queued + slow->queued,
        .queued_slow = slow->queued,
        .finished = p->finished,
    };
    pthread_mutex_unlock(&p->lock);
}
