/* events.h - what an execution tells its client: one compact JSON object per event, on a line of
 * its own, and a blank line behind it. No "data:" prefix.
 *
 *   {"type":"stdout","text":"hi","timestamp":1760000000004}
 *
 * Keys in the order type, text, execution_count, execution_time, timestamp, results, error; empty
 * and zero ones are left out. The timestamp is milliseconds since 1970, now. Each appends one
 * event, or nothing: 0, -EMSGSIZE past the ceiling of `out`, -ENOMEM. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

/* What the largest event of a text of n bytes takes: a byte may become "\u00xx". */
#define EVENT_BYTES_MAX(n) (6 * (n) + 256)

int event_init(struct buf *out, const char *id) MUST_USE;
int event_ping(struct buf *out) MUST_USE;
/* `type` is "stdout" or "stderr". A text that goes on with the line of the event of that type
 * before it carries "continues":true behind the timestamp, an extension that clients ignore. */
int event_output(struct buf *out, const char *type, struct str text, bool continues) MUST_USE;

/* Of a run of an isolated session the two below have more keys behind the others: run_id,
 * exit_code, started_at, finished_at. */
struct event_run {
    const char *id;
    int exit_code;
    int64_t started_us, finished_us; /* wall clock */
};
/* `run` may be NULL. */
int event_complete(struct buf *out, uint64_t execution_time_ms,
                   const struct event_run *run) MUST_USE;
/* The traceback is one line. */
int event_error(struct buf *out, const char *name, const char *value, const char *traceback,
                const struct event_run *run) MUST_USE;

/* --- of code --- */

/* Some clients take no longer line. An event of code that would be is written with shortened
 * values, and says so. */
enum { EVENT_LINE_BYTES_MAX = (4 << 20) - 1 };

int event_status(struct buf *out, struct str text) MUST_USE;
int event_count(struct buf *out, uint64_t execution_count) MUST_USE; /* > 0 */

/* Where a bundle came from display(): clients that know the key can tell it from a result. */
struct event_display {
    struct str id; /* empty: nothing will replace it */
    bool update;   /* replaces what was shown under that id */
};
/* A bundle of MIME types; all values are told as strings, and text/plain as "text" also. `display`
 * is NULL for the value of a cell; else an extension behind the known keys. */
int event_result(struct buf *out, const struct json *bundle,
                 const struct event_display *display) MUST_USE;
/* `traceback` is an array of strings, or NULL. */
int event_failure(struct buf *out, struct str name, struct str value,
                  const struct json *traceback) MUST_USE;
