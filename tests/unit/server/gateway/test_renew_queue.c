#include "server/gateway/renew_queue.h"

#include "base/time.h"
#include "test.h"

static int parse(const char *text, const char *now, char id[64])
{
    AUTO_ARENA(arena, 1 << 20);
    struct str found = STR_NONE;
    int64_t now_us = 0;
    int r;

    CHECK_EQ(time_parse(str_of(now), &now_us, NULL), 0);
    r = renew_intent_parse(&arena, str_of(text), now_us, &found);
    CHECK_EQ(str_copy(id, 64, r == 0 ? found : STR("")), 0);
    return r;
}

#define INTENT                                                                                     \
    "{\"sandbox_id\":\"web\",\"observed_at\":\"2026-06-15T08:00:00.123456789Z\",\"port\":80}"

TEST(renew_queue, reads_intents_that_are_not_too_old)
{
    char id[64];

    CHECK_EQ(parse(INTENT, "2026-06-15T08:00:01Z", id), 0);
    CHECK_STR(id, "web");
    CHECK_EQ(parse(INTENT, "2026-06-15T08:05:00Z", id), 0);
    CHECK_EQ(parse(INTENT, "2026-06-15T08:05:01Z", id), -ETIME);
    CHECK_EQ(parse(INTENT, "2026-06-15T07:00:00Z", id), 0); /* a clock ahead of ours */
}

TEST(renew_queue, drops_what_is_no_intent)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "nonsense",
        "{\"sandbox_id\":\"web\"}",
        "{\"sandbox_id\":1,\"observed_at\":\"2026-06-15T08:00:00Z\"}",
        "{\"sandbox_id\":\"\",\"observed_at\":\"2026-06-15T08:00:00Z\"}",
        "{\"sandbox_id\":\"web\",\"observed_at\":\"yesterday\"}",
    };
    char id[64];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_EQ(parse(bad[i], "2026-06-15T08:00:01Z", id), -EBADMSG);
}
