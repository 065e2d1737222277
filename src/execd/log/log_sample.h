/* log_sample.h - keeps a repeated message from filling the log: per second, the first
 * LOG_SAMPLE_FIRST of each message are written, then one in LOG_SAMPLE_THEN. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum { LOG_SAMPLE_FIRST = 100, LOG_SAMPLE_THEN = 100, LOG_SAMPLE_SLOTS = 256 };

/* All zero is a valid start. A slot counts its latest message: when two messages that share a slot
 * alternate, each restarts at 1, so neither suppresses the other. */
struct log_sample {
    struct {
        uint64_t message; /* hash of level and text */
        uint32_t second, count;
    } slots[LOG_SAMPLE_SLOTS];
};

/* Whether to write this message. `now_ns` is CLOCK_MONOTONIC. */
bool log_sample_admit(struct log_sample *s, enum log_level level, const char *message,
                      uint64_t now_ns);
