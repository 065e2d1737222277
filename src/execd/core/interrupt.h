/* interrupt.h - ends a process group: SIGTERM, and after INTERRUPT_GRACE_MS a signal that kills the
 * remaining processes. Loop thread only; nothing blocks. */
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
void interrupts_done(struct interrupts *all); /* stops those under way */

/* `group` is led by a child of execd that has not been reaped. on_done is called once, never from
 * within this call: when the group is gone, or soon after the `kill_signal`. */
struct interrupt *interrupt_start(struct interrupts *all, pid_t group, int kill_signal,
                                  void (*on_done)(void *user), void *user);
void interrupt_forget(struct interrupt *in); /* continues without calling on_done */
