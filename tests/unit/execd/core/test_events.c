#include "execd/core/events.h"

#include "base/time.h"
#include "execd/core/lines.h"
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
    CHECK_EQ(event_output(&b, "stdout", STR("a\n\xc2\x85\xff<"), false, false), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"stdout\",\"text\":\"a\\n\\u0085\\ufffd\\u003c\","
                                "\"timestamp\":T}\n\n");
    CHECK_EQ(event_output(&b, "stdout", STR("plain text"), false, false), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"stdout\",\"text\":\"plain text\","
                                "\"timestamp\":T}\n\n");
    CHECK_EQ(event_output(&b, "stderr", STR("\t"), true, false), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"stderr\",\"text\":\"\\t\",\"timestamp\":T,\"continues\":true}\n\n");
    CHECK_EQ(event_output(&b, "stderr", STR("x"), true, false), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"stderr\",\"text\":\"x\",\"timestamp\":T,\"continues\":true}\n\n");
    CHECK_EQ(event_output(&b, "stdout", STR("\t"), false, true), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"stdout\",\"text\":\"\\t\",\"timestamp\":T,\"unfinished\":true}\n\n");
    CHECK_EQ(event_output(&b, "stdout", STR("x"), true, true), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"stdout\",\"text\":\"x\",\"timestamp\":T,"
                                "\"continues\":true,\"unfinished\":true}\n\n");
    CHECK_EQ(event_complete(&b, 4, NULL), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"execution_complete\",\"execution_time\":4,\"timestamp\":T}\n\n");
    CHECK_EQ(event_complete(&b, 0, NULL), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"execution_complete\",\"timestamp\":T}\n\n");
    CHECK_EQ(event_error(&b, "CommandExecError", "2", "exit status 2", NULL), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"error\",\"timestamp\":T,\"error\":{\"ename\":\"CommandExecError\","
              "\"evalue\":\"2\",\"traceback\":[\"exit status 2\"]}}\n\n");
}

TEST(events, say_more_about_a_run_of_a_session)
{
    struct event_run run = {"9f1c", 3, 0, 1500000};
    AUTO_BUF(b, 1024);

#define RUN                                                                                        \
    "\"run_id\":\"9f1c\",\"exit_code\":3,\"started_at\":\"1970-01-01T00:00:00Z\","                 \
    "\"finished_at\":\"1970-01-01T00:00:01.500000Z\"}\n\n"
    CHECK_EQ(event_error(&b, "E", "3", "exit status 3", &run), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"error\",\"timestamp\":T,\"error\":{\"ename\":\"E\",\"evalue\":\"3\","
              "\"traceback\":[\"exit status 3\"]}," RUN);
    CHECK_EQ(event_complete(&b, 0, &run), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"execution_complete\",\"timestamp\":T," RUN);
}

TEST(events, fit_their_bound_and_4_mebibytes_whatever_the_text)
{
    static char text[LINES_PIECE_MAX]; /* NULs, the longest to escape */
    AUTO_BUF(b, EVENT_BYTES_MAX(LINES_PIECE_MAX));

    CHECK_EQ(event_output(&b, "stdout", str_make(text, sizeof(text)), true, false), 0);
    CHECK(b.n < 4 << 20); /* what the Go client takes as one line */
}

TEST(events, are_added_whole_or_not_at_all)
{
    AUTO_BUF(b, 80);

    CHECK_EQ(buf_add(&b, STR("before")), 0);
    CHECK_EQ(
        event_output(&b, "stdout", STR("0123456789012345678901234567890123456789"), false, false),
        -EMSGSIZE);
    CHECK_STR(b.p, "before");
}

static const struct json *json_of(struct arena *a, const char *text)
{
    struct json *v;

    CHECK_EQ(json_parse(a, str_of(text), NULL, &v, NULL), 0);
    return v;
}

TEST(events, of_code_have_their_keys_in_order)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(b, 4096);

    CHECK_EQ(event_status(&b, STR("error")), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"status\",\"text\":\"error\",\"timestamp\":T}\n\n");
    CHECK_EQ(event_count(&b, 3), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"execution_count\",\"execution_count\":3,\"timestamp\":T}\n\n");
    CHECK_EQ(event_failure(&b, STR("E"), STR("v"), json_of(&a, "[\"1\",\"2\"]")), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"error\",\"timestamp\":T,\"error\":{\"ename\":\"E\","
                                "\"evalue\":\"v\",\"traceback\":[\"1\",\"2\"]}}\n\n");
    CHECK_EQ(event_failure(&b, STR("E"), STR("v"), NULL), 0);
    CHECK_STR(without_time(&b), "{\"type\":\"error\",\"timestamp\":T,\"error\":{\"ename\":\"E\","
                                "\"evalue\":\"v\",\"traceback\":[]}}\n\n");
}

TEST(events, tell_every_value_of_a_result_as_a_string)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(b, 4096);
    const struct json *bundle = json_of(
        &a, "{\"text/html\":\"h\",\"text/plain\":\"p\",\"application/json\":{\"a\":[1,null]}}");
    struct event_display display = {STR("d"), true};

    CHECK_EQ(event_result(&b, bundle, NULL), 0);
    CHECK_STR(
        without_time(&b),
        "{\"type\":\"result\",\"timestamp\":T,\"results\":{\"text\":\"p\",\"text/html\":\"h\","
        "\"text/plain\":\"p\",\"application/json\":\"{\\\"a\\\":[1,null]}\"}}\n\n");
    CHECK_EQ(event_result(&b, json_of(&a, "{\"text/plain\":\"p\"}"), &display), 0);
    CHECK_STR(
        without_time(&b),
        "{\"type\":\"result\",\"timestamp\":T,\"results\":{\"text\":\"p\",\"text/plain\":\"p\"},"
        "\"display\":{\"id\":\"d\",\"update\":true}}\n\n");
}

TEST(events, of_code_are_shortened_to_what_a_client_takes)
{
    enum { LONG = 5 << 20 };
    AUTO_ARENA(a, 8 * LONG);
    AUTO_BUF(text, 2 * LONG);
    AUTO_BUF(b, EVENT_LINE_BYTES_MAX);
    char *image = malloc(LONG);
    const struct json *bundle;

    memset(image, 'x', LONG);
    CHECK_EQ(buf_addf(&text, "{\"text/plain\":\"fig\",\"image/png\":\"%.*s\"}", LONG, image), 0);
    bundle = json_of(&a, text.p);
    CHECK_EQ(event_result(&b, bundle, NULL), 0);
    CHECK_STR(without_time(&b),
              "{\"type\":\"result\",\"timestamp\":T,\"results\":{\"text\":\"fig\","
              "\"text/plain\":\"fig\"},\"shortened\":true}\n\n");
    CHECK_EQ(event_failure(&b, STR("E"), str_make(image, LONG), NULL), 0);
    CHECK(b.n < 100000 && str_find_str(buf_str(&b), STR("xx... (5242880 bytes, cut)")) < b.n);
    free(image);
}
