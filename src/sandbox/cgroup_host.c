/* The host's hierarchies: read from /proc, then tested with a temporary group. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "sandbox/cgroup_internal.h"

#define PROBE "probe." /* followed by the pid of the testing process */

enum {
    /* Weight of all sandboxes together; a service of the host has 100 (cpu.weight of v2, 1024
     * cpu.shares of v1). */
    ALL_CPU_WEIGHT = 50,
};
enum { PROC_BYTES_MAX = 1 << 20, NAME_BYTES_MAX = 48 };

static int mounts_read(struct cgroup_mounts *ret, struct err *e)
{
    AUTO_BUF(mountinfo, PROC_BYTES_MAX);
    AUTO_BUF(groups, PROC_BYTES_MAX);
    int r;

    r = io_read_file(AT_FDCWD, "/proc/self/mountinfo", PROC_BYTES_MAX, &mountinfo, e);
    if (r >= 0)
        r = io_read_file(AT_FDCWD, "/proc/self/cgroup", PROC_BYTES_MAX, &groups, e);
    if (r >= 0)
        cgroup_mounts_parse(buf_str(&mountinfo), buf_str(&groups), ret);
    return r;
}

int cgroup_place_at(struct cgroup_hierarchy *ret, struct err *e)
{
    int fd;

    if (mkdir(ret->path, 0755) < 0 && errno != EEXIST)
        return err_sys(e, errno, "mkdir %s", ret->path);
    fd = fd_open_at(AT_FDCWD, ret->path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (fd < 0)
        return fd;
    ret->root_fd = fd;
    return 0;
}

/* Skips hierarchies that we may not use; `e` keeps the reason, in case one is needed. */
static void host_place(struct cgroup_host *h, const struct cgroup_mounts *all, const char *name,
                       unsigned versions, struct err *e)
{
    for (int version = 2; version >= 1; version--)
        for (size_t i = 0; i < all->count && h->count < CGROUP_HIERARCHIES_MAX; i++) {
            bool is_v2 = all->at[i].version == &cgroup_v2;

            if ((version == 2) != is_v2 || !(versions & 1U << version))
                continue;
            if ((is_v2 ? cgroup_v2_place : cgroup_v1_place)(&all->at[i], name,
                                                            &h->hierarchies[h->count], e) >= 0)
                h->count++;
        }
}

static const struct {
    enum cgroup_knob knob;
    enum cgroup_ability ability;
} knob_abilities[] = {
    {KNOB_MEMORY_MAX,    CGROUP_MEMORY   },
    {KNOB_CPU_MAX,       CGROUP_CPU      },
    {KNOB_PIDS_MAX,      CGROUP_PIDS     },
    {KNOB_IO_WEIGHT,     CGROUP_IO       },
    {KNOB_IO_WEIGHT_BFQ, CGROUP_IO       },
    {KNOB_FREEZE,        CGROUP_FREEZE   },
    {KNOB_KILL,          CGROUP_KILL     },
    {KNOB_OOM_GROUP,     CGROUP_OOM_GROUP},
    {KNOB_RECLAIM,       CGROUP_RECLAIM  },
    {KNOB_SWAP_MAX,      CGROUP_SWAP     },
};

static void host_bind_knob(struct cgroup_host *h, enum cgroup_knob k, const char *group)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct cgroup_hierarchy *y = &h->hierarchies[i];
        struct cgroup_bound b = {y, &y->version->files[k]};

        if (!b.file->name ||
            (b.file->controller != CONTROLLER_CORE && !(y->controllers & 1U << b.file->controller)))
            continue;
        if (cgroup_knob_works(&b, group)) {
            h->knobs[k] = b;
            return;
        }
    }
}

/* A kernel with BFQ accepts its weight, but only disks that use BFQ respect it. */
static bool host_uses_bfq(void)
{
    glob_t found = {0};
    bool uses = false;

    if (glob("/sys/block/*/queue/scheduler", 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && !uses; i++) {
        AUTO_BUF(text, 4096);

        if (io_read_file(AT_FDCWD, found.gl_pathv[i], 4096, &text, NULL) >= 0)
            uses = str_find_str(buf_str(&text), STR("[bfq]")) < text.n;
    }
    globfree(&found);
    return uses;
}

static bool host_has_swap(void)
{
    AUTO_BUF(swaps, PROC_BYTES_MAX);

    if (io_read_file(AT_FDCWD, "/proc/swaps", PROC_BYTES_MAX, &swaps, NULL) < 0)
        return false; /* a kernel without swap has no such file */
    return str_find(buf_str(&swaps), '\n') + 1 < swaps.n;
}

/* Starts a process in the group, which exits at once. */
static bool clone_into_works(int group_fd)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)group_fd};
    int status = -1;
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid == 0)
        _exit(0);
    return pid > 0 && waitpid((pid_t)pid, &status, 0) == pid && status == 0;
}

static void host_bind(struct cgroup_host *h, const char *probe, unsigned lacks)
{
    char init[CGROUP_PATH_MAX], work[CGROUP_PATH_MAX];

    snprintf(init, sizeof(init), "%s/init", probe);
    snprintf(work, sizeof(work), "%s/work", probe);
    for (int k = 0; k < KNOB_COUNT; k++)
        if (k != KNOB_IO_WEIGHT_BFQ || host_uses_bfq())
            host_bind_knob(h, k, work);
    for (size_t i = 0; i < ARRAY_LEN(knob_abilities); i++) {
        struct cgroup_bound *b = &h->knobs[knob_abilities[i].knob];

        if (lacks & knob_abilities[i].ability)
            *b = (struct cgroup_bound){0};
        if (b->y)
            h->abilities |= knob_abilities[i].ability;
    }
    if (!host_has_swap())
        h->abilities |= CGROUP_SWAP;
    /* In "init": Linux 6.14 and later kill processes that start in a group that was ever killed,
     * and the test of cgroup.kill did that to "work". */
    if (h->hierarchies[0].version == &cgroup_v2 && !(lacks & CGROUP_INTO)) {
        auto_fd fd =
            fd_open_at(h->hierarchies[0].root_fd, init, O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);

        if (fd >= 0 && clone_into_works(fd))
            h->abilities |= CGROUP_INTO;
    }
}

static void hierarchy_close(struct cgroup_hierarchy *y)
{
    fd_close(y->root_fd);
    free(y->path);
}

/* Whether the hierarchy has a knob that is set in "work", not in the whole slot. */
static bool limits_work(const struct cgroup_host *h, const struct cgroup_hierarchy *y)
{
    for (size_t k = 0; k <= KNOB_IO_WEIGHT_BFQ; k++)
        if (h->knobs[k].y == y)
            return true;
    return false;
}

/* Drops hierarchies without a bound knob: each costs three groups per sandbox, and a move per
 * process. */
static void host_drop_idle(struct cgroup_host *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->count; i++) {
        struct cgroup_hierarchy *from = &h->hierarchies[i], *to = &h->hierarchies[kept];
        bool used = false;

        for (size_t k = 0; k < KNOB_COUNT; k++) {
            if (h->knobs[k].y != from)
                continue;
            h->knobs[k].y = to;
            used = true;
        }
        if (!used) {
            rmdir(from->path);
            hierarchy_close(from);
            continue;
        }
        *to = *from;
        to->limits_work = limits_work(h, to);
        kept++;
    }
    h->count = kept;
}

/* "v2 at /sys/fs/cgroup/opensandbox", "hybrid: freeze on v2, memory on v1, ..." */
static void host_describe(struct cgroup_host *h)
{
    static const struct {
        enum cgroup_knob knob;
        const char *name;
    } parts[] = {
        {KNOB_FREEZE,     "freezing"},
        {KNOB_KILL,       "killing" },
        {KNOB_MEMORY_MAX, "memory"  },
        {KNOB_CPU_MAX,    "cpu"     },
        {KNOB_PIDS_MAX,   "pids"    },
        {KNOB_IO_WEIGHT,  "io"      },
    };
    const struct cgroup_version *first = h->hierarchies[0].version;
    size_t n = 0, size = sizeof(h->description);

    if (first == h->hierarchies[h->count - 1].version) {
        snprintf(h->description, size, "%s", first->name);
        return;
    }
    n = (size_t)snprintf(h->description, size, "hybrid:");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const struct cgroup_bound *b = &h->knobs[parts[i].knob];

        if (b->y)
            n += (size_t)snprintf(h->description + n, size - n, "%s %s on %s",
                                  h->description[n - 1] == ':' ? "" : ",", parts[i].name,
                                  b->y->version->name);
    }
}

static int host_check(const struct cgroup_host *h, struct err *e)
{
    static const struct {
        enum cgroup_ability ability;
        const char *name, *remedy;
    } needed[] = {
        {CGROUP_MEMORY, "memory limits",  "boot with cgroup_enable=memory"                 },
        {CGROUP_PIDS,   "process limits", "use a kernel with CONFIG_CGROUP_PIDS"           },
        {CGROUP_FREEZE, "freezing",       "use Linux 5.2 or later, or mount the v1 freezer"},
    };

    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (h->abilities & needed[i].ability)
            continue;
        if (e && e->code) /* why a hierarchy could not be used */
            return err_wrap(e, -e->code, "no %s by control groups", needed[i].name);
        return err_set(e, ENOTSUP, "no %s by control groups: %s", needed[i].name, needed[i].remedy);
    }
    return 0;
}

/* Removes test groups of processes that died during the test. */
static void host_clear_probes(const struct cgroup_host *h)
{
    int fd = openat(h->hierarchies[0].root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;
    uint64_t pid;

    if (!dir) {
        fd_close(fd);
        return;
    }
    while ((d = readdir(dir))) {
        struct str name = str_of(d->d_name);

        if (str_starts(name, STR(PROBE)) &&
            str_to_u64_range(str_skip(name, sizeof(PROBE) - 1), 1, INT_MAX, &pid) >= 0 &&
            kill((pid_t)pid, 0) < 0 && errno == ESRCH)
            cgroup_tree_remove(h, d->d_name, NULL);
    }
    closedir(dir);
}

/* The group with our name, which has all sandboxes, competes with the host's services. */
static int host_weigh(const struct cgroup_host *h, struct err *e)
{
    const struct cgroup_bound *b = &h->knobs[KNOB_CPU_WEIGHT];

    return b->y ? cgroup_knob_write(b, ".", -EBADF, ALL_CPU_WEIGHT, e) : 0;
}

static int host_probe(struct cgroup_host *h, unsigned lacks, struct err *e)
{
    char probe[CGROUP_NAME_MAX];
    int r;

    snprintf(probe, sizeof(probe), PROBE "%d", (int)getpid());
    host_clear_probes(h);
    r = cgroup_tree_make(h, probe, NULL, e);
    if (r < 0)
        return r;
    host_bind(h, probe, lacks);
    r = cgroup_tree_remove(h, probe, e);
    if (r < 0)
        return r;
    host_drop_idle(h);
    return host_weigh(h, e);
}

static bool name_is_valid(struct str name)
{
    return name.n > 0 && name.n < NAME_BYTES_MAX && name.p[0] != '.' &&
           str_find(name, '/') == name.n;
}

int cgroup_host_open_as(const char *name, unsigned versions, unsigned lacks,
                        struct cgroup_host **ret_host, struct err *e)
{
    struct cgroup_mounts all = {0};
    struct err why = {0};
    struct cgroup_host *h;
    int r;

    if (!name_is_valid(str_skip(str_of(name), name[0] == '/')))
        return err_set(e, EINVAL, "'%.60s' cannot name control groups", name);
    h = mem_new(struct cgroup_host);
    r = mounts_read(&all, e);
    if (r >= 0)
        host_place(h, &all, name, versions, &why);
    if (r >= 0 && h->count == 0)
        r = why.code ? -why.code : err_set(&why, ENOTSUP, "no cgroup file system is mounted");
    if (r >= 0)
        r = host_probe(h, lacks, &why);
    if (r >= 0)
        r = host_check(h, &why);
    cgroup_mounts_done(&all);
    if (r < 0) {
        cgroup_host_remove(h, NULL); /* fails while another process uses it */
        cgroup_host_close(h);
        if (e && why.code)
            *e = why;
        return r;
    }
    host_describe(h);
    *ret_host = h;
    return 0;
}

int cgroup_host_open(const char *name, struct cgroup_host **ret_host, struct err *e)
{
    return cgroup_host_open_as(name, ~0U, 0, ret_host, e);
}

void cgroup_host_close(struct cgroup_host *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->count; i++)
        hierarchy_close(&h->hierarchies[i]);
    free(h);
}

int cgroup_host_remove(const struct cgroup_host *h, struct err *e)
{
    for (size_t i = 0; i < h->count; i++)
        if (rmdir(h->hierarchies[i].path) < 0 && errno != ENOENT)
            return err_sys(e, errno, "rmdir %s", h->hierarchies[i].path);
    return 0;
}

unsigned cgroup_host_abilities(const struct cgroup_host *h)
{
    return h->abilities;
}

const char *cgroup_host_describe(const struct cgroup_host *h)
{
    return h->description;
}
