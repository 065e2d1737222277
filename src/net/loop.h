/* loop.h - one epoll loop: descriptors, timers, signals, processes, and work from other threads.
 *
 * A loop belongs to the thread that runs it. Everything here is called from that thread, except
 * loop_post and loop_stop. Nothing allocates per event: watchers are embedded in their owners, who
 * keep them alive until they stopped them. Callbacks should stay within about a millisecond. */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/types.h>

struct buf;
struct loop;

/* Also makes the process ignore SIGPIPE: send has a flag against it, sendfile and splice do not. */
int loop_new(struct loop **ret_loop, struct err *e);
void loop_free(struct loop *l); /* NULL is fine; watchers must be stopped before */

int loop_run(struct loop *l, struct err *e); /* until loop_stop; 0, or -errno from epoll */
void loop_stop(struct loop *l);              /* any thread */

/* Runs deferred and posted tasks until none is left: for tearing things down outside loop_run. */
void loop_settle(struct loop *l);

/* Monotonic time when the loop last woke: cheap, and the same for all events it woke for. */
uint64_t loop_now_ns(const struct loop *l);
/* The longest the loop was awake, in ns, since this was last asked: how late a timer may have been.
 */
uint64_t loop_take_lag_ns(struct loop *l);

/* --- descriptors (level-triggered) --- */

struct loop_io {
    /* EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR */
    void (*on_ready)(struct loop_io *io, uint32_t events);
    int fd;
    uint32_t events; /* what is watched now; EPOLLHUP and EPOLLERR always are */
};

/* The descriptor stays the caller's. On failure io->fd is -EBADF. */
int loop_io_start(struct loop *l, struct loop_io *io, int fd, uint32_t events,
                  void (*on_ready)(struct loop_io *, uint32_t), struct err *e);
void loop_io_set(struct loop *l, struct loop_io *io, uint32_t events);
/* Forgets the descriptor, before it is closed: io->fd is -EBADF. No callback comes any more, not
 * even in this turn. */
void loop_io_stop(struct loop *l, struct loop_io *io);

/* --- timers --- */

struct loop_timer {
    void (*on_due)(struct loop_timer *t);
    uint64_t due_ns;
    uint32_t slot; /* place in the heap + 1; 0 = not armed */
};

/* Arms or moves a one-shot timer. Moving it later is O(1), so a deadline may be pushed on every
 * read. One that is due already waits until the loop has polled: work that goes on at once does so
 * behind everyone else's. */
void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t due_ns,
                    void (*on_due)(struct loop_timer *));
/* The same, so long after loop_now_ns. */
void loop_timer_after(struct loop *l, struct loop_timer *t, uint64_t ms,
                      void (*on_due)(struct loop_timer *));
void loop_timer_stop(struct loop *l, struct loop_timer *t); /* unarmed is fine */

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

/* Runs the task at the end of this turn, before the next event. Queued twice runs once. Its owner
 * stays alive until it ran; freeing oneself in a deferred task is the way to die safely. */
void loop_defer(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *));

/* The same from any thread: wakes the loop. A task may be in one queue at a time only. */
void loop_post(struct loop *l, struct loop_task *t, void (*run)(struct loop_task *));

/* --- the rest of work that is too long for one turn ---
 *
 * A callback whose input is long does a bounded part and yields the rest. Yielded work runs in the
 * order in which it was yielded, after the loop has polled for new events, LOOP_YIELDS_PER_POLL
 * items between two polls: new events never wait for all of it. */

enum { LOOP_YIELDS_PER_POLL = 16 };

struct loop_yield {
    struct list link;
    void (*run)(struct loop_yield *y);
    bool queued;
};

/* Queues behind all others. Queued twice runs once. The owner stays alive until it ran, or until
 * loop_yield_stop. */
void loop_yield(struct loop *l, struct loop_yield *y, void (*run)(struct loop_yield *));
void loop_yield_stop(struct loop *l, struct loop_yield *y); /* not queued is fine */
/* Whether yielded work waits while the caller was called by an event, not as yielded work: then the
 * caller does only a little before it yields, too. */
bool loop_should_yield_early(const struct loop *l);

/* --- signals and processes --- */

struct loop_signals {
    struct loop_io io;
    struct loop *loop;
    void (*on_signal)(struct loop_signals *s, int signo);
};

/* Blocks the set in this thread (do it before making others) and delivers it through the loop. */
int loop_signals_start(struct loop *l, struct loop_signals *s, const sigset_t *set,
                       void (*on_signal)(struct loop_signals *, int), struct err *e);
void loop_signals_stop(struct loop_signals *s);

struct loop_child {
    struct loop_io io;
    struct loop *loop;
    void (*on_exit)(struct loop_child *c,
                    int status); /* wait status as of waitpid; -1 if not ours */
};

/* Watches a process by pidfd (borrowed; close it after on_exit or stop) and reaps it when it ends.
 */
int loop_child_start(struct loop *l, struct loop_child *c, int pidfd,
                     void (*on_exit)(struct loop_child *, int), struct err *e);
void loop_child_stop(struct loop_child *c);

/* --- memory shared by all connections of the loop --- */

enum { LOOP_SCRATCH_BYTES = 128 * 1024 };

/* Room of LOOP_SCRATCH_BYTES that is free between callbacks: input is received into it, so an idle
 * connection owns no buffer. */
char *loop_scratch(struct loop *l);

/* A spare buffer for `b` (initialised, empty), and its return. Keeps a few warm ones. */
void loop_buf_borrow(struct loop *l, struct buf *b);
void loop_buf_return(struct loop *l, struct buf *b);

/* The same for pipes (non-blocking, for splice). Borrowing into a pipe that is held already is
 * fine. Only an empty pipe may serve another; one that is not is closed. */
int loop_pipe_borrow(struct loop *l, int ends[2]);
void loop_pipe_return(struct loop *l, int ends[2], bool empty);
