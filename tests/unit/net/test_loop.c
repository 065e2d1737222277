#include "net/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/loop_timers.h"
#include "test.h"

enum { MS = 1000 * 1000 };

static struct loop *loop; /* of the one test in this process */

static void start(void)
{
    CHECK_EQ(loop_new(&loop, NULL), 0);
}

static void run(void)
{
    CHECK_EQ(loop_run(loop, NULL), 0);
}

static void on_due_stop(struct loop_timer *t UNUSED)
{
    loop_stop(loop);
}

/* Runs for so long. */
static void run_ms(uint64_t ms)
{
    struct loop_timer t = {0};

    loop_timer_set(loop, &t, time_mono_ns() + ms * MS, on_due_stop);
    run();
}

/* --- the heap --- */

TEST(loop_timers, come_out_in_order)
{
    enum { COUNT = 1000 };
    struct loop_timers h = {0};
    struct loop_timer *timers = mem_new_array(struct loop_timer, COUNT);
    uint64_t last = 0, seed = 1;
    size_t left = COUNT;

    for (size_t i = 0; i < COUNT; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        loop_timers_set(&h, &timers[i], seed >> 40);
    }
    for (size_t i = 0; i < COUNT; i += 3, left--) /* from anywhere in the heap */
        loop_timers_remove(&h, &timers[i]);
    for (size_t i = 1; i < COUNT; i += 3) /* some earlier */
        loop_timers_set(&h, &timers[i], timers[i].due_ns / 2);
    for (size_t i = 2; i < COUNT; i += 3) /* some later */
        loop_timers_set(&h, &timers[i], timers[i].due_ns * 2);
    while (loop_timers_next_ns(&h) != DEADLINE_NEVER) { /* a key may lag: then none is due yet */
        struct loop_timer *t = loop_timers_pop_due(&h, loop_timers_next_ns(&h));

        if (!t)
            continue;
        CHECK(t->due_ns >= last);
        CHECK(!loop_timer_armed(t));
        last = t->due_ns;
        left--;
    }
    CHECK_EQ(left, 0);
    CHECK(loop_timers_next_ns(&h) == DEADLINE_NEVER);
    loop_timers_done(&h);
    free(timers);
}

TEST(loop_timers, push_back_without_touching_the_heap)
{
    struct loop_timers h = {0};
    struct loop_timer t = {0}, other = {0};

    loop_timers_set(&h, &t, 100);
    loop_timers_set(&h, &other, 200);
    loop_timers_set(&h, &t, 300);
    CHECK_EQ(loop_timers_next_ns(&h), 100); /* the key lags behind */
    CHECK(!loop_timers_pop_due(&h, 150));
    CHECK_EQ(loop_timers_next_ns(&h), 200); /* and was corrected on the way */
    CHECK(loop_timers_pop_due(&h, 250) == &other);
    CHECK(!loop_timers_pop_due(&h, 299));
    CHECK(loop_timers_pop_due(&h, 300) == &t);
    loop_timers_done(&h);
}

TEST(loop_timers, move_forward_at_once)
{
    struct loop_timers h = {0};
    struct loop_timer t = {0};

    loop_timers_set(&h, &t, 300);
    loop_timers_set(&h, &t, 500);
    loop_timers_set(&h, &t, 100);
    CHECK_EQ(loop_timers_next_ns(&h), 100);
    CHECK(loop_timers_pop_due(&h, 100) == &t);
    loop_timers_done(&h);
}

/* --- timers in the loop --- */

static struct loop_timer timer_a, timer_b;
static int due_a, due_b;

static void on_a_stop_b(struct loop_timer *t UNUSED)
{
    due_a++;
    loop_timer_stop(loop, &timer_b);
}

static void on_b(struct loop_timer *t UNUSED)
{
    due_b++;
}

TEST(loop, lets_a_timer_stop_another_that_is_due)
{
    start();
    loop_timer_set(loop, &timer_a, 1, on_a_stop_b);
    loop_timer_set(loop, &timer_b, 2, on_b);
    run_ms(5);
    CHECK_EQ(due_a, 1);
    CHECK_EQ(due_b, 0);
    loop_timer_stop(loop, &timer_b); /* unarmed is fine */
    loop_free(loop);
}

static void on_a_again(struct loop_timer *t)
{
    if (++due_a < 3)
        loop_timer_set(loop, t, loop_now_ns(loop) + 1, on_a_again);
    else
        loop_stop(loop);
}

TEST(loop, lets_a_timer_arm_itself_again)
{
    start();
    loop_timer_set(loop, &timer_a, 1, on_a_again);
    run();
    CHECK_EQ(due_a, 3);
    loop_free(loop);
}

TEST(loop, keeps_time)
{
    uint64_t began = time_mono_ns();

    start();
    run_ms(30);
    CHECK(time_mono_ns() - began >= 30 * MS);
    loop_free(loop);
}

/* --- descriptors --- */

static int pipes[2][2];
static struct loop_io ios[2];
static int ready[2];

static void on_ready_stop_both(struct loop_io *io, uint32_t events)
{
    CHECK(events & EPOLLIN);
    ready[io - ios]++;
    loop_io_stop(loop, &ios[0]);
    loop_io_stop(loop, &ios[1]);
    memset(ios, 0xa5, sizeof(ios)); /* as if their owner had been freed */
    ios[0].fd = ios[1].fd = -EBADF;
}

TEST(loop, calls_no_watcher_that_was_stopped_in_the_same_batch)
{
    start();
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pipe2(pipes[i], O_CLOEXEC), 0);
        CHECK_EQ(write(pipes[i][1], "x", 1), 1);
        CHECK_EQ(loop_io_start(loop, &ios[i], pipes[i][0], EPOLLIN, on_ready_stop_both, NULL), 0);
    }
    run_ms(5);
    CHECK_EQ(ready[0] + ready[1], 1);
    loop_free(loop);
}

static void on_ready_read(struct loop_io *io, uint32_t events UNUSED)
{
    char byte;

    CHECK_EQ(read(io->fd, &byte, 1), 1);
    if (++ready[io - ios] == 2)
        loop_stop(loop);
}

TEST(loop, watches_only_the_requested_events)
{
    start();
    CHECK_EQ(pipe2(pipes[0], O_CLOEXEC), 0);
    CHECK_EQ(write(pipes[0][1], "xy", 2), 2);
    CHECK_EQ(loop_io_start(loop, &ios[0], pipes[0][0], 0, on_ready_read, NULL), 0);
    run_ms(5);
    CHECK_EQ(ready[0], 0);
    loop_io_set(loop, &ios[0], EPOLLIN);
    run();
    CHECK_EQ(ready[0], 2);
    loop_io_stop(loop, &ios[0]);
    loop_io_stop(loop, &ios[0]); /* twice is fine */
    loop_free(loop);
}

TEST(loop, says_which_descriptor_cannot_be_watched)
{
    struct err e = {0};

    start();
    CHECK(loop_io_start(loop, &ios[0], -1, EPOLLIN, on_ready_read, &e) == -EBADF);
    CHECK(strstr(e.msg, "-1"));
    CHECK_EQ(ios[0].fd, -EBADF);
    loop_free(loop);
}

static void on_a_at_once(struct loop_timer *t)
{
    CHECK(++due_a < 100);
    loop_timer_set(loop, t, loop_now_ns(loop), on_a_at_once);
}

static void on_a_past(struct loop_timer *t)
{
    CHECK(++due_a < 100);
    loop_timer_set(loop, t, 1, on_a_past);
}

/* The byte is there all the time, so every poll reports it. */
static void check_is_heard_beside(void (*on_due)(struct loop_timer *))
{
    start();
    due_a = ready[0] = 0;
    CHECK_EQ(pipe2(pipes[0], O_CLOEXEC), 0);
    CHECK_EQ(write(pipes[0][1], "xy", 2), 2);
    CHECK_EQ(loop_io_start(loop, &ios[0], pipes[0][0], EPOLLIN, on_ready_read, NULL), 0);
    loop_timer_set(loop, &timer_a, 1, on_due);
    run();
    CHECK_EQ(ready[0], 2);
    CHECK(due_a > 0);
    loop_timer_stop(loop, &timer_a);
    loop_io_stop(loop, &ios[0]);
    loop_free(loop);
}

TEST(loop, is_not_starved_by_a_timer_that_is_due_at_once)
{
    check_is_heard_beside(on_a_at_once);
    check_is_heard_beside(on_a_past);
}

/* --- tasks --- */

static struct loop_task task_a, task_b;
static char order[8];

static void note(char c)
{
    size_t n = strlen(order);

    CHECK(n + 1 < sizeof(order));
    order[n] = c;
}

static void run_b(struct loop_task *t UNUSED)
{
    note('b');
}

static void run_a(struct loop_task *t UNUSED)
{
    note('a');
    loop_defer(loop, &task_b, run_b);
    loop_defer(loop, &task_b, run_b); /* queued twice runs once */
}

TEST(loop, runs_deferred_tasks_and_those_they_defer)
{
    start();
    loop_defer(loop, &task_a, run_a);
    loop_settle(loop);
    CHECK_STR(order, "ab");
    CHECK(!task_a.queued && !task_b.queued);
    loop_free(loop);
}

static int requeued;

static void run_forever(struct loop_task *t)
{
    requeued++;
    loop_defer(loop, t, run_forever);
}

TEST(loop, is_not_starved_by_a_task_that_requeues_itself)
{
    start();
    loop_defer(loop, &task_a, run_forever);
    run_ms(5);
    CHECK(requeued > 1);
    loop_free(loop);
}

enum { YIELDS = 3 * LOOP_YIELDS_PER_POLL };
static struct loop_yield yields[YIELDS];
static struct loop_timer poll_timer;
static int yields_run, yields_at_poll[8], polls;

static void run_yield(struct loop_yield *y)
{
    CHECK(y == &yields[yields_run % YIELDS]); /* in order */
    CHECK(!loop_should_yield_early(loop));
    if (yields_run++ < LOOP_YIELDS_PER_POLL)
        loop_yield(loop, y, run_yield); /* once more, behind all others */
}

/* A timer that is due at once comes once per poll. */
static void on_poll(struct loop_timer *t)
{
    yields_at_poll[polls++] = yields_run;
    CHECK_EQ(loop_should_yield_early(loop), yields_run < YIELDS + LOOP_YIELDS_PER_POLL);
    if (polls == ARRAY_LEN(yields_at_poll))
        loop_stop(loop);
    else
        loop_timer_set(loop, t, 0, on_poll);
}

TEST(loop, polls_between_parts_of_yielded_work)
{
    start();
    for (int i = 0; i < YIELDS; i++) {
        loop_yield(loop, &yields[i], run_yield);
        loop_yield(loop, &yields[i], run_yield); /* queued twice runs once */
    }
    loop_timer_set(loop, &poll_timer, 0, on_poll);
    run();
    CHECK_EQ(yields_run, YIELDS + LOOP_YIELDS_PER_POLL);
    for (int i = 1; i < polls; i++)
        CHECK(yields_at_poll[i] - yields_at_poll[i - 1] <= LOOP_YIELDS_PER_POLL);
    loop_free(loop);
}

static void run_yield_and_stop(struct loop_yield *y)
{
    CHECK(y == &yields[0]);
    loop_stop(loop);
}

TEST(loop, forgets_yielded_work_that_is_stopped)
{
    start();
    loop_yield(loop, &yields[1], run_yield_and_stop);
    loop_yield(loop, &yields[0], run_yield_and_stop);
    loop_yield_stop(loop, &yields[1]);
    loop_yield_stop(loop, &yields[1]);
    run();
    CHECK(!yields[0].queued && !yields[1].queued);
    loop_free(loop);
}

enum { POSTS = 1000 };
static struct loop_task posts[POSTS];
static int posted;

static void run_post(struct loop_task *t)
{
    CHECK(t == &posts[posted]); /* in order */
    if (++posted == POSTS)
        loop_stop(loop);
}

static void *post_all(void *arg UNUSED)
{
    for (int i = 0; i < POSTS; i++)
        loop_post(loop, &posts[i], run_post);
    return NULL;
}

TEST(loop, takes_work_from_another_thread)
{
    pthread_t thread;

    start();
    CHECK_EQ(pthread_create(&thread, NULL, post_all, NULL), 0);
    run();
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(posted, POSTS);
    loop_free(loop);
}

TEST(loop, can_be_stopped_before_it_runs_and_run_again)
{
    start();
    loop_stop(loop);
    run();
    run_ms(1);
    loop_free(loop);
}

/* --- signals and processes --- */

static int signals[8], signal_count;

static void on_signal(struct loop_signals *s UNUSED, int signo)
{
    signals[signal_count++] = signo;
    if (signal_count == 2)
        loop_stop(loop);
}

TEST(loop, delivers_signals)
{
    struct loop_signals s = {0};
    sigset_t set;

    start();
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    CHECK_EQ(loop_signals_start(loop, &s, &set, on_signal, NULL), 0);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(kill(getpid(), SIGUSR2), 0);
    run();
    CHECK_EQ(signals[0], SIGUSR1);
    CHECK_EQ(signals[1], SIGUSR2);
    loop_signals_stop(&s);
    loop_free(loop);
}

TEST(loop, makes_a_lost_reader_an_error_and_not_a_death)
{
    start();
    CHECK_EQ(pipe2(pipes[0], O_CLOEXEC), 0);
    fd_close(pipes[0][0]);
    CHECK(write(pipes[0][1], "x", 1) < 0 && errno == EPIPE);
    loop_free(loop);
}

static int exit_status;

static void on_exit_note(struct loop_child *c UNUSED, int status)
{
    exit_status = status;
    loop_stop(loop);
}

static void check_child(void (*child)(void), int status)
{
    struct loop_child c;
    auto_fd pidfd = -EBADF;
    pid_t pid = fork();

    if (pid == 0) {
        child();
        _exit(0);
    }
    CHECK(pid > 0);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    CHECK(pidfd >= 0);
    CHECK_EQ(loop_child_start(loop, &c, pidfd, on_exit_note, NULL), 0);
    run();
    CHECK_EQ(exit_status, status);
    CHECK(waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD); /* reaped */
}

static void exit_7(void)
{
    _exit(7);
}

static void die_by_kill(void)
{
    (void)raise(SIGKILL);
}

TEST(loop, reports_how_a_process_ended)
{
    start();
    check_child(exit_7, 7 << 8);
    check_child(die_by_kill, SIGKILL);
    CHECK(WIFSIGNALED(exit_status) && WTERMSIG(exit_status) == SIGKILL);
    loop_free(loop);
}

/* --- the rest --- */

static void on_due_dawdle(struct loop_timer *t UNUSED)
{
    struct timespec rest = {.tv_nsec = 20 * MS};

    nanosleep(&rest, NULL);
}

TEST(loop, measures_its_lag)
{
    start();
    loop_timer_set(loop, &timer_a, 1, on_due_dawdle);
    run_ms(40);
    CHECK(loop_take_lag_ns(loop) >= 20 * MS);
    CHECK_EQ(loop_take_lag_ns(loop), 0);
    loop_free(loop);
}

TEST(loop, lends_buffers_and_keeps_their_ceilings)
{
    struct buf a, b;
    char *memory;

    start();
    buf_init(&a, 1000);
    CHECK_EQ(buf_add(&a, STR("hello")), 0);
    memory = a.p;
    loop_buf_return(loop, &a);
    CHECK_EQ(a.cap, 0);
    buf_init(&b, 2000);
    loop_buf_borrow(loop, &b);
    CHECK(b.p == memory);
    CHECK_EQ(b.n, 0);
    CHECK_EQ(b.max, 2000);
    buf_done(&b);
    loop_free(loop);
}

/* --- a loop inside another one --- */

static int dues;

static void on_due_count(struct loop_timer *t UNUSED)
{
    dues++;
}

TEST(loop, is_driven_turn_by_turn)
{
    struct loop_timer t = {0};

    start();
    CHECK_EQ(loop_next_ns(loop), DEADLINE_NEVER);
    CHECK_EQ(loop_turn(loop, 0, NULL), 0); /* nothing to do: returns at once */
    loop_refresh(loop);
    loop_timer_after(loop, &t, 20, on_due_count);
    CHECK(loop_next_ns(loop) > time_mono_ns() && loop_next_ns(loop) != DEADLINE_NEVER);
    CHECK_EQ(loop_turn(loop, 0, NULL), 0);
    CHECK_EQ(dues, 0);
    while (dues == 0)
        CHECK_EQ(loop_turn(loop, -1, NULL), 0);
    CHECK(loop_fd(loop) >= 0);
    loop_free(loop);
}
