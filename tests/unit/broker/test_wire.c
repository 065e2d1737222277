#include "broker/wire.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "test.h"

TEST(wire, knows_how_long_each_request_is)
{
    union broker_message *q = mem_new(union broker_message);

    q->op = BROKER_CONFIG;
    CHECK_EQ(broker_message_bytes(q, sizeof(*q)),
             offsetof(struct broker_request, config) + sizeof(struct broker_config));
    q->op = BROKER_SIGNAL;
    CHECK_EQ(broker_message_bytes(q, sizeof(*q)),
             offsetof(struct broker_request, config) + sizeof(struct broker_signal));
    q->op = BROKER_INFO; /* a head alone */
    CHECK_EQ(broker_message_bytes(q, sizeof(*q)), offsetof(struct broker_request, config));
    q->op = 0;
    CHECK_EQ(broker_message_bytes(q, sizeof(*q)), 0);
    q->op = BROKER_OP_COUNT;
    CHECK_EQ(broker_message_bytes(q, sizeof(*q)), 0);
    CHECK_EQ(broker_message_bytes(q, 1), 0);
    free(q);
}

TEST(wire, takes_a_plan_up_to_the_end_of_its_text)
{
    union broker_message *q = mem_new(union broker_message);
    size_t text = offsetof(struct broker_spawn, plan.text);

    q->op = BROKER_SPAWN;
    q->spawn.plan.text_bytes = 7;
    CHECK_EQ(broker_message_bytes(q, text + 7), text + 7);
    CHECK_EQ(broker_message_bytes(q, text), text + 7); /* too short, and it shows */
    CHECK_EQ(broker_message_bytes(q, text - 1), 0);    /* its length is not even there */
    q->spawn.plan.text_bytes = UINT32_MAX;             /* more than can ever come */
    CHECK(broker_message_bytes(q, sizeof(*q)) > sizeof(*q));
    free(q);
}
