/* fault.h - the one seam through which tests make the system fail.
 *
 * A test arms a kind with a countdown; the site that takes it to zero fails. Disarmed, a site costs
 * one load and one branch. Only code in the same process can arm it. */
#pragma once

#include <stdbool.h>

enum fault_kind {
    FAULT_ALLOC,    /* a growing buffer or arena finds no memory */
    FAULT_SHORT_IO, /* a read or write moves one byte only */
    FAULT_SYSCALL,  /* a wrapped system call answers ENOSYS */
    FAULT_KIND_COUNT,
};

extern long fault_countdown[FAULT_KIND_COUNT]; /* 0 = disarmed; n = the nth hit from now fails */

/* True when this very hit must fail. */
static inline bool fault_hit(enum fault_kind kind)
{
    return __builtin_expect(fault_countdown[kind] > 0, 0) && --fault_countdown[kind] == 0;
}

/* Arms a kind so that its nth hit from now fails, once. 0 disarms. */
static inline void fault_arm(enum fault_kind kind, long nth)
{
    fault_countdown[kind] = nth;
}
