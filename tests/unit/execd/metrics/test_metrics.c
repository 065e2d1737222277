#include "execd/metrics/metrics.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

TEST(metrics, reads_processor_time_in_three_forms)
{
    static const struct {
        struct str text;
        int r;
        uint64_t us;
    } cases[] = {
        {STR_INIT("usage_usec 12\nuser_usec 5\n"),              0,       12    },
        {STR_INIT("nr_periods 1\nusage_usec 13\n"),             0,       13    },
        {STR_INIT("12345678\n"),                                0,       12345 },
        {STR_INIT("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1 1\n"), 0,       270000},
        {STR_INIT(""),                                          -EINVAL, 0     },
        {STR_INIT("cpu x"),                                     -EINVAL, 0     },
        {STR_INIT("nonsense\n"),                                -EINVAL, 0     },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t us = 0;

        CHECK_EQ(metrics_parse_cpu(cases[i].text, &us), cases[i].r);
        CHECK_EQ(us, cases[i].us);
    }
}

/* Files as a control group has them, under three numbers in a row. */
static struct metrics_source group_of(const char *memory, const char *stat, const char *cpu)
{
    const char *const texts[METRICS_FILES] = {memory, stat, cpu};
    struct metrics_source s = {
        .fds = {100, 101, 102},
          .memory_bytes = 64 << 20, .cpu_millis = 500
    };

    for (int i = 0; i < METRICS_FILES; i++) {
        int fd = memfd_create("metrics", MFD_CLOEXEC);

        CHECK_EQ(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
        CHECK_EQ(dup2(fd, s.fds[i]), s.fds[i]);
        close(fd);
    }
    return s;
}

TEST(metrics, measures_the_group_against_its_limits)
{
    struct metrics_source s =
        group_of("50331648\n", "anon 1\ninactive_file 16777216\n", "usage_usec 300000\n");
    struct metrics_point from = {1, 200000}, to;
    struct metrics m;

    CHECK_EQ(metrics_take_point(&s, &to, NULL), 0);
    CHECK_EQ(to.cpu_us, 300000);
    to.at_ns = from.at_ns + UINT64_C(1000000000);
    CHECK_EQ(metrics_measure(&s, &from, &to, &m, NULL), 0);
    CHECK(m.cpu_count == 0.5);
    CHECK(m.cpu_used_pct == 20); /* a tenth of a core, of half a core */
    CHECK(m.mem_total_mib == 64 && m.mem_used_mib == 32);
    CHECK(m.timestamp_ms > 0);
}

TEST(metrics, stays_within_its_bounds)
{
    struct metrics_source s = group_of("999999999999\n", "", "12\n");
    struct metrics_point from = {1000, 0}, to = {2000, 999999999}, back = {3000, 5};
    struct metrics m;

    CHECK_EQ(metrics_measure(&s, &from, &to, &m, NULL), 0);
    CHECK(m.cpu_used_pct == 100 && m.mem_used_mib == m.mem_total_mib);
    CHECK_EQ(metrics_measure(&s, &to, &back, &m, NULL), 0);
    CHECK(m.cpu_used_pct == 0);
    CHECK_EQ(metrics_measure(&s, &to, &to, &m, NULL), 0);
    CHECK(m.cpu_used_pct == 0);
}

TEST(metrics, tells_of_the_machine_without_a_group)
{
    struct metrics_source s = METRICS_OF_MACHINE;
    struct metrics_point a, b;
    struct metrics m;

    CHECK_EQ(metrics_take_point(&s, &a, NULL), 0);
    CHECK_EQ(metrics_take_point(&s, &b, NULL), 0);
    CHECK_EQ(metrics_measure(&s, &a, &b, &m, NULL), 0);
    CHECK(m.cpu_count >= 1 && m.mem_total_mib > 1 && m.mem_used_mib <= m.mem_total_mib);
}
