#include "execd/metrics/metrics_group.h"

#include <errno.h>

#include "folder.h"

static void folders_make(const char *const names[])
{
    for (size_t i = 0; names[i]; i++)
        CHECK_EQ(mkdir(names[i], 0755), 0);
}

static void source_close(struct metrics_source *s)
{
    for (int i = 0; i < METRICS_FILES; i++)
        fd_close(s->fds[i]);
}

/* The first bytes of a file that was found. */
static const char *content(const struct metrics_source *s, enum metrics_file file)
{
    static char text[64];
    ssize_t n = pread(s->fds[file], text, sizeof(text) - 1, 0);

    CHECK(n >= 0);
    text[n] = '\0';
    return text;
}

TEST(metrics_group, finds_its_own_in_v2_and_the_lowest_limits_above)
{
    AUTO_FOLDER(f);
    struct metrics_source s = METRICS_OF_MACHINE;

    folders_make((const char *const[]){"a", "a/b", NULL});
    file_write("a/memory.max", "1000000\n");
    file_write("a/cpu.max", "150000 100000\n");
    file_write("a/b/memory.current", "77\n");
    file_write("a/b/memory.stat", "inactive_file 7\n");
    file_write("a/b/cpu.stat", "usage_usec 5\n");
    file_write("a/b/memory.max", "max\n");
    file_write("a/b/cpu.max", "max 100000\n");
    CHECK(metrics_find_group(&s, f.path, STR("0::/a/b\n")));
    CHECK_EQ(s.memory_bytes, 1000000);
    CHECK_EQ(s.cpu_millis, 1500);
    CHECK_STR(content(&s, METRICS_MEMORY), "77\n");
    CHECK_STR(content(&s, METRICS_CPU), "usage_usec 5\n");
    source_close(&s);
}

TEST(metrics_group, takes_the_top_where_its_path_cannot_be_seen)
{
    AUTO_FOLDER(f);
    struct metrics_source s = METRICS_OF_MACHINE;

    file_write("memory.current", "1\n");
    file_write("memory.stat", "x 1\n");
    file_write("cpu.stat", "usage_usec 1\n");
    file_write("memory.max", "4096\n");
    CHECK(metrics_find_group(&s, f.path, STR("0::/docker/0123\n")));
    CHECK_EQ(s.memory_bytes, 4096);
    CHECK_EQ(s.cpu_millis, 0);
    source_close(&s);
    s = (struct metrics_source)METRICS_OF_MACHINE;
    CHECK(metrics_find_group(&s, f.path, STR("0::/../..\n")));
    source_close(&s);
}

TEST(metrics_group, finds_its_own_in_v1)
{
    AUTO_FOLDER(f);
    struct metrics_source s = METRICS_OF_MACHINE;

    folders_make(
        (const char *const[]){"memory", "memory/m", "cpu", "cpu/c", "cpuacct", "cpuacct/c", NULL});
    file_write("memory/m/memory.usage_in_bytes", "5\n");
    file_write("memory/m/memory.stat", "total_inactive_file 1\n");
    file_write("memory/m/memory.limit_in_bytes", "9223372036854771712\n");
    file_write("cpuacct/c/cpuacct.usage", "123\n");
    file_write("cpu/c/cpu.cfs_quota_us", "50000\n");
    file_write("cpu/c/cpu.cfs_period_us", "100000\n");
    CHECK(metrics_find_group(&s, f.path,
                             STR("9:name=systemd:/x\n4:memory:/m\n2:cpu,cpuacct:/c\n0::/\n")));
    CHECK_EQ(s.memory_bytes, 0);
    CHECK_EQ(s.cpu_millis, 500);
    CHECK_STR(content(&s, METRICS_MEMORY), "5\n");
    source_close(&s);
    file_write("memory/m/memory.limit_in_bytes", "1048576\n");
    s = (struct metrics_source){
        .fds = {-EBADF, -EBADF, -EBADF},
          .cpu_millis = 250
    };
    CHECK(metrics_find_group(&s, f.path, STR("4:memory:/m\n2:cpuacct,cpu:/c\n")));
    CHECK_EQ(s.memory_bytes, 1048576);
    CHECK_EQ(s.cpu_millis, 250); /* what was given counts */
    source_close(&s);
}

TEST(metrics_group, leaves_the_machine_where_nothing_is_limited)
{
    AUTO_FOLDER(f);
    struct metrics_source s = METRICS_OF_MACHINE;

    CHECK(!metrics_find_group(&s, f.path, STR("0::/\n")));
    CHECK(!metrics_find_group(&s, f.path, STR("nonsense\n:::\n4:memory\n\n")));
    file_write("memory.current", "1\n");
    file_write("memory.stat", "x 1\n");
    file_write("cpu.stat", "usage_usec 1\n");
    file_write("cpu.max", "max 100000\n");
    CHECK(!metrics_find_group(&s, f.path, STR("0::/\n")));
    CHECK_EQ(s.fds[0], -EBADF);
    CHECK_EQ(s.memory_bytes, 0);
}
