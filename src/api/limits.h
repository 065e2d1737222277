/* limits.h - resourceLimits: memory, disk, CPUs and GPUs in their text forms. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

/* 0 = not given. */
struct api_limits {
    uint64_t memory_bytes, disk_bytes;
    uint32_t cpu_millicores;
    int32_t gpus; /* -1 = all */
};

/* Bytes: "512Mi", "1g", " 5MB ", "100": an integer and one of b, k, kb, ki and so on to t, in any
 * case; units with i are powers of 1024, others of 1000. CPUs: "0.5", "2", "500m"; a fraction of a
 * millicore is rounded up, so that the result is never 0. GPUs: "all", "2". -EINVAL for other text
 * or zero, -ERANGE for what does not fit. */
int api_bytes_parse(struct str text, uint64_t *ret_bytes);
int api_millicores_parse(struct str text, uint32_t *ret_millicores);
int api_gpus_parse(struct str text, int32_t *ret_gpus);

/* Unknown keys are ignored; an invalid value of a known key is refused by name. Of several keys for
 * the disk, the smallest value counts. */
int api_limits_parse(const struct json_pair *pairs, size_t count, struct api_limits *ret,
                     struct api_fail *f);
