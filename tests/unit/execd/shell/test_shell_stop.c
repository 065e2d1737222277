#include "base/time.h"
#include "execd/shell/shell_internal.h"
#include "test.h"

TEST(shell_stop, looks_ever_more_seldom_but_is_never_late)
{
    struct shell s = {
        .look_ms = 500,
        .kill_ns = 2000 * TIME_NS_PER_MS,
        .replace_ns = 5000 * TIME_NS_PER_MS,
        .patience_ns = 22000 * TIME_NS_PER_MS,
    };
    static const uint64_t steps_ms[][2] = {
        {1000,  1500 }, /* a look */
        {1500,  2000 }, /* which is a look and SIGKILL */
        {1700,  2000 }, /* earlier than a look */
        {2000,  2500 },
        {4999,  5000 }, /* the end of the shell, or */
        {5000,  5500 }, /* a look at one that is not let run */
        {21900, 22000},
    };

    for (size_t i = 0; i < ARRAY_LEN(steps_ms); i++)
        CHECK_EQ(shell_stop_next_ns(&s, steps_ms[i][0] * TIME_NS_PER_MS),
                 steps_ms[i][1] * TIME_NS_PER_MS);
}
