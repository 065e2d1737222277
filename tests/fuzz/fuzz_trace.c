/* fuzz_trace.c - what parses as traceparent prints, and parses again to the same; any part of a
 * valid tracestate between two commas is valid. */
#include "base/trace.h"

#include "fuzz.h"

static void check_parent(struct str s)
{
    struct trace_context c = {0}, again;
    char text[TRACE_PARENT_MAX];

    if (trace_parse(s, &c) < 0) {
        FUZZ_CHECK(!trace_is_some(&c));
        return;
    }
    FUZZ_CHECK(s.n >= TRACE_PARENT_LEN && trace_is_some(&c));
    trace_format(&c, text);
    FUZZ_CHECK(strlen(text) == TRACE_PARENT_LEN);
    FUZZ_CHECK(memcmp(text + 3, s.p + 3, 49) == 0); /* the ids */
    FUZZ_CHECK(trace_parse(str_of(text), &again) == 0);
    FUZZ_CHECK(memcmp(&c, &again, sizeof(c)) == 0);
}

static void check_state(struct str s)
{
    struct str member;

    if (!trace_state_is_valid(s))
        return;
    FUZZ_CHECK(s.n <= TRACE_STATE_BYTES_MAX);
    while (str_cut(&s, ',', &member))
        FUZZ_CHECK(trace_state_is_valid(member));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_make((const char *)data, size), first = s;
    size_t end = str_find(s, '\n');

    first.n = end;
    check_parent(first);
    check_state(end < s.n ? str_skip(s, end + 1) : s);
    return 0;
}
