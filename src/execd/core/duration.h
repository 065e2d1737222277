/* duration.h - spans of time as flags and variables of execd spell them: "300ms", "1h2m3.5s". */
#pragma once

#include "base/str.h"

/* Numbers with a unit each: ns, us, µs, ms, s, m, h; a sign in front; "0" needs no unit. -EINVAL
 * for anything else, -ERANGE past what 64 bits hold. */
int duration_parse(struct str text, int64_t *ret_ns) MUST_USE;

struct duration_text {
    char s[32];
};
/* Milliseconds, spelled so: "500ms", "1.5s", "1m0s", "2h0m0.25s". */
struct duration_text duration_text_of_ms(uint64_t ms);
