#include "execd/metrics/spans.h"

#include <errno.h>

#include "test.h"

static const struct otlp_conf conf = {.scope = STR_INIT("s"), .version = STR_INIT("1")};
static const struct trace_note note = {.name = STR_INIT("x"), .kind = TRACE_INTERNAL};
static const struct trace_span span = {
    .context = {{1}, {2}, true},
      .begin_ns = 1
};
static const struct trace_row row = {&span, &note, 1, 2};

static size_t count(const struct buf *body)
{
    size_t n = 0;

    for (const char *at = body->p; (at = strstr(at, "\"spanId\"")); at++)
        n++;
    return n;
}

TEST(spans, are_kept_until_they_are_taken)
{
    struct spans s;
    AUTO_BUF(body, SPANS_BYTES_MAX);

    spans_init(&s);
    CHECK_EQ(spans_send(&s, &conf, &body), -EAGAIN);
    CHECK_EQ(body.n, 0);
    spans_add(&s, &row);
    spans_add(&s, &row);
    CHECK_EQ(spans_send(&s, &conf, &body), 0);
    CHECK_EQ(count(&body), 2);
    CHECK(strstr(body.p, "},{\"traceId\"") != NULL);
    spans_add(&s, &row); /* while the others are under way */
    spans_sent(&s, false);
    buf_clear(&body);
    CHECK_EQ(spans_send(&s, &conf, &body), 0);
    CHECK_EQ(count(&body), 3);
    spans_add(&s, &row);
    spans_sent(&s, true);
    buf_clear(&body);
    CHECK_EQ(spans_send(&s, &conf, &body), 0);
    CHECK_EQ(count(&body), 1);
    spans_sent(&s, true);
    CHECK_EQ(spans_send(&s, &conf, &body), -EAGAIN);
    spans_done(&s);
}

TEST(spans, are_limited_in_memory_and_per_export)
{
    struct spans s;
    size_t added = 0;
    AUTO_BUF(body, SPANS_BYTES_MAX);

    spans_init(&s);
    while (s.dropped == 0) {
        spans_add(&s, &row);
        added++;
    }
    CHECK(s.waiting.n <= SPANS_BYTES_MAX && added > SPANS_BATCH_MAX);
    CHECK_EQ(spans_send(&s, &conf, &body), 0);
    CHECK_EQ(count(&body), SPANS_BATCH_MAX);
    spans_sent(&s, true);
    spans_add(&s, &row);
    CHECK_EQ(s.dropped, 1);
    spans_done(&s);
}
