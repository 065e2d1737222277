/* metrics.h - cpu and memory usage of the sandbox, and its limits.
 *
 * Reads files of the sandbox's own cgroup, which are passed in or found by metrics_group.h. Without
 * them it reads /proc, which describes the whole machine. Takes about 20 us; does not block. */
#pragma once

#include "base/err.h"
#include "base/str.h"

enum metrics_file {
    METRICS_MEMORY,      /* memory.current, or memory.usage_in_bytes */
    METRICS_MEMORY_STAT, /* memory.stat */
    METRICS_CPU,         /* cpu.stat, or cpuacct.usage */
    METRICS_FILES,
};

struct metrics_source {
    int fds[METRICS_FILES]; /* all or none; -EBADF = none, use /proc */
    uint64_t memory_bytes;  /* limit; 0 = the machine's */
    uint32_t cpu_millis;    /* limit, 1000 = one core; 0 = the machine's */
};
#define METRICS_OF_MACHINE                                                                         \
    {                                                                                              \
        .fds = { -EBADF, -EBADF, -EBADF }                                                          \
    }

struct metrics_point { /* cpu time used up to a moment */
    uint64_t at_ns;    /* CLOCK_MONOTONIC; 0 = none */
    uint64_t cpu_us;
};

struct metrics {
    double cpu_count, cpu_used_pct; /* percent of cpu_count; 0..100 */
    double mem_total_mib, mem_used_mib;
    int64_t timestamp_ms;
};

int metrics_take_point(const struct metrics_source *s, struct metrics_point *ret,
                       struct err *e) MUST_USE;
/* Computes cpu usage between two points and current memory usage. */
int metrics_measure(const struct metrics_source *s, const struct metrics_point *from,
                    const struct metrics_point *to, struct metrics *ret, struct err *e) MUST_USE;

/* --- parsers of the files --- */

/* CPU time in us: "usage_usec 12\n...", "12000\n" (ns), or "cpu  1 2 3 ..." (10 ms each; the fourth
 * and fifth are idle). -EINVAL for anything else. */
int metrics_parse_cpu(struct str text, uint64_t *ret_us) MUST_USE;
