/* log_outputs.h - log.h to several places at once: lines of JSON, each with constant members, to
 * standard output, standard error and files that rotate (100 MiB each, ten kept for 30 days). */
#pragma once

#include "base/json_bind.h"
#include "base/log.h"

struct log_outputs_conf {
    struct str outputs; /* of OPENSANDBOX_LOG_OUTPUT: "stdout", "stderr", paths, by commas; "" =
                           stdout */
    enum log_level level;
    const char *area;                /* as in log_conf */
    const struct json_pair *members; /* of every line; those with an empty value are left out */
    size_t member_count;
};

/* Opens the outputs and calls log_init: once, before other threads start. -errno when a file cannot
 * be opened. */
int log_outputs_start(const struct log_outputs_conf *conf, struct err *e);
