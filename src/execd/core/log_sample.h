/* log_sample.h - keeps a message that comes again and again from filling the log: of each, the
 * first LOG_SAMPLE_FIRST in a second are written, and then one in LOG_SAMPLE_THEN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum { LOG_SAMPLE_FIRST = 100, LOG_SAMPLE_THEN = 100, LOG_SAMPLE_SLOTS = 256 };

/* All zero is a valid start. A slot is its last message's: two that share one are counted from 1
 * when they take turns, so that none is missing because of another. */
struct log_sample {
    struct {
        uint64_t message; /* what stands for level and text */
        uint32_t second, count;
    } slots[LOG_SAMPLE_SLOTS];
};

/* Whether this one is to be written. `now_ns` is of the monotonic clock. */
bool log_sample_admit(struct log_sample *s, enum log_level level, const char *message,
                      uint64_t now_ns);
