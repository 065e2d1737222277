#include "api/state.h"

#include <assert.h>
#include <errno.h>

static const char *const state_names[] = {
    [SANDBOX_PENDING] = "Pending",       [SANDBOX_RUNNING] = "Running",
    [SANDBOX_PAUSING] = "Pausing",       [SANDBOX_PAUSED] = "Paused",
    [SANDBOX_RESUMING] = "Resuming",     [SANDBOX_STOPPING] = "Stopping",
    [SANDBOX_TERMINATED] = "Terminated", [SANDBOX_FAILED] = "Failed",
    [SANDBOX_ALLOCATED] = "Allocated",
};
static_assert(ARRAY_LEN(state_names) == SANDBOX_STATE_COUNT, "every state has a name");

const char *sandbox_state_name(enum sandbox_state state)
{
    assert(state < SANDBOX_STATE_COUNT);
    return state_names[state];
}

int sandbox_state_parse(struct str name, enum sandbox_state *ret_state)
{
    for (size_t i = 0; i < ARRAY_LEN(state_names); i++)
        if (str_eq_nocase(name, str_of(state_names[i]))) {
            *ret_state = (enum sandbox_state)i;
            return 0;
        }
    return -EINVAL;
}
