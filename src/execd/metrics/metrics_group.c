#include "execd/metrics/metrics_group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"

enum {
    GROUP_PATH_MAX = 4096,
    GROUPS_TEXT_MAX = 8192,
    GROUP_LEVELS_MAX = 64,
    VALUE_MAX = 128,
    MILLIS = 1000,
};
/* Without a limit, v1 reports a number close to 2^63. */
#define MEMORY_LIMIT_MAX (UINT64_C(1) << 60)

/* Location of a file: controller hierarchy ("" = v2), directory below the root, file name. */
struct place {
    const char *controller, *folder, *name;
};

static const struct place places_v2[METRICS_FILES] = {
    [METRICS_MEMORY] = {"", "", "memory.current"},
    [METRICS_MEMORY_STAT] = {"", "", "memory.stat"   },
    [METRICS_CPU] = {"", "", "cpu.stat"      },
};
static const struct place places_v1[METRICS_FILES] = {
    [METRICS_MEMORY] = {"memory",  "/memory",  "memory.usage_in_bytes"},
    [METRICS_MEMORY_STAT] = {"memory",  "/memory",  "memory.stat"          },
    [METRICS_CPU] = {"cpuacct", "/cpuacct", "cpuacct.usage"        },
};
static const struct place cpu_limit_v1 = {"cpu", "/cpu", "cpu.cfs_quota_us"};

/* --- paths --- */

static bool names_controller(struct str list, const char *controller)
{
    struct str name;

    if (list.n == 0)
        return controller[0] == '\0';
    while (str_cut(&list, ',', &name))
        if (str_eq(name, str_of(controller)))
            return true;
    return false;
}

/* Finds the path of our group in a controller's hierarchy. Lines have the form
 * "5:cpu,cpuacct:/path". */
static bool find_path(struct str groups, const char *controller, struct str *ret)
{
    struct str line, number, names;

    while (str_cut(&groups, '\n', &line)) {
        if (!str_cut(&line, ':', &number) || !str_cut(&line, ':', &names) ||
            !names_controller(names, controller))
            continue;
        *ret = line;
        return true;
    }
    return false;
}

static int open_in(const struct buf *folder, const char *name)
{
    char path[GROUP_PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", folder->p, name);

    return n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -ENAMETOOLONG;
}

/* Opens the file of our group and writes the group's directory to `folder`; its first *ret_top
 * bytes are the hierarchy's. A container often sees its own group as the top. */
static int open_place(const struct place *p, const char *root, struct str groups,
                      struct buf *folder, size_t *ret_top)
{
    struct str path;
    int fd = -ENOENT;

    buf_clear(folder);
    if (!find_path(groups, p->controller, &path) || buf_addf(folder, "%s%s", root, p->folder) < 0)
        return -ENOENT;
    *ret_top = folder->n;
    if (path.n > 1 && !str_starts(path, STR("/..")) && buf_add(folder, path) == 0)
        fd = open_in(folder, p->name);
    if (fd < 0) {
        buf_cut(folder, *ret_top);
        fd = open_in(folder, p->name);
    }
    return fd;
}

/* --- limits --- */

static bool read_value(const struct buf *folder, const char *name, char out[VALUE_MAX],
                       struct str *ret)
{
    auto_fd fd = open_in(folder, name);
    ssize_t n = fd < 0 ? -1 : read(fd, out, VALUE_MAX);

    if (n <= 0)
        return false;
    *ret = str_make(out, (size_t)n - (out[n - 1] == '\n'));
    return true;
}

/* Limit of one group; 0 = none. */
static uint64_t memory_limit(const struct buf *folder)
{
    char room[VALUE_MAX];
    struct str text;
    uint64_t bytes = 0;

    if (!read_value(folder, "memory.max", room, &text) &&
        !read_value(folder, "memory.limit_in_bytes", room, &text))
        return 0;
    return str_to_u64(text, &bytes) == 0 && bytes < MEMORY_LIMIT_MAX ? bytes : 0;
}

/* Limit in thousandths of a CPU. Form: "50000 100000", or one file per number; "max" and -1 mean
 * none. */
static uint64_t cpu_limit(const struct buf *folder)
{
    char room[VALUE_MAX], more[VALUE_MAX];
    struct str quota, period;
    uint64_t used_us, of_us;

    if (read_value(folder, "cpu.max", room, &period)) {
        if (!str_cut(&period, ' ', &quota))
            return 0;
    } else if (!read_value(folder, "cpu.cfs_quota_us", room, &quota) ||
               !read_value(folder, "cpu.cfs_period_us", more, &period)) {
        return 0;
    }
    if (str_to_u64(quota, &used_us) < 0 || str_to_u64(period, &of_us) < 0 || of_us == 0 ||
        used_us > UINT32_MAX)
        return 0;
    return used_us * MILLIS / of_us;
}

/* The smallest limit of a group and its ancestors; 0 = none. Modifies `folder`. */
static uint64_t lowest_limit(struct buf *folder, size_t top, uint64_t (*read)(const struct buf *))
{
    uint64_t lowest = 0;

    for (int level = 0; level < GROUP_LEVELS_MAX; level++) {
        uint64_t limit = read(folder);
        size_t n = folder->n;

        lowest = limit && (lowest == 0 || limit < lowest) ? limit : lowest;
        while (n > top && folder->p[n - 1] != '/')
            n--;
        if (n <= top)
            break;
        buf_cut(folder, n - 1);
    }
    return lowest;
}

/* --- search --- */

/* Opens the files of one cgroup version and reads the limits. */
static bool find_version(struct metrics_source *s, const struct place places[METRICS_FILES],
                         const struct place *cpu, const char *root, struct str groups)
{
    AUTO_BUF(folder, GROUP_PATH_MAX);
    size_t top;

    for (int i = 0; i < METRICS_FILES; i++) {
        s->fds[i] = open_place(&places[i], root, groups, &folder, &top);
        if (s->fds[i] < 0)
            return false;
        if (i == METRICS_MEMORY && s->memory_bytes == 0)
            s->memory_bytes = lowest_limit(&folder, top, memory_limit);
    }
    if (s->cpu_millis == 0) {
        int fd = open_place(cpu, root, groups, &folder, &top);

        if (fd >= 0)
            s->cpu_millis = (uint32_t)lowest_limit(&folder, top, cpu_limit);
        fd_close(fd);
    }
    return s->memory_bytes > 0 || s->cpu_millis > 0;
}

bool metrics_find_group(struct metrics_source *s, const char *root, struct str groups)
{
    for (int version = 1; version <= 2; version++) {
        struct metrics_source found = METRICS_OF_MACHINE;

        found.memory_bytes = s->memory_bytes;
        found.cpu_millis = s->cpu_millis;
        if (find_version(&found, version == 1 ? places_v1 : places_v2,
                         version == 1 ? &cpu_limit_v1 : &places_v2[METRICS_CPU], root, groups)) {
            *s = found;
            return true;
        }
        for (int i = 0; i < METRICS_FILES; i++)
            fd_close(found.fds[i]);
    }
    return false;
}

bool metrics_find_own_group(struct metrics_source *s)
{
    char text[GROUPS_TEXT_MAX];
    auto_fd fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    return n > 0 && metrics_find_group(s, "/sys/fs/cgroup", str_make(text, (size_t)n));
}
