#include "execd/log/log_sample.h"

enum { NS_PER_S = 1000000000 };

/* FNV-1a. */
static uint64_t message_hash(enum log_level level, const char *message)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)level;

    for (; *message; message++)
        h = (h ^ (unsigned char)*message) * UINT64_C(0x100000001b3);
    return h;
}

bool log_sample_admit(struct log_sample *s, enum log_level level, const char *message,
                      uint64_t now_ns)
{
    uint64_t hash = message_hash(level, message);
    uint32_t second = (uint32_t)(now_ns / NS_PER_S), count = 0;
    size_t slot = hash % LOG_SAMPLE_SLOTS;

    if (s->slots[slot].message == hash && s->slots[slot].second == second)
        count = s->slots[slot].count;
    s->slots[slot].message = hash;
    s->slots[slot].second = second;
    s->slots[slot].count = ++count;
    return count <= LOG_SAMPLE_FIRST || (count - LOG_SAMPLE_FIRST) % LOG_SAMPLE_THEN == 0;
}
