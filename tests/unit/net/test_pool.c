#include "net/pool.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "test.h"

/* A gate holds workers until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    unsigned inside, inside_peak;
};
#define GATE_INIT                                                                                  \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                     \
    }

static void gate_pass(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->inside++;
    if (g->inside > g->inside_peak)
        g->inside_peak = g->inside;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->lock);
    g->inside--;
    pthread_mutex_unlock(&g->lock);
}

static void gate_open(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

/* Waits until n workers stand at the gate. */
static void gate_await(struct gate *g, unsigned n)
{
    pthread_mutex_lock(&g->lock);
    while (g->inside < n)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

struct task {
    struct pool_job job;
    struct loop *loop;
    struct gate *gate;
    unsigned *left; /* of this loop; the last one to be done stops it */
    pthread_t worker, home;
    unsigned worked, done, resubmit;
    struct pool *pool;
    int error;
    sigset_t mask;
};

static void task_work(struct pool_job *job)
{
    struct task *t = container_of(job, struct task, job);

    t->worker = pthread_self();
    t->worked++;
    pthread_sigmask(SIG_SETMASK, NULL, &t->mask);
    if (t->gate)
        gate_pass(t->gate);
}

static void task_done(struct pool_job *job, int error)
{
    struct task *t = container_of(job, struct task, job);

    t->home = pthread_self();
    t->done++;
    t->error = error;
    if (t->resubmit > 0) {
        t->resubmit--;
        CHECK_EQ(pool_submit(t->pool, job, t->loop, task_work, task_done, 0), 0);
        return;
    }
    if (t->left && --*t->left == 0)
        loop_stop(t->loop);
}

static struct pool *new_pool(unsigned threads, unsigned queue_max)
{
    struct pool_conf conf = {.name = "test", .threads = threads, .queue_max = queue_max};
    struct pool *p = NULL;

    CHECK_EQ(pool_new(&conf, &p, NULL), 0);
    return p;
}

static struct loop *new_loop(void)
{
    struct loop *l = NULL;

    CHECK_EQ(loop_new(&l, NULL), 0);
    return l;
}

static int submit(struct pool *p, struct task *t, unsigned flags)
{
    return pool_submit(p, &t->job, t->loop, task_work, task_done, flags);
}

TEST(pool, works_elsewhere_and_answers_on_the_asking_thread)
{
    struct loop *loop = new_loop();
    struct pool *p = new_pool(3, 100);
    struct task tasks[50] = {0};
    unsigned left = ARRAY_LEN(tasks);

    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        tasks[i].loop = loop;
        tasks[i].left = &left;
        CHECK_EQ(submit(p, &tasks[i], i % 3 ? 0 : POOL_SLOW), 0);
    }
    CHECK_EQ(loop_run(loop, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        CHECK_EQ(tasks[i].worked, 1);
        CHECK_EQ(tasks[i].done, 1);
        CHECK_EQ(tasks[i].error, 0);
        CHECK(pthread_equal(tasks[i].home, pthread_self()));
        CHECK(!pthread_equal(tasks[i].worker, pthread_self()));
    }
    pool_free(p);
    loop_free(loop);
}

TEST(pool, blocks_signals_in_its_workers_and_not_in_the_caller)
{
    struct loop *loop = new_loop();
    struct pool *p = new_pool(1, 1);
    unsigned left = 1;
    struct task t = {.loop = loop, .left = &left};
    sigset_t mine;

    CHECK_EQ(submit(p, &t, 0), 0);
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK(sigismember(&t.mask, SIGTERM));
    CHECK(sigismember(&t.mask, SIGCHLD));
    CHECK(!sigismember(&t.mask, SIGSEGV));
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    CHECK(!sigismember(&mine, SIGTERM));
    pool_free(p);
    loop_free(loop);
}

TEST(pool, refuses_what_does_not_fit_its_queue)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(1, 2);
    struct task tasks[4] = {0};
    unsigned left = 3;

    for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
        tasks[i] = (struct task){.loop = loop, .left = &left, .gate = &gate};
    CHECK_EQ(submit(p, &tasks[0], 0), 0);
    gate_await(&gate, 1); /* it runs, and waits in no queue */
    CHECK_EQ(submit(p, &tasks[0], 0), -EBUSY);
    CHECK_EQ(submit(p, &tasks[1], 0), 0);
    CHECK_EQ(submit(p, &tasks[1], 0), -EBUSY);
    CHECK_EQ(submit(p, &tasks[2], 0), 0);
    CHECK_EQ(submit(p, &tasks[3], 0), -EAGAIN);
    gate_open(&gate);
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(tasks[3].worked + tasks[3].done, 0);
    left = 1;
    CHECK_EQ(submit(p, &tasks[3], 0), 0); /* and takes it when there is room */
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(tasks[3].done, 1);
    pool_free(p);
    loop_free(loop);
}

TEST(pool, lets_slow_jobs_hold_half_of_its_threads)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(4, 20);
    struct task slow[8] = {0}, fast[6] = {0};
    unsigned left = ARRAY_LEN(fast);
    struct pool_stats stats;

    for (size_t i = 0; i < ARRAY_LEN(slow); i++) {
        slow[i] = (struct task){.loop = loop, .left = &left, .gate = &gate};
        CHECK_EQ(submit(p, &slow[i], POOL_SLOW), 0);
    }
    gate_await(&gate, 2);
    /* All slow ones stand before the fast ones in time, and yet these get through. */
    for (size_t i = 0; i < ARRAY_LEN(fast); i++) {
        fast[i] = (struct task){.loop = loop, .left = &left};
        CHECK_EQ(submit(p, &fast[i], 0), 0);
    }
    CHECK_EQ(loop_run(loop, NULL), 0);
    pool_stats(p, &stats);
    CHECK_EQ(stats.running_slow, 2);
    CHECK_EQ(stats.queued_slow, 6);
    left = ARRAY_LEN(slow);
    gate_open(&gate);
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(gate.inside_peak, 2);
    pool_free(p);
    loop_free(loop);
}

TEST(pool, leaves_half_of_its_queue_to_fast_jobs)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(1, 4);
    struct task tasks[6] = {0};
    unsigned left = 5;

    for (size_t i = 0; i < ARRAY_LEN(tasks); i++)
        tasks[i] = (struct task){.loop = loop, .left = &left, .gate = &gate};
    CHECK_EQ(submit(p, &tasks[0], POOL_SLOW), 0);
    gate_await(&gate, 1);
    CHECK_EQ(submit(p, &tasks[1], POOL_SLOW), 0);
    CHECK_EQ(submit(p, &tasks[2], POOL_SLOW), 0);
    CHECK_EQ(submit(p, &tasks[3], POOL_SLOW), -EAGAIN);
    CHECK_EQ(submit(p, &tasks[4], 0), 0);
    CHECK_EQ(submit(p, &tasks[5], 0), 0);
    gate_open(&gate);
    CHECK_EQ(loop_run(loop, NULL), 0);
    pool_free(p);
    loop_free(loop);
}

TEST(pool, takes_back_a_job_that_waits_but_not_one_that_runs)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(1, 4);
    unsigned left = 1;
    struct task runs = {.loop = loop, .left = &left, .gate = &gate};
    struct task waits = {.loop = loop};

    CHECK(!pool_cancel(p, &waits.job)); /* was never submitted */
    CHECK_EQ(submit(p, &runs, 0), 0);
    gate_await(&gate, 1);
    CHECK_EQ(submit(p, &waits, 0), 0);
    CHECK(pool_cancel(p, &waits.job));
    CHECK(!pool_cancel(p, &waits.job));
    CHECK(!pool_cancel(p, &runs.job));
    gate_open(&gate);
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(runs.done, 1);
    CHECK_EQ(waits.worked + waits.done, 0);
    left = 1;
    waits.left = &left;
    CHECK_EQ(submit(p, &waits, 0), 0); /* a cancelled job is as good as new */
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(waits.done, 1);
    pool_free(p);
    loop_free(loop);
}

TEST(pool, takes_a_job_again_from_its_own_done)
{
    struct loop *loop = new_loop();
    struct pool *p = new_pool(2, 1);
    unsigned left = 1;
    struct task t = {.loop = loop, .left = &left, .pool = p, .resubmit = 500};

    CHECK_EQ(submit(p, &t, 0), 0);
    CHECK_EQ(loop_run(loop, NULL), 0);
    CHECK_EQ(t.worked, 501);
    CHECK_EQ(t.done, 501);
    pool_free(p);
    loop_free(loop);
}

TEST(pool, stops_with_a_deadline_and_reports_what_it_cancelled)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(1, 4);
    struct task runs = {.loop = loop, .gate = &gate}, waits = {.loop = loop};
    uint64_t begin_ms = time_mono_ms();

    CHECK_EQ(submit(p, &runs, 0), 0);
    gate_await(&gate, 1);
    CHECK_EQ(submit(p, &waits, POOL_SLOW), 0);
    CHECK_EQ(pool_stop(p, 50), -ETIMEDOUT);
    CHECK(time_mono_ms() - begin_ms >= 49);
    CHECK_EQ(submit(p, &waits, 0), -EBUSY); /* its done is still to come */
    loop_settle(loop);
    CHECK_EQ(waits.done, 1);
    CHECK_EQ(waits.error, ECANCELED);
    CHECK_EQ(waits.worked, 0);
    CHECK_EQ(submit(p, &waits, 0), -ESHUTDOWN);
    gate_open(&gate);
    CHECK_EQ(pool_stop(p, 10000), 0);
    pool_free(p);
    loop_settle(loop);
    CHECK_EQ(runs.done, 1);
    CHECK_EQ(runs.error, 0);
    loop_free(loop);
}

struct opener {
    struct gate *gate;
    struct pool *pool;
};

/* Opens the gate once the pool has let go of all that does not stand there. */
static void *open_when_none_is_queued(void *arg)
{
    struct opener *o = arg;
    struct pool_stats stats;

    do {
        usleep(1000);
        pool_stats(o->pool, &stats);
    } while (stats.queued > 0);
    gate_open(o->gate);
    return NULL;
}

TEST(pool, frees_itself_while_busy_and_loses_no_job)
{
    struct gate gate = GATE_INIT;
    struct loop *loop = new_loop();
    struct pool *p = new_pool(4, 40);
    struct task tasks[40] = {0};
    struct opener opener = {&gate, p};
    unsigned worked = 0;
    pthread_t thread;

    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        tasks[i] = (struct task){.loop = loop, .gate = &gate};
        CHECK_EQ(submit(p, &tasks[i], 0), 0);
    }
    gate_await(&gate, 4);
    CHECK_EQ(pthread_create(&thread, NULL, open_when_none_is_queued, &opener), 0);
    pool_free(p); /* waits for the four at the gate */
    pthread_join(thread, NULL);
    loop_settle(loop);
    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        CHECK_EQ(tasks[i].done, 1);
        CHECK_EQ(tasks[i].error, tasks[i].worked ? 0 : ECANCELED);
        worked += tasks[i].worked;
    }
    CHECK_EQ(worked, 4);
    loop_free(loop);
}

/* One loop thread of two: its tasks go around the shared pool. */
struct side {
    struct pool *pool;
    pthread_t thread;
    struct task tasks[10];
};

static void *side_main(void *arg)
{
    struct side *side = arg;
    struct loop *loop = new_loop();
    unsigned left = ARRAY_LEN(side->tasks);

    for (size_t i = 0; i < ARRAY_LEN(side->tasks); i++) {
        side->tasks[i] =
            (struct task){.loop = loop, .left = &left, .pool = side->pool, .resubmit = 200};
        CHECK_EQ(submit(side->pool, &side->tasks[i], 0), 0);
    }
    CHECK_EQ(loop_run(loop, NULL), 0);
    return loop; /* outlives the pool */
}

TEST(pool, serves_two_loops_at_once)
{
    struct pool *p = new_pool(3, 40);
    struct side sides[2] = {{.pool = p}, {.pool = p}};
    struct pool_stats stats;
    void *loops[2];

    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&sides[i].thread, NULL, side_main, &sides[i]), 0);
    for (size_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(sides[i].thread, &loops[i]), 0);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < ARRAY_LEN(sides[i].tasks); k++) {
            CHECK_EQ(sides[i].tasks[k].done, 201);
            CHECK(pthread_equal(sides[i].tasks[k].home, sides[i].thread));
        }
    pool_stats(p, &stats);
    CHECK_EQ(stats.finished, 2 * 10 * 201);
    CHECK_EQ(stats.running + stats.queued, 0);
    pool_free(p);
    loop_free(loops[0]);
    loop_free(loops[1]);
}

TEST(pool, refuses_senseless_sizes)
{
    static const struct pool_conf bad[] = {
        {"test", 0,                    1},
        {"test", POOL_THREADS_MAX + 1, 1},
        {"test", 1,                    0},
    };
    struct pool *p;
    struct err e = {0};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(pool_new(&bad[i], &p, &e), -EINVAL);
    CHECK(e.msg[0]);
}
