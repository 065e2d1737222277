#include "broker/wire.h"

#include <assert.h>
#include <stddef.h>

#define HEAD          offsetof(struct broker_request, config)
#define PAYLOAD(type) (HEAD + sizeof(type))

static const size_t request_bytes[BROKER_OP_COUNT] = {
    [BROKER_CONFIG] = PAYLOAD(struct broker_config),
    [BROKER_OPEN] = PAYLOAD(struct broker_id),
    [BROKER_SIGNAL] = PAYLOAD(struct broker_signal),
    [BROKER_PAUSE] = PAYLOAD(struct broker_id),
    [BROKER_RESUME] = PAYLOAD(struct broker_id),
    [BROKER_STAT] = PAYLOAD(struct broker_id),
    [BROKER_LIST] = PAYLOAD(struct broker_list),
    [BROKER_REMOVE] = PAYLOAD(struct broker_id),
    [BROKER_SNAPSHOT] = PAYLOAD(struct broker_snapshot),
    [BROKER_FILL] = PAYLOAD(struct broker_config),
    [BROKER_SWEEP] = PAYLOAD(struct broker_sweep),
    [BROKER_INFO] = HEAD,
    [BROKER_ERASE] = PAYLOAD(struct broker_path),
    [BROKER_REACH] = PAYLOAD(struct broker_path),
    [BROKER_UNPACK] = PAYLOAD(struct unpack_limits),
    [BROKER_MERGE] = PAYLOAD(struct broker_merge),
    [BROKER_MEASURE] = HEAD,
    [BROKER_LEARN] = PAYLOAD(struct broker_learn),
    [BROKER_TRAFFIC] = PAYLOAD(struct broker_id),
    [BROKER_DENIED] = HEAD,
    [BROKER_OBJECTS] = PAYLOAD(struct objects_spec),
};

static_assert(HEAD == offsetof(struct broker_spawn, plan), "one head for all");
static_assert(HEAD == offsetof(struct broker_policy, id), "one head for all");

size_t broker_request_bytes(const struct broker_request *request)
{
    return request->op < BROKER_OP_COUNT ? request_bytes[request->op] : 0;
}

size_t broker_message_bytes(const union broker_message *message, size_t bytes)
{
    if (bytes < sizeof(message->op))
        return 0;
    if (message->op == BROKER_POLICY)
        return bytes < offsetof(struct broker_policy, policy.entries)
                   ? 0
                   : broker_policy_bytes(&message->policy.policy);
    if (message->op != BROKER_SPAWN)
        return broker_request_bytes(&message->request);
    return bytes < offsetof(struct broker_spawn, plan.text)
               ? 0
               : broker_spawn_bytes(&message->spawn.plan);
}
