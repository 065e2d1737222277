/* interrupt.h - ends a process group: SIGTERM, and a signal that kills for who is left after
 * INTERRUPT_GRACE_MS. Loop thread only; nothing waits. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "net/loop.h"

enum { INTERRUPT_GRACE_MS = 3000, INTERRUPT_LOOK_MS = 50, INTERRUPT_LAST_LOOKS = 3 };

struct interrupt;

struct interrupts {
    struct loop *loop;
    struct list under_way; /* of struct interrupt */
};

void interrupts_init(struct interrupts *all, struct loop *loop);
void interrupts_done(struct interrupts *all); /* those under way go no further */

/* `group` is led by a child of ours that was not reaped yet. on_done comes once, never from within
 * this call: when the group is gone, or soon after the `kill_signal`. */
struct interrupt *interrupt_start(struct interrupts *all, pid_t group, int kill_signal,
                                  void (*on_done)(void *user), void *user);
void interrupt_forget(struct interrupt *in); /* goes on, but nobody is told */
