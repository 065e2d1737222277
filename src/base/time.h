/* time.h - clocks, deadlines, and times as text (RFC 3339 and HTTP dates).
 *
 * A point in time is an int64_t of microseconds since 1970-01-01T00:00:00Z; a deadline is a
 * uint64_t of CLOCK_MONOTONIC nanoseconds. Calendar arithmetic does not use libc: no time zone, no
 * locale, no lock. Nothing here blocks or allocates. */
#pragma once

#include "base/err.h"
#include "base/str.h"

uint64_t time_mono_ns(void);
uint64_t time_mono_ms(void);
int64_t time_wall_us(void);

#define DEADLINE_NEVER UINT64_MAX

uint64_t deadline_in_ms(uint64_t ms); /* DEADLINE_NEVER on overflow */
/* For poll() and epoll_wait(): milliseconds, rounded up so that a wait does not end early and spin;
 * 0 once it has passed, INT_MAX at most, -1 for DEADLINE_NEVER. */
int deadline_left_ms(uint64_t deadline);
static inline bool deadline_passed(uint64_t deadline)
{
    return deadline != DEADLINE_NEVER && time_mono_ns() >= deadline;
}

/* The years 0001 to 9999, the range of the text forms. */
#define TIME_MIN_US    INT64_C(-62135596800000000)
#define TIME_MAX_US    INT64_C(253402300799999999)
#define TIME_US_PER_S  INT64_C(1000000)
#define TIME_US_PER_MS INT64_C(1000)
#define TIME_NS_PER_MS UINT64_C(1000000)

enum {
    TIME_TEXT_MAX = sizeof("2026-01-02T03:04:05.000120Z"),
    TIME_HTTP_MAX = sizeof("Sun, 06 Nov 1994 08:49:37 GMT"),
};

/* RFC 3339 in UTC with `Z`; the fraction has six digits, or is absent when it is zero. A time
 * outside [TIME_MIN_US, TIME_MAX_US] prints as the nearer bound. Returns the length. */
size_t time_format(int64_t us, char out[TIME_TEXT_MAX]);
/* The same, always with a fraction of three digits. */
size_t time_format_ms(int64_t us, char out[TIME_TEXT_MAX]);

/* Strict RFC 3339: any offset, also lower-case `t` and `z`; digits after the microsecond are
 * dropped. A leap second is accepted only at 23:59:60 UTC and equals the next second. -EINVAL for
 * malformed text, -ERANGE for a field or a time that does not exist. */
int time_parse(struct str s, int64_t *ret_us, struct err *e);

/* Accepts what time_parse does and also: a space for the T, no seconds, a date alone, no offset
 * (UTC), an offset without its colon, and Unix time as decimal text, with or without a fraction:
 * seconds up to 20000000000 (the year 2603), milliseconds above. */
int time_parse_lenient(struct str s, int64_t *ret_us, struct err *e);

/* IMF-fixdate (RFC 9110); the fraction is dropped. Returns the length. */
size_t time_format_http(int64_t us, char out[TIME_HTTP_MAX]);
/* The three forms of RFC 9110: IMF-fixdate, RFC 850 (a two-digit year is at most 50 years ahead of
 * the wall clock), asctime. The weekday must be a valid name, but need not match the date. */
int time_parse_http(struct str s, int64_t *ret_us, struct err *e);
