/* events.h - the events of an execution, as its client receives them: one compact JSON object per
 * line, followed by a blank line. No "data:" prefix.
 *
 *   {"type":"stdout","text":"hi","timestamp":1760000000004}
 *
 * The keys are in the order type, text, execution_count, execution_time, timestamp, results, error;
 * empty and zero ones are left out. The timestamp is the current time in milliseconds since 1970.
 * Each function appends one whole event, or nothing and returns -EMSGSIZE past the ceiling of
 * `out`, or -ENOMEM. */
#pragma once

#include "base/buf.h"
#include "base/json.h"

/* Size of the largest event with a text of n bytes: a byte may become "\u00xx". */
#define EVENT_BYTES_MAX(n) (6 * (n) + 256)

int event_init(struct buf *out, const char *id) MUST_USE;
int event_ping(struct buf *out) MUST_USE;
/* `type` is "stdout" or "stderr". A text that continues the line of the previous event of that type
 * carries "continues":true after the timestamp, one whose line has not ended "unfinished":true:
 * extensions that clients ignore. */
int event_output(struct buf *out, const char *type, struct str text, bool continues,
                 bool unfinished) MUST_USE;

/* For a run of an isolated session, the two functions below append the keys run_id, exit_code,
 * started_at and finished_at. */
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

/* --- code execution --- */

/* The longest line that some clients accept. A longer event of code execution is written with
 * shortened values and says so. */
enum { EVENT_LINE_BYTES_MAX = (4 << 20) - 1 };

int event_status(struct buf *out, struct str text) MUST_USE;
int event_count(struct buf *out, uint64_t execution_count) MUST_USE; /* > 0 */

/* Set when a bundle came from display(): clients that know the key can tell it from a result. */
struct event_display {
    struct str id; /* empty: it will not be replaced */
    bool update;   /* replaces the output shown under that id */
};
/* A bundle of MIME types. All values are sent as strings, and text/plain also as "text". `display`
 * is NULL for the value of a cell; else it is an extension after the known keys. */
int event_result(struct buf *out, const struct json *bundle,
                 const struct event_display *display) MUST_USE;
/* `traceback` is an array of strings, or NULL. */
int event_failure(struct buf *out, struct str name, struct str value,
                  const struct json *traceback) MUST_USE;
