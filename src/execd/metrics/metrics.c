#include "execd/metrics/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/time.h"
#include "execd/core/fields.h"

enum {
    TEXT_BYTES_MAX = 16 << 10,
    CPU_STAT_FIELDS = 8, /* user nice system idle iowait irq softirq steal */
    CPU_STAT_IDLE = 3,
    CPU_STAT_IOWAIT = 4,
    US_PER_TICK = 10000,
    NS_PER_US = 1000,
    MILLIS = 1000,
    BYTES_PER_KIB = 1024,
};
#define BYTES_PER_MIB 1048576.0

/* --- parsers --- */

static int parse_cpu_ticks(struct str line, uint64_t *ret_us)
{
    uint64_t busy = 0, ticks;
    struct str field;

    (void)str_cut(&line, ' ', &field); /* "cpu" */
    line = str_trim(line);
    for (int i = 0; i < CPU_STAT_FIELDS && str_cut(&line, ' ', &field); i++) {
        if (str_to_u64(field, &ticks) < 0)
            return -EINVAL;
        if (i != CPU_STAT_IDLE && i != CPU_STAT_IOWAIT)
            busy += ticks;
    }
    *ret_us = busy * US_PER_TICK;
    return 0;
}

int metrics_parse_cpu(struct str text, uint64_t *ret_us)
{
    struct str line = STR_NONE;
    uint64_t ns;
    int r;

    if (fields_find(text, "usage_usec", ret_us) == 0)
        return 0;
    (void)str_cut(&text, '\n', &line);
    if (str_starts(line, STR("cpu ")))
        return parse_cpu_ticks(line, ret_us);
    r = str_to_u64(line, &ns);
    if (r < 0)
        return -EINVAL;
    *ret_us = ns / NS_PER_US;
    return 0;
}

/* --- files --- */

static int read_given(const struct metrics_source *s, enum metrics_file file, char *out,
                      size_t size, struct str *ret, struct err *e)
{
    ssize_t n = pread(s->fds[file], out, size, 0);

    if (n < 0)
        return err_sys(e, errno, "control group");
    *ret = str_make(out, (size_t)n);
    return 0;
}

/* Reads a file of /proc, up to `size` bytes; the rest is not needed. */
static int read_proc(const char *path, char *out, size_t size, struct str *ret, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size);
    int error = errno;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err_sys(e, error, "%s", path);
    *ret = str_make(out, (size_t)n);
    return 0;
}

int metrics_take_point(const struct metrics_source *s, struct metrics_point *ret, struct err *e)
{
    char room[TEXT_BYTES_MAX];
    struct metrics_point point = {.at_ns = time_mono_ns()};
    struct str text;
    int r = s->fds[0] >= 0 ? read_given(s, METRICS_CPU, room, sizeof(room), &text, e)
                           : read_proc("/proc/stat", room, sizeof(room), &text, e);

    if (r < 0)
        return r;
    r = metrics_parse_cpu(text, &point.cpu_us);
    if (r < 0)
        return err_set(e, -r, "processor time makes no sense");
    *ret = point;
    return 0;
}

static int machine_memory(char *room, size_t size, uint64_t *ret_total, uint64_t *ret_used,
                          struct err *e)
{
    static const char *const free_rows[] = {"MemFree", "Buffers", "Cached", "SReclaimable"};
    uint64_t total, kib, free_kib = 0;
    struct str text;
    int r = read_proc("/proc/meminfo", room, size, &text, e);

    if (r < 0)
        return r;
    if (fields_find(text, "MemTotal", &total) < 0)
        return err_set(e, EINVAL, "/proc/meminfo names no MemTotal");
    for (size_t i = 0; i < ARRAY_LEN(free_rows); i++)
        if (fields_find(text, free_rows[i], &kib) == 0)
            free_kib += kib;
    *ret_total = total * BYTES_PER_KIB;
    *ret_used = (total - min_size(total, free_kib)) * BYTES_PER_KIB;
    return 0;
}

/* Charged memory, minus page cache that the kernel reclaims easily. */
static int group_memory(const struct metrics_source *s, char *room, size_t size, uint64_t *ret_used,
                        struct err *e)
{
    uint64_t charged, cache = 0;
    struct str text;
    int r = read_given(s, METRICS_MEMORY, room, size, &text, e);

    if (r < 0)
        return r;
    if (str_ends(text, STR("\n")))
        text.n--;
    if (str_to_u64(text, &charged) < 0)
        return err_set(e, EINVAL, "memory of the control group makes no sense");
    r = read_given(s, METRICS_MEMORY_STAT, room, size, &text, e);
    if (r < 0)
        return r;
    if (fields_find(text, "total_inactive_file", &cache) < 0 && /* v1, including descendants */
        fields_find(text, "inactive_file", &cache) < 0)
        cache = 0;
    *ret_used = charged - min_size(charged, cache);
    return 0;
}

static double cpu_count(const struct metrics_source *s)
{
    double online = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double limit = (double)s->cpu_millis / MILLIS;

    return limit > 0 && limit < online ? limit : online;
}

static double used_pct(const struct metrics_point *from, const struct metrics_point *to,
                       double cpus)
{
    double us = (double)(to->at_ns - from->at_ns) / NS_PER_US;
    double pct = us > 0 && to->cpu_us > from->cpu_us
                     ? 100.0 * (double)(to->cpu_us - from->cpu_us) / us / cpus
                     : 0;

    return pct > 100 ? 100 : pct;
}

int metrics_measure(const struct metrics_source *s, const struct metrics_point *from,
                    const struct metrics_point *to, struct metrics *ret, struct err *e)
{
    char room[TEXT_BYTES_MAX];
    uint64_t total, used;
    int r = machine_memory(room, sizeof(room), &total, &used, e);

    if (r >= 0 && s->fds[0] >= 0)
        r = group_memory(s, room, sizeof(room), &used, e);
    if (r < 0)
        return r;
    if (s->memory_bytes > 0)
        total = min_size(total, s->memory_bytes);
    used = min_size(used, total);
    *ret = (struct metrics){
        .cpu_count = cpu_count(s),
        .mem_total_mib = (double)total / BYTES_PER_MIB,
        .mem_used_mib = (double)used / BYTES_PER_MIB,
        .timestamp_ms = time_wall_us() / TIME_US_PER_MS,
    };
    ret->cpu_used_pct = used_pct(from, to, ret->cpu_count);
    return 0;
}
