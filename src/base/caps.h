/* caps.h - capabilities a sandbox keeps within its own user namespace. */
#pragma once

#include "base/defs.h"

/* Bit sets by capability number. Nothing is ambient, nothing inheritable. The workload has less
 * than PID 1, and so the kernel keeps it from tracing PID 1 or reading its memory, even as root. */
extern const uint64_t caps_sandbox; /* what root of the workload keeps */
extern const uint64_t caps_init;    /* what PID 1 keeps: the same, and the right to drop more */

/* Bounding, permitted and effective sets of the calling thread become `keep`; inheritable and
 * ambient sets are emptied. Taking from the bounding set needs CAP_SETPCAP. No allocation: safe
 * between clone and exec. 0 or -errno; -EPERM when `keep` has more than the thread. */
int caps_limit(uint64_t keep);
