/* events.h - what an execution tells its client: one compact JSON object per event, on a line of
 * its own, and a blank line behind it. No "data:" prefix.
 *
 *   {"type":"stdout","text":"hi","timestamp":1760000000004}
 *
 * Keys in the order type, text, execution_time, timestamp, error; empty and zero ones are left out.
 * The timestamp is milliseconds since 1970, now. Each appends one event, or nothing: 0, -EMSGSIZE
 * past the ceiling of `out`, -ENOMEM. */
#pragma once

#include "base/buf.h"

/* What the largest event of a text of n bytes takes: a byte may become "\u00xx". */
#define EVENT_BYTES_MAX(n) (6 * (n) + 256)

int event_init(struct buf *out, const char *id) MUST_USE;
int event_ping(struct buf *out) MUST_USE;
/* `type` is "stdout" or "stderr". A text that goes on with the line of the event of that type
 * before it carries "continues":true behind the timestamp, an extension that clients ignore. */
int event_output(struct buf *out, const char *type, struct str text, bool continues) MUST_USE;
int event_complete(struct buf *out, uint64_t execution_time_ms) MUST_USE;
/* The traceback is one line. */
int event_error(struct buf *out, const char *name, const char *value,
                const char *traceback) MUST_USE;
