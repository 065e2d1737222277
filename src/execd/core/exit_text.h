/* exit_text.h - how a process ended, in the wording that clients of this API know. */
#pragma once

#include "base/buf.h"
#include "base/proc.h"
#include "execd/core/child.h"

enum { EXIT_TEXT_MAX = 192 }; /* bytes that are enough for one */

/* Appends "exit status 3", "signal: killed", "signal: aborted (core dumped)"; nothing after a clean
 * exit. */
void exit_text_add(struct buf *out, const struct proc_exit *how);

/* Number of workload processes that the OOM killer has ended so far; 0 when unknown. */
uint64_t exit_oom_kills(const struct child_memory *m);
/* Whether SIGKILL ended the process, or a child whose end it passed on, as shells do. */
bool exit_was_killed(const struct proc_exit *how);
/* Appends ": out of memory (limit 256 MiB)" to the text of a failure when exit_oom_kills() is above
 * `before`. The count is that of the whole sandbox, so when the failed process itself was not
 * `killed`, the text says that some process of the sandbox was. */
void exit_text_add_memory(struct buf *out, const struct child_memory *m, uint64_t before,
                          bool killed);
