#include "broker/wire.h"

#include <stddef.h>

static const size_t payload_bytes[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = sizeof(struct broker_config), [BROKER_SPAWN] = sizeof(struct plan),
    [BROKER_OPEN] = sizeof(struct broker_id),       [BROKER_SIGNAL] = sizeof(struct broker_signal),
    [BROKER_PAUSE] = sizeof(struct broker_id),      [BROKER_RESUME] = sizeof(struct broker_id),
    [BROKER_STAT] = sizeof(struct broker_id),       [BROKER_LIST] = sizeof(struct broker_list),
    [BROKER_REMOVE] = sizeof(struct broker_id),     [BROKER_SNAPSHOT] = sizeof(struct broker_id),
    [BROKER_FILL] = sizeof(struct broker_config),   [BROKER_SWEEP] = sizeof(struct broker_sweep),
};

size_t broker_request_bytes(const struct broker_request *request, size_t bytes)
{
    size_t head = offsetof(struct broker_request, config);

    if (bytes < head || request->op >= BROKER_OP_COUNT || payload_bytes[request->op] == 0)
        return 0;
    if (request->op != BROKER_SPAWN)
        return head + payload_bytes[request->op];
    return bytes < offsetof(struct broker_request, plan.text) ? 0
                                                              : head + plan_bytes(&request->plan);
}
