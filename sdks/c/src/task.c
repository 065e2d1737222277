/* task.c - tasks: functions with stacks of their own, suspended where they would block. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sdk.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define FIBER_LEAVE(fake, bottom, size) __sanitizer_start_switch_fiber((fake), (bottom), (size))
#define FIBER_ENTER(fake, bottom, size) __sanitizer_finish_switch_fiber((fake), (bottom), (size))
#else
#define FIBER_LEAVE(fake, bottom, size) ((void)0)
#define FIBER_ENTER(fake, bottom, size) ((void)0)
#endif

enum { GUARD_BYTES = 4096, STACK_ALL_BYTES = GUARD_BYTES + OSB_TASK_STACK_BYTES };

/* --- switching --- */

static void task_run(unsigned low, unsigned high)
{
    struct osb_task *t = (struct osb_task *)(((uintptr_t)high << 32) | low);

    FIBER_ENTER(NULL, NULL, NULL);
    t->fn(t->client, t->user);
    t->ended = true;
    FIBER_LEAVE(NULL, NULL, 0);
    (void)swapcontext(&t->context, &t->resumer); /* never comes back */
}

static void task_free(struct osb_task *t)
{
    list_remove(&t->link);
    t->client->task_count--;
    if (t->stack)
        (void)munmap(t->stack, STACK_ALL_BYTES);
    free(t);
}

static void task_begin(struct osb_task *t)
{
    uintptr_t p = (uintptr_t)t;

    (void)getcontext(&t->context);
    t->context.uc_stack.ss_sp = t->stack + GUARD_BYTES;
    t->context.uc_stack.ss_size = OSB_TASK_STACK_BYTES;
    t->context.uc_link = NULL;
    makecontext(&t->context, (void (*)(void))task_run, 2, (unsigned)p, (unsigned)(p >> 32));
    t->begun = true;
}

static void task_resume(struct osb_task *t)
{
    struct osb_client *c = t->client;
    struct osb_task *before = c->current;
    void *fake UNUSED = NULL;

    if (!t->begun)
        task_begin(t);
    c->current = t;
    FIBER_LEAVE(&fake, t->stack + GUARD_BYTES, OSB_TASK_STACK_BYTES);
    (void)swapcontext(&t->resumer, &t->context);
    FIBER_ENTER(fake, NULL, NULL);
    c->current = before;
    if (!t->ended)
        return;
    (void)munmap(t->stack, STACK_ALL_BYTES);
    t->stack = NULL;
    c->unjoined += t->detached;
    client_wake(&t->joiner);
}

/* Switches back to the code that resumed this task. */
static void task_suspend(struct osb_task *t)
{
    void *fake UNUSED = NULL;

    FIBER_LEAVE(&fake, NULL, 0);
    (void)swapcontext(&t->context, &t->resumer);
    FIBER_ENTER(fake, NULL, NULL);
}

static void task_make_ready(struct osb_task *t)
{
    if (t->ready || t == &t->client->main)
        return;
    t->ready = true;
    list_push(&t->client->ready, &t->ready_link);
}

/* Each task that is ready now, once: those that become ready meanwhile wait for the next turn. */
static void tasks_run_ready(struct osb_client *c)
{
    struct list now;

    list_init(&now);
    while (!list_empty(&c->ready))
        list_move(&now, c->ready.next);
    while (!list_empty(&now)) {
        struct osb_task *t = container_of(now.next, struct osb_task, ready_link);

        list_remove(&t->ready_link);
        t->ready = false;
        task_resume(t);
    }
}

/* --- waiting --- */

static void task_wake(struct osb_task *t)
{
    t->woken = true;
    if (t->waiting)
        task_make_ready(t);
}

void client_wake(struct osb_task **slot)
{
    if (*slot)
        task_wake(*slot);
}

static void on_wait_due(struct loop_timer *timer)
{
    struct osb_task *t = container_of(timer, struct osb_task, timer);

    t->timed_out = true;
    task_wake(t);
}

static int wait_as_main(struct osb_client *c)
{
    while (!c->main.woken && !c->main.canceled) {
        int r = loop_turn(c->loop, list_empty(&c->ready) ? -1 : 0, NULL);

        if (r < 0)
            return r;
        tasks_run_ready(c);
    }
    return 0;
}

int client_wait(struct osb_client *c, struct osb_task **slot, uint64_t deadline)
{
    struct osb_task *t = c->current;
    int r = 0;

    if (t->canceled || (c->closing && t != &c->main)) {
        t->canceled = false;
        return -ECANCELED;
    }
    *slot = t;
    t->woken = t->timed_out = false;
    t->waiting = true;
    if (deadline != DEADLINE_NEVER)
        loop_timer_set(c->loop, &t->timer, deadline, on_wait_due);
    if (t == &c->main)
        r = wait_as_main(c);
    else
        task_suspend(t);
    loop_timer_stop(c->loop, &t->timer);
    t->waiting = false;
    *slot = NULL;
    if (t->canceled) {
        t->canceled = false;
        return -ECANCELED;
    }
    return r < 0 ? r : t->timed_out ? -ETIMEDOUT : 0;
}

uint64_t op_begin(struct osb_client *c)
{
    uint64_t before = c->current->op_deadline;

    loop_refresh(c->loop);
    if (!before)
        c->current->op_deadline = c->current->timeout_ms > 0
                                      ? deadline_in_ms((uint64_t)c->current->timeout_ms)
                                      : DEADLINE_NEVER;
    return before;
}

void op_end(struct osb_client *c, uint64_t before)
{
    c->current->op_deadline = before;
}

/* --- the client's side --- */

static void task_cancel(struct osb_task *t)
{
    if (t->ended)
        return;
    t->canceled = true;
    if (t->waiting)
        task_make_ready(t);
}

static void on_interrupt(struct loop_io *io, uint32_t events UNUSED)
{
    struct osb_client *c = container_of(io, struct osb_client, interrupt_io);
    uint64_t count;

    if (read(io->fd, &count, sizeof(count)) < 0)
        return;
    c->main.canceled = true;
    LIST_EACH(&c->tasks, at)
    task_cancel(container_of(at, struct osb_task, link));
}

/* The timer only makes the descriptor of the loop readable; the loop knows what is due. */
static void on_timer(struct loop_io *io, uint32_t events UNUSED)
{
    uint64_t count;

    if (read(io->fd, &count, sizeof(count)) < 0)
        return;
}

int client_tasks_init(struct osb_client *c, struct err *e)
{
    int r;

    c->main.client = c;
    c->current = &c->main;
    list_init(&c->tasks);
    list_init(&c->ready);
    c->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->interrupt_fd < 0 || c->timer_fd < 0)
        return err_sys(e, errno, "make descriptors of the client");
    r = loop_io_start(c->loop, &c->interrupt_io, c->interrupt_fd, EPOLLIN, on_interrupt, e);
    return r < 0 ? r : loop_io_start(c->loop, &c->timer_io, c->timer_fd, EPOLLIN, on_timer, e);
}

/* Resumed once, a task comes to its end, as every wait of it fails. False when all have ended. */
static bool tasks_end(struct osb_client *c)
{
    bool any = false;

    LIST_EACH(&c->tasks, at)
    {
        struct osb_task *t = container_of(at, struct osb_task, link);

        if (t->ready) {
            list_remove(&t->ready_link);
            t->ready = false;
        }
        if (!t->begun || t->ended) {
            t->ended = true;
        } else {
            t->canceled = any = true;
            task_resume(t);
        }
    }
    return any;
}

void client_tasks_done(struct osb_client *c)
{
    c->closing = true;
    while (tasks_end(c)) /* they may start others */
        continue;
    LIST_EACH(&c->tasks, at)
    task_free(container_of(at, struct osb_task, link));
    loop_io_stop(c->loop, &c->interrupt_io);
    loop_io_stop(c->loop, &c->timer_io);
    fd_close(c->interrupt_fd);
    fd_close(c->timer_fd);
}

void osb_client_interrupt(struct osb_client *client)
{
    int before = errno;
    uint64_t one = 1;

    (void)!write(client->interrupt_fd, &one, sizeof(one)); /* a full counter is set, too */
    errno = before;
}

void osb_client_set_timeout(struct osb_client *client, int64_t timeout_ms)
{
    client->current->timeout_ms = timeout_ms;
}

/* --- tasks --- */

/* Tasks that ended and that nobody joins. */
static void tasks_sweep(struct osb_client *c)
{
    if (!c->unjoined)
        return;
    c->unjoined = 0;
    LIST_EACH(&c->tasks, at)
    {
        struct osb_task *t = container_of(at, struct osb_task, link);

        if (t->ended && t->detached)
            task_free(t);
    }
}

int osb_task_start(struct osb_client *client, osb_task_fn *fn, void *user,
                   struct osb_task **ret_task)
{
    struct osb_task *t;
    char *stack;

    tasks_sweep(client);
    if (client->task_count == OSB_TASKS_MAX)
        return fail(client, EAGAIN, "there are %d tasks already", OSB_TASKS_MAX);
    stack = mmap(NULL, STACK_ALL_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED)
        return fail(client, ENOMEM, "no memory for the stack of a task");
    (void)mprotect(stack, GUARD_BYTES, PROT_NONE);
    t = mem_new(struct osb_task);
    t->client = client;
    t->fn = fn;
    t->user = user;
    t->stack = stack;
    t->detached = !ret_task;
    list_push(&client->tasks, &t->link);
    client->task_count++;
    list_init(&t->ready_link);
    task_make_ready(t);
    if (ret_task)
        *ret_task = t;
    return 0;
}

bool osb_task_ended(const struct osb_task *task)
{
    return task->ended;
}

void osb_task_cancel(struct osb_task *task)
{
    task_cancel(task);
}

int osb_task_join(struct osb_task *task)
{
    struct osb_client *c = task->client;

    if (task == c->current)
        return fail(c, EDEADLK, "a task cannot wait for itself");
    loop_refresh(c->loop);
    while (!task->ended) {
        int r = client_wait(c, &task->joiner, DEADLINE_NEVER);

        if (r < 0)
            return fail_wait(c, r, "wait for a task");
    }
    task_free(task);
    return 0;
}

/* --- the program's loop --- */

int osb_client_fd(struct osb_client *client)
{
    uint64_t due = list_empty(&client->ready) ? loop_next_ns(client->loop) : 0;
    struct itimerspec when = {0};

    if (due != DEADLINE_NEVER) { /* zero would disarm it */
        when.it_value.tv_sec = (time_t)(due / 1000000000U);
        when.it_value.tv_nsec = (long)(due % 1000000000U) + (due ? 0 : 1);
    }
    (void)timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    return loop_fd(client->loop);
}

int osb_client_dispatch(struct osb_client *client)
{
    struct err e;
    int r;

    if (client->current != &client->main)
        return fail(client, EDEADLK, "osb_client_dispatch cannot be called by a task");
    r = loop_turn(client->loop, 0, &e);
    if (r < 0)
        return fail_err(client, &e);
    tasks_run_ready(client);
    return 0;
}

struct fd_wait {
    struct loop_io io;
    struct osb_task *waiter;
    bool ready;
};

static void on_fd_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct fd_wait *w = container_of(io, struct fd_wait, io);

    w->ready = true;
    client_wake(&w->waiter);
}

int osb_wait_fd(struct osb_client *client, int fd, short events, int timeout_ms)
{
    uint32_t wanted =
        (events & POLLIN ? (uint32_t)EPOLLIN : 0) | (events & POLLOUT ? (uint32_t)EPOLLOUT : 0);
    struct fd_wait w = {0};
    uint64_t deadline = timeout_ms < 0 ? DEADLINE_NEVER : deadline_in_ms((uint64_t)timeout_ms);
    auto_fd copy = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* two tasks may wait for one descriptor */
    struct err e;
    int r;

    if (copy < 0)
        return fail(client, errno, "descriptor %d: %s", fd, strerror(errno));
    loop_refresh(client->loop);
    r = loop_io_start(client->loop, &w.io, copy, wanted, on_fd_ready, &e);
    if (r < 0)
        return fail_err(client, &e);
    while (r == 0 && !w.ready)
        r = client_wait(client, &w.waiter, deadline);
    loop_io_stop(client->loop, &w.io);
    if (r == -ETIMEDOUT)
        return 0;
    return r < 0 ? fail_wait(client, r, "wait for a descriptor") : 1;
}

int osb_sleep(struct osb_client *client, uint32_t ms)
{
    struct osb_task *waiter = NULL;
    int r;

    loop_refresh(client->loop);
    r = client_wait(client, &waiter, deadline_in_ms(ms));
    return r == -ETIMEDOUT ? 0 : fail_wait(client, r, "sleep");
}
