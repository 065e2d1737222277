#include "net/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/loop_timers.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum {
    EVENTS_PER_TURN = 256,
    DEFER_ROUNDS_MAX = 16, /* then the loop polls, so tasks that requeue cannot starve it */
    SPARE_BUFS_MAX = 16,
    SPARE_PIPES_MAX = 16,
    SPARE_BUF_BYTES_MAX = 64 * 1024, /* larger ones are freed */
};

struct task_list {
    struct loop_task *first, *last;
};

struct loop {
    int epoll_fd, wake_fd;
    struct loop_io wake;
    uint64_t now_ns, lag_ns;
    bool stop; /* atomic */

    struct loop_timers timers;
    struct task_list deferred;
    struct list yields; /* of struct loop_yield */
    size_t yield_count;
    bool running_yields;

    pthread_mutex_t posted_lock; /* guards posted */
    struct task_list posted;

    struct epoll_event events[EVENTS_PER_TURN];
    int event_count, event_at; /* the events being dispatched */

    char *scratch;
    struct buf spare[SPARE_BUFS_MAX];
    size_t spare_count;
    int spare_pipes[SPARE_PIPES_MAX][2];
    size_t spare_pipe_count;
};

/* --- tasks --- */

static void tasks_push(struct task_list *list, struct loop_task *t)
{
    t->next = NULL;
    if (list->last)
        list->last->next = t;
    else
        list->first = t;
    list->last = t;
}

static struct loop_task *tasks_pop(struct task_list *list)
{
    struct loop_task *t = list->first;

    if (!t)
        return NULL;
    list->first = t->next;
    if (!list->first)
        list->last = NULL;
    return t;
}

void loop_defer(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *))
{
    if (t->queued)
        return;
    t->run = run;
    t->queued = true;
    tasks_push(&l->deferred, t);
}

void loop_post(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *))
{
    uint64_t one = 1;
    bool first;

    t->run = run;
    pthread_mutex_lock(&l->posted_lock);
    first = !l->posted.first;
    tasks_push(&l->posted, t);
    pthread_mutex_unlock(&l->posted_lock);
    /* The eventfd counter cannot overflow: it is written once per non-empty list, and read back
     * then. */
    if (first && write(l->wake_fd, &one, sizeof(one)) < 0)
        assert(errno == EAGAIN);
}

void loop_stop(struct loop *l)
{
    uint64_t one = 1;

    __atomic_store_n(&l->stop, true, __ATOMIC_RELEASE);
    if (write(l->wake_fd, &one, sizeof(one)) < 0)
        assert(errno == EAGAIN);
}

/* Returns whether there were any. */
static bool loop_run_posted(struct loop *l)
{
    struct task_list mine;
    bool any;

    pthread_mutex_lock(&l->posted_lock);
    mine = l->posted;
    l->posted = (struct task_list){0};
    pthread_mutex_unlock(&l->posted_lock);
    any = mine.first;
    for (struct loop_task *t; (t = tasks_pop(&mine));)
        t->run(t);
    return any;
}

static void loop_on_wake(struct loop_io *io, uint32_t events UNUSED)
{
    struct loop *l = container_of(io, struct loop, wake);
    uint64_t count;

    if (read(l->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
        (void)loop_run_posted(l);
}

static void loop_run_deferred(struct loop *l)
{
    for (int round = 0; round < DEFER_ROUNDS_MAX && l->deferred.first; round++) {
        struct task_list now = l->deferred;

        l->deferred = (struct task_list){0};
        for (struct loop_task *t; (t = tasks_pop(&now));) {
            t->queued = false;
            t->run(t);
        }
    }
}

void loop_yield(struct loop *l, struct loop_yield *y, void (*run)(struct loop_yield *))
{
    if (y->queued)
        return;
    y->run = run;
    y->queued = true;
    list_push(&l->yields, &y->link);
    l->yield_count++;
}

void loop_yield_stop(struct loop *l, struct loop_yield *y)
{
    if (!y->queued)
        return;
    y->queued = false;
    list_remove(&y->link);
    l->yield_count--;
}

bool loop_should_yield_early(const struct loop *l)
{
    return l->yield_count > 0 && !l->running_yields;
}

/* What is yielded meanwhile waits for the next poll, even if the queue is short. */
static void loop_run_yields(struct loop *l)
{
    size_t n = min_size(l->yield_count, LOOP_YIELDS_PER_POLL);

    l->running_yields = true;
    for (size_t i = 0; i < n && l->yield_count > 0; i++) {
        struct loop_yield *y = container_of(l->yields.next, struct loop_yield, link);

        loop_yield_stop(l, y);
        y->run(y);
        loop_run_deferred(l);
    }
    l->running_yields = false;
}

void loop_settle(struct loop *l)
{
    while (loop_run_posted(l) || l->deferred.first)
        loop_run_deferred(l);
}

/* --- descriptors --- */

int loop_io_start(struct loop *l, struct loop_io *io, int fd, uint32_t events,
                  void (*on_ready)(struct loop_io *, uint32_t), struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    *io = (struct loop_io){.on_ready = on_ready, .fd = fd, .events = events};
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
        io->fd = -EBADF;
        return err_sys(e, errno, "watch descriptor %d", fd);
    }
    return 0;
}

void loop_io_set(struct loop *l, struct loop_io *io, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    if (io->events == events || io->fd < 0)
        return;
    io->events = events;
    /* Fails only for a descriptor that is not registered: a programming error. */
    if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) < 0)
        assert(!"epoll_ctl MOD");
}

void loop_io_stop(struct loop *l, struct loop_io *io)
{
    if (io->fd < 0)
        return;
    (void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    io->fd = -EBADF;
    /* Later events of this batch must not reach a watcher that may be freed. */
    for (int i = l->event_at; i < l->event_count; i++)
        if (l->events[i].data.ptr == io)
            l->events[i].data.ptr = NULL;
}

/* --- timers --- */

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t due_ns,
                    void (*on_due)(struct loop_timer *))
{
    t->on_due = on_due;
    /* A timer that arms itself repeatedly for now, or the past, lets the loop poll in between. */
    loop_timers_set(&l->timers, t, due_ns > l->now_ns ? due_ns : l->now_ns + 1);
}

void loop_timer_after(struct loop *l, struct loop_timer *t, uint64_t ms,
                      void (*on_due)(struct loop_timer *))
{
    loop_timer_set(l, t, loop_now_ns(l) + ms * TIME_NS_PER_MS, on_due);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
    loop_timers_remove(&l->timers, t);
}

static void loop_run_timers(struct loop *l)
{
    for (struct loop_timer *t; (t = loop_timers_pop_due(&l->timers, l->now_ns));)
        t->on_due(t);
}

uint64_t loop_next_ns(const struct loop *l)
{
    return l->deferred.first || l->yield_count > 0 ? 0 : loop_timers_next_ns(&l->timers);
}

/* --- the loop --- */

int loop_new(struct loop **ret_loop, struct err *e)
{
    struct loop *l = mem_new(struct loop);
    int r;

    (void)signal(SIGPIPE, SIG_IGN);
    l->wake_fd = -EBADF;
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0) {
        r = err_sys(e, errno, "create epoll");
        goto fail;
    }
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0) {
        r = err_sys(e, errno, "create eventfd");
        goto fail;
    }
    r = loop_io_start(l, &l->wake, l->wake_fd, EPOLLIN, loop_on_wake, e);
    if (r < 0)
        goto fail;
    pthread_mutex_init(&l->posted_lock, NULL);
    list_init(&l->yields);
    l->scratch = mem_alloc(LOOP_SCRATCH_BYTES);
    l->now_ns = time_mono_ns();
    *ret_loop = l;
    return 0;

fail:
    fd_close(l->wake_fd);
    fd_close(l->epoll_fd);
    free(l);
    return r;
}

static void pipe_close(int ends[2])
{
    fd_close(take_fd(&ends[0]));
    fd_close(take_fd(&ends[1]));
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    loop_io_stop(l, &l->wake);
    fd_close(l->wake_fd);
    fd_close(l->epoll_fd);
    pthread_mutex_destroy(&l->posted_lock);
    loop_timers_done(&l->timers);
    while (l->spare_count > 0)
        buf_done(&l->spare[--l->spare_count]);
    while (l->spare_pipe_count > 0)
        pipe_close(l->spare_pipes[--l->spare_pipe_count]);
    free(l->scratch);
    free(l);
}

static void loop_dispatch(struct loop *l)
{
    for (l->event_at = 0; l->event_at < l->event_count;) {
        struct epoll_event *ev = &l->events[l->event_at++];
        struct loop_io *io = ev->data.ptr;

        if (io)
            io->on_ready(io, ev->events);
        /* After each event, not once per batch: a peer can handle our answer while we serve the
         * next. */
        loop_run_deferred(l);
    }
    l->event_count = 0;
}

int loop_turn(struct loop *l, int wait_ms, struct err *e)
{
    int due_ms = deadline_left_ms(loop_next_ns(l));
    int n = epoll_wait(l->epoll_fd, l->events, EVENTS_PER_TURN,
                       wait_ms < 0 || (due_ms >= 0 && due_ms < wait_ms) ? due_ms : wait_ms);
    uint64_t turn_ns;

    if (n < 0 && errno != EINTR)
        return err_sys(e, errno, "epoll_wait");
    l->now_ns = time_mono_ns();
    l->event_count = n > 0 ? n : 0;
    loop_dispatch(l);
    loop_run_timers(l);
    loop_run_deferred(l);
    loop_run_yields(l);
    turn_ns = time_mono_ns() - l->now_ns;
    if (turn_ns > l->lag_ns)
        l->lag_ns = turn_ns;
    return 0;
}

int loop_run(struct loop *l, struct err *e)
{
    while (!__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE)) {
        int r = loop_turn(l, -1, e);

        if (r < 0)
            return r;
    }
    l->stop = false;
    loop_run_deferred(l);
    return 0;
}

int loop_fd(const struct loop *l)
{
    return l->epoll_fd;
}

void loop_refresh(struct loop *l)
{
    l->now_ns = time_mono_ns();
}

uint64_t loop_now_ns(const struct loop *l)
{
    return l->now_ns;
}

uint64_t loop_take_lag_ns(struct loop *l)
{
    uint64_t lag = l->lag_ns;

    l->lag_ns = 0;
    return lag;
}

/* --- shared memory --- */

char *loop_scratch(struct loop *l)
{
    return l->scratch;
}

void loop_buf_borrow(struct loop *l, struct buf *b)
{
    size_t max = b->max;

    if (l->spare_count == 0)
        return;
    *b = l->spare[--l->spare_count];
    b->max = max;
}

void loop_buf_return(struct loop *l, struct buf *b)
{
    size_t max = b->max;

    if (!b->cap)
        return;
    if (b->wipe)
        mem_wipe(b->p, b->cap);
    b->wipe = false;
    if (l->spare_count == SPARE_BUFS_MAX || b->cap > SPARE_BUF_BYTES_MAX) {
        buf_done(b);
        return;
    }
    buf_clear(b);
    l->spare[l->spare_count++] = *b;
    buf_init(b, max);
}

int loop_pipe_borrow(struct loop *l, int ends[2])
{
    if (ends[0] >= 0)
        return 0;
    if (l->spare_pipe_count > 0) {
        memcpy(ends, l->spare_pipes[--l->spare_pipe_count], 2 * sizeof(int));
        return 0;
    }
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 ? -errno : 0;
}

void loop_pipe_return(struct loop *l, int ends[2], bool empty)
{
    if (ends[0] < 0)
        return;
    if (!empty || l->spare_pipe_count == SPARE_PIPES_MAX) {
        pipe_close(ends);
        return;
    }
    memcpy(l->spare_pipes[l->spare_pipe_count++], ends, 2 * sizeof(int));
    ends[0] = ends[1] = -EBADF;
}

/* --- signals --- */

static void signals_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct loop_signals *s = container_of(io, struct loop_signals, io);
    struct signalfd_siginfo info;

    if (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        s->on_signal(s, (int)info.ssi_signo);
}

int loop_signals_start(struct loop *l, struct loop_signals *s, const sigset_t *set,
                       void (*on_signal)(struct loop_signals *, int), struct err *e)
{
    auto_fd fd = -EBADF;
    int r;

    r = pthread_sigmask(SIG_BLOCK, set, NULL);
    if (r)
        return err_sys(e, r, "block signals");
    fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_sys(e, errno, "create signalfd");
    s->loop = l;
    s->on_signal = on_signal;
    r = loop_io_start(l, &s->io, fd, EPOLLIN, signals_on_ready, e);
    if (r < 0)
        return r;
    (void)take_fd(&fd);
    return 0;
}

void loop_signals_stop(struct loop_signals *s)
{
    int fd = s->io.fd;

    loop_io_stop(s->loop, &s->io);
    fd_close(fd);
}

/* --- processes --- */

static int child_wait_status(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8
                                       : info->si_status | (info->si_code == CLD_DUMPED ? 0x80 : 0);
}

static void child_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct loop_child *c = container_of(io, struct loop_child, io);
    siginfo_t info = {0};
    int r = waitid((idtype_t)P_PIDFD, (id_t)io->fd, &info, WEXITED | WNOHANG);

    if (r == 0 && info.si_pid == 0)
        return; /* not ended */
    loop_child_stop(c);
    c->on_exit(c, r < 0 ? -1 : child_wait_status(&info));
}

int loop_child_start(struct loop *l, struct loop_child *c, int pidfd,
                     void (*on_exit)(struct loop_child *, int), struct err *e)
{
    c->loop = l;
    c->on_exit = on_exit;
    return loop_io_start(l, &c->io, pidfd, EPOLLIN, child_on_ready, e);
}

void loop_child_stop(struct loop_child *c)
{
    loop_io_stop(c->loop, &c->io);
}
