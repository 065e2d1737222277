/* exit_text.h - how a process ended, in the words that clients of this API know. */
#pragma once

#include "base/buf.h"
#include "base/proc.h"

enum { EXIT_TEXT_MAX = 64 }; /* bytes that are enough for one */

/* Appends "exit status 3", "signal: killed", "signal: aborted (core dumped)"; nothing after a clean
 * exit. */
void exit_text_add(struct buf *out, const struct proc_exit *how);
