/* state.h - the states of a sandbox as the API names them. */
#pragma once

#include "base/str.h"

enum sandbox_state {
    SANDBOX_PENDING,
    SANDBOX_RUNNING,
    SANDBOX_PAUSING,
    SANDBOX_PAUSED,
    SANDBOX_RESUMING,
    SANDBOX_STOPPING,
    SANDBOX_TERMINATED, /* its entrypoint ended with status 0 */
    SANDBOX_FAILED,     /* it never ran, or ended with another status */
    SANDBOX_ALLOCATED,  /* on Kubernetes: it has an address, and may run */
    SANDBOX_STATE_COUNT,
};

#define STATE_BIT(state) (1U << (state))

const char *sandbox_state_name(enum sandbox_state state);                /* "Running" */
int sandbox_state_parse(struct str name, enum sandbox_state *ret_state); /* any case; -EINVAL */
