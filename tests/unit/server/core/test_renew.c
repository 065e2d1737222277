#include "server/core/renew.h"

#include "base/time.h"
#include "test.h"

#define S TIME_US_PER_S

static const struct renew_facts used = {
    .now_us = 1000 * S,
    .expires_us = 1060 * S,
    .extend_s = 300,
    .min_interval_s = 30,
    .state = SANDBOX_RUNNING,
};

TEST(renew, extends_from_now)
{
    CHECK_EQ(renew_due(&used), 1300 * S);
}

TEST(renew, never_shortens_a_life)
{
    struct renew_facts f = used;

    f.expires_us = 1300 * S;
    CHECK_EQ(renew_due(&f), 0);
    f.expires_us = 5000 * S;
    CHECK_EQ(renew_due(&f), 0);
}

TEST(renew, is_for_those_that_asked_for_it_and_have_an_end)
{
    struct renew_facts f = used;

    f.extend_s = 0;
    CHECK_EQ(renew_due(&f), 0);
    f = used;
    f.expires_us = 0;
    CHECK_EQ(renew_due(&f), 0);
}

TEST(renew, does_not_wake_the_dead)
{
    struct renew_facts f = used;

    f.expires_us = f.now_us;
    CHECK_EQ(renew_due(&f), 0);
    f.expires_us = f.now_us - 1;
    CHECK_EQ(renew_due(&f), 0);
    f.expires_us = f.now_us + 1;
    CHECK_EQ(renew_due(&f), 1300 * S);
}

TEST(renew, is_for_running_sandboxes)
{
    for (int state = 0; state < SANDBOX_STATE_COUNT; state++) {
        struct renew_facts f = used;

        f.state = (enum sandbox_state)state;
        CHECK_EQ(renew_due(&f), state == SANDBOX_RUNNING ? 1300 * S : 0);
    }
}

TEST(renew, comes_once_per_interval)
{
    struct renew_facts f = used;

    f.renewed_us = f.now_us;
    CHECK_EQ(renew_due(&f), 0);
    f.renewed_us = f.now_us - 30 * S + 1;
    CHECK_EQ(renew_due(&f), 0);
    f.renewed_us = f.now_us - 30 * S;
    CHECK_EQ(renew_due(&f), 1300 * S);
    f.min_interval_s = 0;
    f.renewed_us = f.now_us;
    CHECK_EQ(renew_due(&f), 1300 * S);
}

TEST(renew, survives_a_clock_that_was_set_back)
{
    struct renew_facts f = used;

    f.renewed_us = f.now_us + 3600 * S;
    CHECK_EQ(renew_due(&f), 1300 * S);
}

TEST(renew, counts_in_64_bits)
{
    struct renew_facts f = used;

    f.extend_s = f.min_interval_s = UINT32_MAX;
    CHECK_EQ(renew_due(&f), (1000 + (int64_t)UINT32_MAX) * S);
    f.renewed_us = 1;
    CHECK_EQ(renew_due(&f), 0);
}
