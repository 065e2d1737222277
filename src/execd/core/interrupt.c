#include "execd/core/interrupt.h"

#include <errno.h>
#include <signal.h>

#include "base/mem.h"
#include "base/time.h"

struct interrupt {
    struct interrupts *all;
    struct list link;
    struct loop_timer timer;
    pid_t group;
    int kill_signal;
    uint64_t kill_ns; /* when the remaining processes are killed */
    int looks_left;   /* checks left after the kill */
    uint32_t look_ms; /* between checks: short at first, as most processes end at once */
    bool killed;
    void (*on_done)(void *user); /* NULL: no report is wanted */
    void *user;
};

void interrupts_init(struct interrupts *all, struct loop *loop)
{
    all->loop = loop;
    list_init(&all->under_way);
}

static void interrupt_free(struct interrupt *in)
{
    loop_timer_stop(in->all->loop, &in->timer);
    list_remove(&in->link);
    free(in);
}

void interrupts_done(struct interrupts *all)
{
    LIST_EACH(&all->under_way, at)
    interrupt_free(container_of(at, struct interrupt, link));
}

static void interrupt_look_soon(struct interrupt *in);

/* The kernel keeps the group's number while a process is in it. Between the end of its last process
 * and our next check, another group could get it only if all other pids were used within 50 ms. */
static void interrupt_look(struct loop_timer *t)
{
    struct interrupt *in = container_of(t, struct interrupt, timer);
    bool gone = kill(-in->group, 0) < 0 && errno == ESRCH;

    if (!gone && !in->killed && loop_now_ns(in->all->loop) >= in->kill_ns) {
        (void)kill(-in->group, in->kill_signal);
        in->killed = true;
    }
    if (gone || (in->killed && in->looks_left-- == 0)) {
        if (in->on_done)
            in->on_done(in->user);
        interrupt_free(in);
        return;
    }
    interrupt_look_soon(in);
}

static void interrupt_look_soon(struct interrupt *in)
{
    struct loop *loop = in->all->loop;

    loop_timer_after(loop, &in->timer, in->look_ms, interrupt_look);
    in->look_ms = (uint32_t)min_size(2 * (size_t)in->look_ms, INTERRUPT_LOOK_MS);
}

struct interrupt *interrupt_start(struct interrupts *all, pid_t group, int kill_signal,
                                  void (*on_done)(void *), void *user)
{
    struct interrupt *in = mem_new(struct interrupt);

    *in = (struct interrupt){
        .all = all,
        .group = group,
        .kill_signal = kill_signal,
        .kill_ns = loop_now_ns(all->loop) + INTERRUPT_GRACE_MS * TIME_NS_PER_MS,
        .looks_left = INTERRUPT_LAST_LOOKS,
        .look_ms = 1,
        .on_done = on_done,
        .user = user,
    };
    list_push(&all->under_way, &in->link);
    (void)kill(-group, SIGTERM);
    (void)kill(-group, SIGCONT); /* a stopped process could not handle SIGTERM */
    interrupt_look_soon(in);
    return in;
}

void interrupt_forget(struct interrupt *in)
{
    in->on_done = NULL;
}
