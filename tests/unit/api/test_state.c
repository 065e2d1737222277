#include "api/state.h"

#include "test.h"

TEST(state, reads_the_names_it_writes)
{
    for (int i = 0; i < SANDBOX_STATE_COUNT; i++) {
        enum sandbox_state state = SANDBOX_STATE_COUNT;

        CHECK_EQ(sandbox_state_parse(str_of(sandbox_state_name((enum sandbox_state)i)), &state), 0);
        CHECK_EQ(state, i);
    }
}

TEST(state, reads_any_case_and_nothing_else)
{
    enum sandbox_state state = SANDBOX_STATE_COUNT;

    CHECK_EQ(sandbox_state_parse(STR("rUNNING"), &state), 0);
    CHECK_EQ(state, SANDBOX_RUNNING);
    CHECK_STR(sandbox_state_name(SANDBOX_TERMINATED), "Terminated");
    CHECK_EQ(sandbox_state_parse(STR(""), &state), -EINVAL);
    CHECK_EQ(sandbox_state_parse(STR("Unknown"), &state), -EINVAL);
    CHECK_EQ(sandbox_state_parse(STR("Running "), &state), -EINVAL);
}
