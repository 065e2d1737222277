#include "base/trace.h"

#include <errno.h>

#include "base/buf.h"
#include "base/time.h"

#include "test.h"

#define IDS    "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
#define PARENT "00-" IDS "-01"

TEST(trace, reads_and_writes_a_parent)
{
    static const uint8_t span[] = {0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31};
    struct trace_context c = {0};
    char text[TRACE_PARENT_MAX];

    CHECK_EQ(trace_parse(STR(PARENT), &c), 0);
    CHECK(c.sampled && c.trace_id[0] == 0x0a && c.trace_id[15] == 0x9c);
    CHECK(memcmp(c.span_id, span, sizeof(span)) == 0);
    trace_format(&c, text);
    CHECK_STR(text, PARENT);
    CHECK_EQ(trace_parse(STR("00-" IDS "-00"), &c), 0);
    CHECK(!c.sampled);
    trace_format(&c, text);
    CHECK_STR(text, "00-" IDS "-00");
    /* Only the bit that is known counts. */
    CHECK_EQ(trace_parse(STR("00-" IDS "-fe"), &c), 0);
    CHECK(!c.sampled);
}

TEST(trace, reads_later_versions_by_what_they_share)
{
    struct trace_context c;

    CHECK_EQ(trace_parse(STR("01-" IDS "-01"), &c), 0);
    CHECK_EQ(trace_parse(STR("cc-" IDS "-01-what-the-future-brings"), &c), 0);
    CHECK_EQ(trace_parse(STR("cc-" IDS "-01.what"), &c), -EINVAL);
}

TEST(trace, refuses_what_is_not_a_parent)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-" IDS "-0",
        "00-" IDS "-01-",
        "00-" IDS "-01 ",
        " 00-" IDS "-01",
        "ff-" IDS "-01",
        "0g-" IDS "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "00_" IDS "-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
        "00-" IDS "_01",
        "00-" IDS "-0x",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-001",
    };
    struct trace_context c = {.sampled = true};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (trace_parse(str_of(bad[i]), &c) != -EINVAL)
            test_fail(__FILE__, __LINE__, "accepted '%s'", bad[i]);
    CHECK(c.sampled && !trace_is_some(&c));
}

TEST(trace, knows_a_valid_state)
{
    static const char *const good[] = {
        "",
        "rojo=00f067aa0ba902b7",
        "rojo=1,congo=t61rcWkgMzE",
        "a=1, b=2\t,\t c=3",
        "fw529a3039@dt=FfAtBBi",
        "0tenant@system=x y",
        "a_-*/=!~",
        ",,a=1,,",
    };
    static const char *const bad[] = {
        "a",
        "=1",
        "a=",
        "A=1",
        "1=1",
        "a b=1",
        "a=1=2",
        "a=1,a=2",
        "@dt=1",
        "a@=1",
        "a@system-of-15-by=1",
        "a=\x01",
        "a=\xc3\xa4",
        "a@b@c=1",
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!trace_state_is_valid(str_of(good[i])))
            test_fail(__FILE__, __LINE__, "refused '%s'", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (trace_state_is_valid(str_of(bad[i])))
            test_fail(__FILE__, __LINE__, "accepted '%s'", bad[i]);
}

TEST(trace, limits_a_state)
{
    AUTO_BUF(text, 2 * TRACE_STATE_BYTES_MAX);

    for (int i = 0; i < TRACE_STATE_MEMBERS_MAX; i++)
        CHECK_EQ(buf_addf(&text, "k%d=v,", i), 0);
    CHECK(trace_state_is_valid(buf_str(&text)));
    CHECK_EQ(buf_add(&text, STR("more=1")), 0);
    CHECK(!trace_state_is_valid(buf_str(&text)));
    buf_clear(&text);
    while (text.n <= TRACE_STATE_BYTES_MAX)
        CHECK_EQ(buf_add_char(&text, ','), 0);
    CHECK(!trace_state_is_valid(buf_str(&text)));
    text.n--;
    CHECK(trace_state_is_valid(buf_str(&text)));
}

TEST(trace, samples_by_parent_and_ratio)
{
    struct trace_context yes = {.sampled = true}, no = {0};
    uint8_t low[TRACE_ID_BYTES] = {0xff}, high[TRACE_ID_BYTES] = {[9] = 0xff};

    CHECK(trace_sample(TRACE_ALWAYS_ON, 0, &no, low));
    CHECK(!trace_sample(TRACE_ALWAYS_OFF, 1, &yes, low));
    CHECK(trace_sample(TRACE_PARENT_ALWAYS_ON, 0, NULL, low));
    CHECK(!trace_sample(TRACE_PARENT_ALWAYS_ON, 0, &no, low));
    CHECK(!trace_sample(TRACE_PARENT_ALWAYS_OFF, 1, NULL, low));
    CHECK(trace_sample(TRACE_PARENT_ALWAYS_OFF, 1, &yes, low));
    CHECK(trace_sample(TRACE_RATIO, 0.5, &no, low));
    CHECK(!trace_sample(TRACE_RATIO, 0.5, &yes, high));
    CHECK(!trace_sample(TRACE_RATIO, 0, NULL, low));
    CHECK(trace_sample(TRACE_RATIO, 1, NULL, high));
    CHECK(trace_sample(TRACE_PARENT_RATIO, 0, &yes, high));
    CHECK(!trace_sample(TRACE_PARENT_RATIO, 0.5, NULL, high));
}

TEST(trace, has_a_current_context_to_return_to)
{
    struct trace_context a, before;

    CHECK_EQ(trace_parse(STR(PARENT), &a), 0);
    CHECK(!trace_current());
    before = trace_enter(&a);
    CHECK(trace_current() && memcmp(trace_current(), &a, sizeof(a)) == 0);
    (void)trace_enter(&before);
    CHECK(!trace_current());
}

struct taken {
    struct trace_span span;
    uint64_t begin_ns, end_ns;
    int count;
};

static void take(void *user, const struct trace_row *row)
{
    struct taken *t = user;

    *t = (struct taken){*row->span, row->begin_ns, row->end_ns, t->count + 1};
}

TEST(trace, records_spans_below_sampled_parents_only)
{
    struct trace_context parent;
    struct taken got = {0};
    struct trace_span s;
    const struct trace_note note = {.name = STR("x")};

    CHECK_EQ(trace_parse(STR(PARENT), &parent), 0);
    s = trace_begin(&parent); /* nobody listens */
    trace_end(&s, &note);
    trace_set_sink(take, &got);
    parent.sampled = false;
    s = trace_begin(&parent);
    trace_end(&s, &note);
    s = trace_begin(NULL);
    trace_end(&s, &note);
    CHECK_EQ(got.count, 0);
    parent.sampled = true;
    s = trace_begin(&parent);
    trace_end_at(&s, s.begin_ns + 5000, &note);
    CHECK_EQ(got.count, 1);
    CHECK_EQ(got.end_ns - got.begin_ns, 5000);
    CHECK(got.end_ns / 1000 + 60 * TIME_US_PER_S > (uint64_t)time_wall_us());
    CHECK(memcmp(got.span.context.trace_id, parent.trace_id, TRACE_ID_BYTES) == 0);
    CHECK(memcmp(got.span.parent_id, parent.span_id, TRACE_SPAN_BYTES) == 0);
    CHECK(memcmp(got.span.context.span_id, parent.span_id, TRACE_SPAN_BYTES) != 0);
    trace_set_sink(NULL, NULL);
}
