#include "execd/events.h"

#include "base/time.h"
#include "execd/lines.h"
#include "test.h"

/* Replaces the timestamp, which is now, by T. */
static const char *without_time(struct buf *b)
{
    static char out[2048];
    struct str text = buf_str(b), mark = STR("\"timestamp\":");
    size_t at = str_find_str(text, mark) + mark.n, n = at;
    int64_t ms;

    CHECK(at <= text.n);
    while (n < text.n && ascii_is_digit(text.p[n]))
        n++;
    CHECK_EQ(str_to_i64(str_make(text.p + at, n - at), &ms), 0);
    CHECK(ms > time_wall_us() / TIME_US_PER_MS - 60000 && ms <= time_wall_us() / TIME_US_PER_MS);
    snprintf(out, sizeof(out), "%.*sT%.*s", (int)at, text.p, (int)(text.n - n), text.p + n);
    buf_clear(b);
    return out;
}

TEST(events, have_their_keys_in_order_and_a_blank_line_behind)
{
    AUTO_BUF(b, 4096);

    CHECK_EQ(event_init(&b, "9f1c"), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"init\",\"text\":\"9f1c\",\"timestamp\":T}\n\n");
    CHECK_EQ(event_ping(&b), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":T}\n\n");
    CHECK_EQ(event_output(&b, "stdout", STR("a\n\xc2\x85\xff<"), false), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"stdout\",\"text\":\"a\\n\\u0085\\ufffd\\u003c\","
                                "\"timestamp\":T}\n\n");
    CHECK_EQ(event_output(&b, "stderr", STR("x"), true), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"stderr\",\"text\":\"x\",\"timestamp\":T,\"continues\":true}\n\n");
    CHECK_EQ(event_complete(&b, 4), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"execution_complete\",\"execution_time\":4,\"timestamp\":T}\n\n");
    CHECK_EQ(event_complete(&b, 0), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"execution_complete\",\"timestamp\":T}\n\n");
    CHECK_EQ(event_error(&b, "CommandExecError", "2", "exit status 2"), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"error\",\"timestamp\":T,\"error\":{\"ename\":\"CommandExecError\","
              "\"evalue\":\"2\",\"traceback\":[\"exit status 2\"]}}\n\n");
}

TEST(events, fit_their_bound_and_4_mebibytes_whatever_the_text)
{
    static char text[LINES_PIECE_MAX]; /* NULs, the longest to escape */
    AUTO_BUF(b, EVENT_BYTES_MAX(LINES_PIECE_MAX));

    CHECK_EQ(event_output(&b, "stdout", str_make(text, sizeof(text)), true), 0);
    CHECK(b.n < 4 << 20); /* what the Go client takes as one line */
}

TEST(events, are_added_whole_or_not_at_all)
{
    AUTO_BUF(b, 80);

    CHECK_EQ(buf_add(&b, STR("before")), 0);
    CHECK_EQ(event_output(&b, "stdout", STR("0123456789012345678901234567890123456789"), false),
             -EMSGSIZE);
    CHECK_STR(b.p, "before");
}
