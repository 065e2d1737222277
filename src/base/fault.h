/* fault.h - fault injection: how tests make allocations, I/O and system calls fail.
 *
 * A test sets a countdown for a kind of fault; the call that takes it to zero fails. While no
 * fault is armed, a check costs one load and one branch. Only code in the same process can arm a
 * fault. */
#pragma once

#include <stdbool.h>

enum fault_kind {
    FAULT_ALLOC,    /* a growing buffer or arena gets no memory */
    FAULT_SHORT_IO, /* a read or write moves one byte only */
    FAULT_SYSCALL,  /* a wrapped system call returns ENOSYS */
    FAULT_KIND_COUNT,
};

extern long fault_countdown[FAULT_KIND_COUNT]; /* 0 = disarmed; n = the nth check from now fails */

/* True when the calling site must fail now. */
static inline bool fault_hit(enum fault_kind kind)
{
    return __builtin_expect(fault_countdown[kind] > 0, 0) && --fault_countdown[kind] == 0;
}

/* Arms a kind: its nth check from now fails, once. 0 disarms. */
static inline void fault_arm(enum fault_kind kind, long nth)
{
    fault_countdown[kind] = nth;
}
