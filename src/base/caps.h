/* caps.h - Linux capabilities that a sandbox keeps within its own user namespace. */
#pragma once

#include "base/defs.h"

/* Bit sets by capability number; ambient and inheritable sets are empty. The workload has fewer
 * capabilities than PID 1, so the kernel forbids it to ptrace PID 1 or read its memory, even as
 * root. */
extern const uint64_t caps_sandbox; /* capabilities of the workload's root */
extern const uint64_t caps_init; /* capabilities of PID 1: caps_sandbox, CAP_SETPCAP, and those that
                                    making nested sandboxes needs. The namespaces PID 1 is in do not
                                    belong to it, so these do not apply to them */

/* Sets the bounding, permitted and effective sets of the calling thread to `keep`; empties the
 * inheritable and ambient sets. Shrinking the bounding set needs CAP_SETPCAP. No allocation: safe
 * between clone and exec. 0 or -errno; -EPERM when the thread lacks a capability of `keep`. */
int caps_limit(uint64_t keep);
/* The same without the bounding set; needs no privilege. */
int caps_set(uint64_t keep);
/* Only the bounding set, which limits what exec can grant. The other sets stay as they are. */
int caps_bound(uint64_t keep);
