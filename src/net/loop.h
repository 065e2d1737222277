/* loop.h - one epoll loop: descriptors, timers, signals, processes, and work from other threads.
 *
 * A loop belongs to the thread that runs it. Only loop_post and loop_stop may be called from other
 * threads. Nothing allocates per event: watchers are embedded in their owners, which keep them
 * alive until they are stopped. Callbacks should take at most about a millisecond. */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/types.h>

struct buf;
struct loop;

/* Also makes the process ignore SIGPIPE: send has MSG_NOSIGNAL, sendfile and splice have no such
 * flag. */
int loop_new(struct loop **ret_loop, struct err *e);
void loop_free(struct loop *l); /* accepts NULL; watchers must be stopped before */

int loop_run(struct loop *l, struct err *e); /* until loop_stop; 0, or -errno from epoll */
void loop_stop(struct loop *l);              /* any thread */

/* Runs deferred and posted tasks until none is left: for teardown outside loop_run. */
void loop_settle(struct loop *l);

/* --- a loop driven by its owner instead of loop_run: a library on the event loop of a program ---
 */

/* Handles what is due after waiting at most wait_ms for it; -1 = without a limit of its own. */
int loop_turn(struct loop *l, int wait_ms, struct err *e);
/* Becomes readable when a descriptor has events; timers and deferred work do not show there. */
int loop_fd(const struct loop *l);
/* When loop_turn must be called at the latest: monotonic time, 0 = at once, DEADLINE_NEVER. */
uint64_t loop_next_ns(const struct loop *l);
/* Sets loop_now_ns to the present: before timers are set outside of a turn. */
void loop_refresh(struct loop *l);

/* Monotonic time of the last wake-up: cheap, and the same for all events of that wake-up. */
uint64_t loop_now_ns(const struct loop *l);
/* The longest time the loop was busy without polling, in ns, since the last call: how late a timer
 * may have been. */
uint64_t loop_take_lag_ns(struct loop *l);

/* --- descriptors (level-triggered) --- */

struct loop_io {
    /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
    void (*on_ready)(struct loop_io *io, uint32_t events);
    int fd;
    uint32_t events; /* the current set; EPOLLHUP and EPOLLERR are always included */
};

/* The descriptor is borrowed from the caller. On failure io->fd is -EBADF. */
int loop_io_start(struct loop *l, struct loop_io *io, int fd, uint32_t events,
                  void (*on_ready)(struct loop_io *, uint32_t), struct err *e);
void loop_io_set(struct loop *l, struct loop_io *io, uint32_t events);
/* Call it before closing the descriptor; sets io->fd to -EBADF. No callback comes afterwards, not
 * even in this turn. */
void loop_io_stop(struct loop *l, struct loop_io *io);

/* --- timers --- */

struct loop_timer {
    void (*on_due)(struct loop_timer *t);
    uint64_t due_ns;
    uint32_t slot; /* index in the heap + 1; 0 = not armed */
};

/* Arms or moves a one-shot timer. Moving it later is O(1), so a deadline may be moved on every
 * read. A timer that is already due runs after the next poll, so that repeated work does not starve
 * other events. */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t due_ns,
                    void (*on_due)(struct loop_timer *));
/* The same, in `ms` from loop_now_ns. */
void loop_timer_after(struct loop *l, struct loop_timer *t, uint64_t ms,
                      void (*on_due)(struct loop_timer *));
void loop_timer_stop(struct loop *l, struct loop_timer *t); /* accepts an unarmed timer */

static inline bool loop_timer_armed(const struct loop_timer *t)
{
    return t->slot != 0;
}

/* --- work at the end of a turn, and from other threads ---
 *
 * A turn is the handling of one event, or of the timers that are due: the callbacks, and then the
 * tasks they deferred. */

struct loop_task {
    void (*run)(struct loop_task *t);
    struct loop_task *next;
    bool queued;
};

/* Runs the task at the end of this turn, before the next event. Queued twice, it runs once. Its
 * owner must stay alive until it ran; an owner that frees itself does so in a deferred task. */
void loop_defer(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *));

/* The same from any thread: wakes the loop. A task may be in only one queue at a time. */
void loop_post(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *));

/* --- the rest of work that is too long for one turn ---
 *
 * A callback with long input handles a bounded part and yields the rest. Yielded work runs in FIFO
 * order after the loop has polled for new events, LOOP_YIELDS_PER_POLL items between two polls: new
 * events never wait for all of it. */

enum { LOOP_YIELDS_PER_POLL = 16 };

struct loop_yield {
    struct list link;
    void (*run)(struct loop_yield *y);
    bool queued;
};

/* Queues at the end. Queued twice, it runs once. The owner must stay alive until it ran, or until
 * loop_yield_stop. */
void loop_yield(struct loop *l, struct loop_yield *y, void (*run)(struct loop_yield *));
void loop_yield_stop(struct loop *l, struct loop_yield *y); /* accepts one that is not queued */
/* Whether yielded work is waiting and the caller runs for an event, not as yielded work. Then the
 * caller should do only a little before it yields. */
bool loop_should_yield_early(const struct loop *l);

/* --- signals and processes --- */

struct loop_signals {
    struct loop_io io;
    struct loop *loop;
    void (*on_signal)(struct loop_signals *s, int signo);
};

/* Blocks the set in this thread (call it before starting others) and delivers it through the
 * loop. */
int loop_signals_start(struct loop *l, struct loop_signals *s, const sigset_t *set,
                       void (*on_signal)(struct loop_signals *, int), struct err *e);
void loop_signals_stop(struct loop_signals *s);

struct loop_child {
    struct loop_io io;
    struct loop *loop;
    void (*on_exit)(struct loop_child *c,
                    int status); /* wait status as of waitpid; -1 if not our child */
};

/* Watches a process by pidfd (borrowed; close it after on_exit or stop) and reaps it when it ends.
 */
int loop_child_start(struct loop *l, struct loop_child *c, int pidfd,
                     void (*on_exit)(struct loop_child *, int), struct err *e);
void loop_child_stop(struct loop_child *c);

/* --- memory shared by all connections of the loop --- */

enum { LOOP_SCRATCH_BYTES = 128 * 1024 };

/* LOOP_SCRATCH_BYTES of memory for use within one callback: input is received into it, so an idle
 * connection owns no buffer. */
char *loop_scratch(struct loop *l);

/* Lend a spare buffer to `b` (initialised, empty), and take it back. A few are kept allocated. */
void loop_buf_borrow(struct loop *l, struct buf *b);
void loop_buf_return(struct loop *l, struct buf *b);

/* The same for pipes (non-blocking, for splice). Borrowing into a pipe that is already held does
 * nothing. Only an empty pipe is reused; any other is closed. */
int loop_pipe_borrow(struct loop *l, int ends[2]);
void loop_pipe_return(struct loop *l, int ends[2], bool empty);
