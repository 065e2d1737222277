#include "execd/log/log_sample.h"

#include "test.h"

static unsigned admitted(struct log_sample *s, const char *message, unsigned count, uint64_t now_ns)
{
    unsigned n = 0;

    for (unsigned i = 0; i < count; i++)
        n += log_sample_admit(s, LOG_INFO, message, now_ns);
    return n;
}

TEST(log_sample, admits_some_of_many_per_second)
{
    struct log_sample s = {0};
    uint64_t second = 1000000000;

    CHECK_EQ(admitted(&s, "a", 100, 7 * second), 100);
    CHECK_EQ(admitted(&s, "a", 99, 7 * second), 0);
    CHECK_EQ(admitted(&s, "a", 1, 8 * second - 1), 1);
    CHECK_EQ(admitted(&s, "a", 1000, 7 * second), 10);
    CHECK_EQ(admitted(&s, "a", 150, 8 * second), 100);
}

TEST(log_sample, tells_messages_and_levels_apart)
{
    struct log_sample s = {0};

    CHECK_EQ(admitted(&s, "a", 150, 1), 100);
    CHECK_EQ(admitted(&s, "b", 150, 1), 100);
    CHECK(!log_sample_admit(&s, LOG_INFO, "a", 1));
    CHECK(log_sample_admit(&s, LOG_ERROR, "a", 1));
}
