/* duration.h - durations as execd's flags and variables spell them: "300ms", "1h2m3.5s". */
#pragma once

#include "base/str.h"

/* Numbers with a unit each (ns, us, µs, ms, s, m, h) and an optional leading sign; "0" needs no
 * unit. -EINVAL for anything else, -ERANGE if the sum exceeds 64 bits. */
int duration_parse(struct str text, int64_t *ret_ns) MUST_USE;

struct duration_text {
    char s[32];
};
/* Formats milliseconds: "500ms", "1.5s", "1m0s", "2h0m0.25s". */
struct duration_text duration_text_of_ms(uint64_t ms);
