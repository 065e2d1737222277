#include "ingress/intent.h"

#include "base/time.h"
#include "test.h"

TEST(intent, is_the_text_of_the_contract)
{
    AUTO_BUF(out, 1024);
    int64_t us = 0;

    CHECK_EQ(time_parse(STR("2026-06-15T08:00:00.12Z"), &us, NULL), 0);
    CHECK_EQ(intent_write(&out, STR("web-7f3a"), 8080, STR("/api/v1"), us), 0);
    CHECK_STR(out.p, "{\"sandbox_id\":\"web-7f3a\",\"observed_at\":\"2026-06-15T08:00:00.12Z\","
                     "\"port\":8080,\"request_uri\":\"/api/v1\"}");
    buf_clear(&out);
    CHECK_EQ(intent_write(&out, STR("a\"b"), 0, STR_NONE, us - 120000), 0);
    CHECK_STR(out.p, "{\"sandbox_id\":\"a\\\"b\",\"observed_at\":\"2026-06-15T08:00:00Z\"}");
}

TEST(intent, goes_out_once_in_an_interval_and_never_blocks)
{
    static struct intents i;
    struct intents_stats stats;
    struct intents_conf conf = {.key = "k", .min_interval_s = 60};
    const uint64_t minute = 60000 * TIME_NS_PER_MS;
    struct err e = {0};
    char id[32];

    CHECK_EQ(redis_dsn_parse(STR("redis://127.0.0.1:1/0"), &conf.redis.dsn, &e), 0);
    CHECK_EQ(loop_new(&conf.loop, &e), 0);
    CHECK_EQ(intents_start(&i, &conf, &e), 0);
    intents_note(&i, STR("a"), 80, STR_NONE, minute);
    intents_note(&i, STR("a"), 81, STR_NONE, minute + 1);
    intents_note(&i, STR("b"), 80, STR_NONE, minute + 1);
    intents_note(&i, STR("a"), 80, STR_NONE, 2 * minute);
    intents_stats(&i, &stats);
    CHECK_EQ(stats.noted, 3);
    CHECK_EQ(stats.throttled, 1);
    for (int n = 0; n < INTENT_QUEUE_MAX + 5; n++) {
        (void)snprintf(id, sizeof(id), "x%d", n);
        intents_note(&i, str_of(id), 1, STR_NONE, minute);
    }
    intents_stats(&i, &stats);
    CHECK_EQ(stats.dropped, 8);
    intents_stop(&i);
    loop_settle(conf.loop);
    loop_free(conf.loop);
}
