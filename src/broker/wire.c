#include "broker/wire.h"

#include <stddef.h>

#define HEAD          offsetof(struct broker_request, config)
#define PAYLOAD(type) (HEAD + sizeof(type))

static const size_t request_bytes[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = PAYLOAD(struct broker_config),
    [BROKER_SPAWN] = PAYLOAD(struct plan),
    [BROKER_OPEN] = PAYLOAD(struct broker_id),
    [BROKER_SIGNAL] = PAYLOAD(struct broker_signal),
    [BROKER_PAUSE] = PAYLOAD(struct broker_id),
    [BROKER_RESUME] = PAYLOAD(struct broker_id),
    [BROKER_STAT] = PAYLOAD(struct broker_id),
    [BROKER_LIST] = PAYLOAD(struct broker_list),
    [BROKER_REMOVE] = PAYLOAD(struct broker_id),
    [BROKER_SNAPSHOT] = PAYLOAD(struct broker_id),
    [BROKER_FILL] = PAYLOAD(struct broker_config),
    [BROKER_SWEEP] = PAYLOAD(struct broker_sweep),
    [BROKER_INFO] = HEAD,
    [BROKER_ERASE] = HEAD,
    [BROKER_MAKE_DIR] = PAYLOAD(struct broker_path),
};

size_t broker_request_bytes(const struct broker_request *request, size_t bytes)
{
    if (bytes < HEAD || request->op >= BROKER_OP_COUNT)
        return 0;
    if (request->op != BROKER_SPAWN)
        return request_bytes[request->op];
    return bytes < offsetof(struct broker_request, plan.text) ? 0
                                                              : HEAD + plan_bytes(&request->plan);
}
