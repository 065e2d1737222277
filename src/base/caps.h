/* caps.h - capabilities a sandbox keeps within its own user namespace. */
#pragma once

#include "base/defs.h"

/* Bit sets by capability number. Nothing is ambient, nothing inheritable. The workload has less
 * than PID 1, and so the kernel keeps it from tracing PID 1 or reading its memory, even as root. */
extern const uint64_t caps_sandbox; /* what root of the workload keeps */
extern const uint64_t caps_init;    /* what PID 1 keeps: the same, the right to drop more, and what
                                       making sandboxes inside needs; none of the namespaces it is
                                       in belong to it, so none of this reaches them */

/* Bounding, permitted and effective sets of the calling thread become `keep`; inheritable and
 * ambient sets are emptied. Taking from the bounding set needs CAP_SETPCAP. No allocation: safe
 * between clone and exec. 0 or -errno; -EPERM when `keep` has more than the thread. */
int caps_limit(uint64_t keep);
/* The other sets alone: taking from them needs nothing. */
int caps_set(uint64_t keep);
/* The bounding set alone: what no exec can give back. The rest stays usable for now. */
int caps_bound(uint64_t keep);
