/* limits.h - resourceLimits: memory, disk, processors, as people write them. */
#pragma once

#include "api/fail.h"
#include "base/json_bind.h"

/* 0 = not asked for. */
struct api_limits {
    uint64_t memory_bytes, disk_bytes;
    uint32_t cpu_millicores;
    int32_t gpus; /* -1 = all */
};

/* "512Mi", "1g", " 5MB ", "100": a whole number and one of b, k, kb, ki and so on to t, in any
 * case; two letters with i count in 1024s, others in 1000s. "0.5", "2" and "500m" are cores; a part
 * of a millicore counts as one, so that little never turns into nothing. "all" and "2" are gpus.
 * -EINVAL for what is no such text or is zero, -ERANGE for what does not fit. */
int api_bytes_parse(struct str text, uint64_t *ret_bytes);
int api_millicores_parse(struct str text, uint32_t *ret_millicores);
int api_gpus_parse(struct str text, int32_t *ret_gpus);

/* Keys nobody knows are ignored; a known one whose value means nothing is refused by name. Of
 * several names for the disk, the smallest value counts. */
int api_limits_parse(const struct json_pair *pairs, size_t count, struct api_limits *ret,
                     struct api_fail *f);
