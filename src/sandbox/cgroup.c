#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "base/time.h"
#include "sandbox/cgroup_internal.h"

enum {
    INIT_MEMORY_BYTES = 64 << 20, /* plus what it may write into /tmp and /dev/shm */
    TMPFS_BYTES = 64 << 20,       /* of each, unless the plan sets it */
    INIT_PIDS = 64,               /* execd's children start in its group and then move */
    INIT_CPU_WEIGHT = 1000,       /* ten times that of the workload */
    WORK_PIDS_PER_MIB = 2,        /* of memory; unless the plan limits processes */
    WORK_PIDS_MIN = 128,
    WORK_PIDS_MAX = 1024,
    FREEZE_TO_KILL_MS = 100,
    KILL_AGAIN_MS = 1000, /* processes that still run are signalled again */
};

static void slot_name(uint32_t slot, char name[CGROUP_NAME_MAX])
{
    snprintf(name, CGROUP_NAME_MAX, "%u", slot);
}

static void group_path(uint32_t slot, const char *leaf, char path[CGROUP_PATH_MAX])
{
    snprintf(path, CGROUP_PATH_MAX, "%u/%s", slot, leaf);
}

struct cgroup cgroup_at(const struct cgroup_host *h, uint32_t slot)
{
    struct cgroup c = {
        .host = h, .slot = slot, .init_fd = -EBADF, .work_fd = -EBADF, .ns_fd = -EBADF};

    for (size_t i = 0; i < CGROUP_LIMIT_COUNT; i++)
        c.limit_fds[i] = -EBADF;
    return c;
}

/* Opens the file by which processes enter, and counts it. */
static int open_members(const struct cgroup_hierarchy *y, uint32_t slot, const char *leaf, int *fds,
                        size_t *count, struct err *e)
{
    char group[CGROUP_PATH_MAX];
    int fd;

    group_path(slot, leaf, group);
    fd = cgroup_file_open(y, group, y->version->members, O_WRONLY, e);
    if (fd >= 0)
        fds[(*count)++] = fd;
    return fd;
}

static enum cgroup_knob limit_knob(const struct cgroup_host *h, enum cgroup_limit_file file)
{
    static const enum cgroup_knob knobs[] = {
        [CGROUP_LIMIT_MEMORY] = KNOB_MEMORY_MAX, [CGROUP_LIMIT_SWAP] = KNOB_SWAP_MAX,
        [CGROUP_LIMIT_PIDS] = KNOB_PIDS_MAX,     [CGROUP_LIMIT_CPU] = KNOB_CPU_MAX,
        [CGROUP_LIMIT_IO] = KNOB_IO_WEIGHT,
    };

    if (file == CGROUP_LIMIT_IO && !h->knobs[KNOB_IO_WEIGHT].y)
        return KNOB_IO_WEIGHT_BFQ;
    return knobs[file];
}

static int open_limits(struct cgroup *c, struct err *e)
{
    char work[CGROUP_PATH_MAX];

    group_path(c->slot, "work", work);
    for (size_t i = 0; i < CGROUP_LIMIT_COUNT; i++) {
        const struct cgroup_bound *b = &c->host->knobs[limit_knob(c->host, i)];

        if (!b->y)
            continue;
        c->limit_fds[i] = cgroup_file_open(b->y, work, b->file->name, O_WRONLY, e);
        if (c->limit_fds[i] < 0)
            return c->limit_fds[i];
    }
    return 0;
}

static int open_usage(struct cgroup *c, struct err *e)
{
    const struct cgroup_bound *memory = &c->host->knobs[KNOB_MEMORY_NOW];
    const struct cgroup_bound *cpu = &c->host->knobs[KNOB_CPU_USED];
    const struct cgroup_bound *oom = &c->host->knobs[KNOB_OOM_KILLS];
    char group[CGROUP_PATH_MAX];

    if (!memory->y || !cpu->y || !oom->y)
        return 0;
    const struct {
        const struct cgroup_hierarchy *y;
        const char *name, *leaf;
    } files[CGROUP_USAGE_COUNT] = {
        [CGROUP_USAGE_MEMORY] = {memory->y, memory->file->name, "."   },
        [CGROUP_USAGE_MEMORY_STAT] = {memory->y, "memory.stat",      "."   },
        [CGROUP_USAGE_CPU] = {cpu->y,    cpu->file->name,    "."   },
        [CGROUP_USAGE_OOM] = {oom->y,    oom->file->name,    "work"},
    };

    for (size_t i = 0; i < CGROUP_USAGE_COUNT; i++) {
        int fd;

        group_path(c->slot, files[i].leaf, group);
        fd = cgroup_file_open(files[i].y, group, files[i].name, O_RDONLY, e);
        if (fd < 0)
            return fd;
        c->usage_fds[c->usage_count++] = fd;
    }
    return 0;
}

static int open_groups(struct cgroup *c, struct err *e)
{
    const struct cgroup_host *h = c->host;
    int r;

    for (size_t i = 0; i < h->count; i++) {
        const struct cgroup_hierarchy *y = &h->hierarchies[i];

        r = open_members(y, c->slot, "init", c->init_procs, &c->init_count, e);
        if (r >= 0 && y->limits_work)
            r = open_members(y, c->slot, "work", c->work_procs, &c->work_count, e);
        if (r < 0)
            return r;
    }
    if (h->abilities & CGROUP_INTO) {
        char init[CGROUP_PATH_MAX];

        slot_name(c->slot, init);
        c->init_fd = cgroup_file_open(&h->hierarchies[0], init, "init", O_PATH | O_DIRECTORY, e);
        if (c->init_fd < 0)
            return c->init_fd;
    }
    r = open_usage(c, e);
    return r < 0 ? r : open_limits(c, e);
}

int cgroup_open(const struct cgroup_host *h, uint32_t slot, struct cgroup *ret, struct err *e)
{
    struct cgroup c = cgroup_at(h, slot);
    int r = open_groups(&c, e);

    if (r < 0) {
        cgroup_close(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void cgroup_close(struct cgroup *c)
{
    while (c->init_count > 0)
        fd_close(c->init_procs[--c->init_count]);
    while (c->work_count > 0)
        fd_close(c->work_procs[--c->work_count]);
    while (c->usage_count > 0)
        fd_close(c->usage_fds[--c->usage_count]);
    for (size_t i = 0; i < CGROUP_LIMIT_COUNT; i++)
        fd_close(take_fd(&c->limit_fds[i]));
    fd_close(take_fd(&c->init_fd));
    fd_close(take_fd(&c->work_fd));
    fd_close(take_fd(&c->ns_fd));
}

/* Values that are the same for every sandbox. */
static const struct {
    const char *leaf;
    enum cgroup_knob knob;
    uint64_t value;
} fixed[] = {
    {"init", KNOB_MEMORY_MAX, INIT_MEMORY_BYTES + 2 * TMPFS_BYTES},
    {"init", KNOB_SWAP_MAX,   INIT_MEMORY_BYTES + 2 * TMPFS_BYTES},
    {"init", KNOB_PIDS_MAX,   INIT_PIDS                          },
    {"init", KNOB_CPU_WEIGHT, INIT_CPU_WEIGHT                    },
    {"work", KNOB_OOM_GROUP,  1                                  },
};

static int write_fixed(const struct cgroup_host *h, uint32_t slot, struct err *e)
{
    char group[CGROUP_PATH_MAX];
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(fixed) && r >= 0; i++) {
        const struct cgroup_bound *b = &h->knobs[fixed[i].knob];

        group_path(slot, fixed[i].leaf, group);
        if (b->y)
            r = cgroup_knob_write(b, group, -EBADF, fixed[i].value, e);
    }
    return r;
}

/* A separate mount: `..` of its root is that root, and it is read-only. */
static int detach_group(const struct cgroup_hierarchy *y, const char *group, struct err *e)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        .propagation = 1UL << 18, /* MS_PRIVATE */
    };
    auto_fd fd = mnt_clone(y->root_fd, group, 0);
    int r = fd < 0 ? fd : mnt_set(fd, &attr, AT_EMPTY_PATH);

    return r < 0 ? err_sys(e, -r, "detach %s/%s", y->path, group) : take_fd(&fd);
}

/* To start a process in another group, execd needs write access to cgroup.procs of that group and
 * of the common ancestor. The ancestor cannot take processes, as it has controllers enabled for its
 * children. cgroup.procs of "init" and all limits stay root's. */
static int give_members(struct cgroup *c, uint32_t owner, struct err *e)
{
    const struct cgroup_hierarchy *y = &c->host->hierarchies[0];
    static const char *const leaves[] = {".", "work"};
    char group[CGROUP_PATH_MAX], file[CGROUP_PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(leaves); i++) {
        group_path(c->slot, leaves[i], group);
        snprintf(file, sizeof(file), "%u/%s/%s", c->slot, leaves[i], y->version->members);
        if (fchownat(y->root_fd, file, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
            return err_sys(e, errno, "give %s/%s away", y->path, file);
    }
    c->work_fd = detach_group(y, group, e);
    return c->work_fd < 0 ? c->work_fd : 0;
}

int cgroup_make(const struct cgroup_host *h, uint32_t slot, uint32_t owner, struct cgroup *ret,
                struct err *e)
{
    /* A cgroup namespace covers all hierarchies, but its maker enters only the first. */
    bool gives = (h->abilities & CGROUP_INTO) && h->count == 1 && h->hierarchies[0].limits_work;
    struct cgroup c = cgroup_at(h, slot);
    char name[CGROUP_NAME_MAX];
    auto_fd ns = -EBADF;
    int r;

    slot_name(slot, name);
    r = cgroup_tree_make(h, name, gives ? &ns : NULL, e);
    if (r < 0)
        return r;
    r = write_fixed(h, slot, e);
    if (r >= 0)
        r = cgroup_open(h, slot, &c, e);
    if (r >= 0 && gives)
        r = give_members(&c, owner, e);
    if (r < 0) {
        cgroup_close(&c);
        cgroup_tree_remove(h, name, NULL);
        return r;
    }
    c.ns_fd = take_fd(&ns);
    *ret = c;
    return 0;
}

static int limit_write(const struct cgroup *c, enum cgroup_limit_file file, uint64_t value,
                       struct err *e)
{
    static const char *const names[] = {
        [CGROUP_LIMIT_MEMORY] = "memory", [CGROUP_LIMIT_SWAP] = "swap",
        [CGROUP_LIMIT_PIDS] = "pids",     [CGROUP_LIMIT_CPU] = "cpu",
        [CGROUP_LIMIT_IO] = "io weight",
    };
    const struct cgroup_bound *b = &c->host->knobs[limit_knob(c->host, file)];
    char work[CGROUP_PATH_MAX];

    if (!b->y)
        return value ? err_set(e, ENOTSUP, "the control groups of this host have no limit of %s",
                               names[file])
                     : 0;
    if (value == 0 && !b->file->none)
        return 0;
    group_path(c->slot, "work", work);
    return cgroup_knob_write(b, work, c->limit_fds[file], value, e);
}

/* On v1 memory must never exceed memory-and-swap: to raise both, write the latter first. */
static int limit_memory(const struct cgroup *c, uint64_t bytes, struct err *e)
{
    bool has_swap_file = c->host->knobs[KNOB_SWAP_MAX].y;
    int r = limit_write(c, CGROUP_LIMIT_MEMORY, bytes, e);

    if (r == -EINVAL && has_swap_file) {
        r = limit_write(c, CGROUP_LIMIT_SWAP, 0, e);
        if (r >= 0)
            r = limit_write(c, CGROUP_LIMIT_MEMORY, bytes, e);
    }
    if (r >= 0 && has_swap_file)
        r = limit_write(c, CGROUP_LIMIT_SWAP, bytes, e);
    return r;
}

/* Raises the limit of write_fixed; on v1 memory-and-swap goes first. */
static int limit_init(const struct cgroup *c, const struct plan_limits *limits, struct err *e)
{
    static const enum cgroup_knob knobs[] = {KNOB_SWAP_MAX, KNOB_MEMORY_MAX};
    uint64_t bytes = INIT_MEMORY_BYTES;
    char init[CGROUP_PATH_MAX];
    int r = 0;

    if (limits->tmp_bytes <= TMPFS_BYTES && limits->shm_bytes <= TMPFS_BYTES)
        return 0;
    bytes += limits->tmp_bytes ? limits->tmp_bytes : TMPFS_BYTES;
    bytes += limits->shm_bytes ? limits->shm_bytes : TMPFS_BYTES;
    group_path(c->slot, "init", init);
    for (size_t i = 0; i < ARRAY_LEN(knobs) && r >= 0; i++) {
        const struct cgroup_bound *b = &c->host->knobs[knobs[i]];

        if (b->y)
            r = cgroup_knob_write(b, init, -EBADF, bytes, e);
    }
    return r;
}

static uint64_t pids_max(const struct plan_limits *limits)
{
    uint64_t by_memory = (limits->memory_bytes >> 20) * WORK_PIDS_PER_MIB;

    if (limits->pids)
        return limits->pids;
    if (limits->memory_bytes == 0 || by_memory > WORK_PIDS_MAX)
        return WORK_PIDS_MAX;
    return by_memory < WORK_PIDS_MIN ? WORK_PIDS_MIN : by_memory;
}

int cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e)
{
    int r = limit_memory(c, limits->memory_bytes, e);

    if (r >= 0)
        r = limit_init(c, limits, e);
    if (r >= 0)
        r = limit_write(c, CGROUP_LIMIT_PIDS, pids_max(limits), e);
    if (r >= 0)
        r = limit_write(c, CGROUP_LIMIT_CPU, limits->cpu_millicores, e);
    if (r >= 0)
        r = limit_write(c, CGROUP_LIMIT_IO, limits->io_weight, e);
    return r;
}

static int set_frozen(const struct cgroup_host *h, const char *name, bool frozen, uint64_t deadline,
                      struct err *e)
{
    uint64_t now = !frozen;
    long ns = CGROUP_PAUSE_NS;
    int r = cgroup_knob_write(&h->knobs[KNOB_FREEZE], name, -EBADF, frozen, e);

    while (r >= 0) {
        bool last = deadline_passed(deadline); /* before the check: time alone is no failure */

        r = cgroup_knob_read(&h->knobs[KNOB_FROZEN], name, &now, e);
        if (r < 0 || (now != 0) == frozen)
            return r;
        if (last)
            return err_set(e, ETIMEDOUT, "control group %s is still %s", name,
                           frozen ? "running" : "frozen");
        cgroup_pause(&ns);
    }
    return r;
}

int cgroup_freeze(const struct cgroup *c, bool frozen, uint32_t timeout_ms, struct err *e)
{
    char name[CGROUP_NAME_MAX];
    int r;

    slot_name(c->slot, name);
    r = set_frozen(c->host, name, frozen, deadline_in_ms(timeout_ms), e);
    if (r == -ETIMEDOUT && frozen)
        cgroup_knob_write(&c->host->knobs[KNOB_FREEZE], name, -EBADF, false, NULL);
    return r;
}

int cgroup_reclaim(const struct cgroup *c, struct err *e)
{
    const struct cgroup_bound *b = &c->host->knobs[KNOB_RECLAIM];
    char name[CGROUP_NAME_MAX];
    uint64_t bytes = 0;
    int r;

    if (!b->y)
        return err_set(e, ENOTSUP, "this kernel cannot reclaim the memory of one control group");
    slot_name(c->slot, name);
    r = cgroup_knob_read(&c->host->knobs[KNOB_MEMORY_NOW], name, &bytes, e);
    if (r < 0 || bytes == 0)
        return r;
    r = cgroup_knob_write(b, name, -EBADF, bytes, e); /* v1 accepts any text */
    return r == -EAGAIN || r == -EBUSY ? 0 : r;       /* some pages could not be reclaimed */
}

/* Lifts the workload's CPU quota, so that thousands of processes do not share one core while they
 * exit, and forbids it to fork (pids.max). Kills even if this fails. */
static void prepare_to_die(const struct cgroup *c)
{
    static const struct {
        enum cgroup_knob knob;
        uint64_t value;
    } rows[] = {
        {KNOB_PIDS_MAX, 1},
        {KNOB_CPU_MAX,  0}, /* no limit */
    };
    char work[CGROUP_PATH_MAX];

    group_path(c->slot, "work", work);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct cgroup_bound *b = &c->host->knobs[rows[i].knob];

        if (b->y)
            cgroup_knob_write(b, work, -EBADF, rows[i].value, NULL);
    }
}

/* Without cgroup.kill: signals every process while the group is frozen, since frozen processes
 * cannot fork. A process that is not frozen in time stops before it returns to user space, so the
 * list is good enough; the next round finds a child of a fork in progress. */
static int kill_frozen(const struct cgroup_host *h, const char *name, size_t *ret_count,
                       struct err *e)
{
    int r = set_frozen(h, name, true, deadline_in_ms(FREEZE_TO_KILL_MS), e);

    if (r < 0 && r != -ETIMEDOUT && r != -ENOENT)
        return r;
    r = cgroup_tree_signal(h, name, SIGKILL, ret_count, e);
    cgroup_knob_write(&h->knobs[KNOB_FREEZE], name, -EBADF, false, NULL);
    return r;
}

/* Freezes in the first round only: later that would keep processes from exiting, and pids.max keeps
 * them from forking. */
static int kill_round(const struct cgroup_host *h, const char *name, bool first, size_t *ret_count,
                      struct err *e)
{
    const struct cgroup_bound *at_once = &h->knobs[KNOB_KILL];

    if (!at_once->y && first)
        return kill_frozen(h, name, ret_count, e);
    if (at_once->y) {
        int r = cgroup_knob_write(at_once, name, -EBADF, 1, e);

        if (r < 0 && r != -ENOENT)
            return r;
    }
    return cgroup_tree_signal(h, name, SIGKILL, ret_count, e);
}

/* 1 once the group is empty, 0 when the deadline passes before. */
static int wait_empty(const struct cgroup_host *h, const char *name, int owner, uint64_t deadline,
                      struct err *e)
{
    struct pollfd p = {.fd = owner, .events = POLLIN};
    long ns = CGROUP_PAUSE_NS;

    if (owner >= 0) /* whatever the result: the groups decide */
        (void)poll(&p, 1, deadline_left_ms(deadline));
    for (;;) {
        bool last = deadline_passed(deadline);
        int r = cgroup_tree_is_empty(h, name, e);

        if (r != 0 || last)
            return r;
        cgroup_pause(&ns);
    }
}

int cgroup_kill(const struct cgroup *c, int owner, uint32_t timeout_ms, struct err *e)
{
    uint64_t deadline = deadline_in_ms(timeout_ms);
    char name[CGROUP_NAME_MAX];
    bool first = true;
    size_t count = 0;

    slot_name(c->slot, name);
    prepare_to_die(c);
    for (;; first = false) {
        bool last = deadline_passed(deadline);
        int r = kill_round(c->host, name, first, &count, e);

        if (r < 0 || count == 0)
            return r;
        if (last)
            return err_set(e, ETIMEDOUT, "%zu processes outlive SIGKILL in control group %s", count,
                           name);
        r = wait_empty(c->host, name, owner, deadline_in_ms(KILL_AGAIN_MS), e);
        if (r != 0)
            return r < 0 ? r : 0;
    }
}

int cgroup_kill_begin(const struct cgroup *c, struct err *e)
{
    const struct cgroup_bound *at_once = &c->host->knobs[KNOB_KILL];
    char name[CGROUP_NAME_MAX];
    size_t count = 0;
    int r;

    if (!at_once->y)
        return 0;
    slot_name(c->slot, name);
    prepare_to_die(c);
    r = cgroup_tree_signal(c->host, name, SIGKILL, &count, e); /* which counts them, too */
    if (r < 0 || count == 0)
        return r;
    r = cgroup_knob_write(at_once, name, -EBADF, 1, e);
    return r < 0 ? r : 1;
}

int cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e)
{
    char name[CGROUP_NAME_MAX];

    slot_name(slot, name);
    return cgroup_tree_remove(h, name, e);
}

int cgroup_stat(const struct cgroup *c, struct cgroup_stat *ret, struct err *e)
{
    struct cgroup_stat s = {0};
    uint64_t frozen = 0, init_oom_kills = 0;
    const struct {
        enum cgroup_knob knob;
        const char *leaf;
        uint64_t *value;
    } rows[] = {
        {KNOB_MEMORY_NOW,  ".",    &s.memory_bytes     },
        {KNOB_MEMORY_PEAK, ".",    &s.memory_peak_bytes},
        {KNOB_KERNEL_NOW,  ".",    &s.kernel_bytes     },
        {KNOB_CPU_USED,    ".",    &s.cpu_us           },
        {KNOB_PIDS_NOW,    ".",    &s.pids             },
        {KNOB_OOM_KILLS,   "work", &s.oom_kills        }, /* v1 does not sum up child groups */
        {KNOB_OOM_KILLS,   "init", &init_oom_kills     },
        {KNOB_FROZEN,      ".",    &frozen             },
    };
    char group[CGROUP_PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct cgroup_bound *b = &c->host->knobs[rows[i].knob];
        int r;

        if (!b->y)
            continue; /* older kernels lack some */
        group_path(c->slot, rows[i].leaf, group);
        r = cgroup_knob_read(b, group, rows[i].value, e);
        if (r < 0)
            return r;
    }
    s.frozen = frozen != 0;
    s.init_oom_kills = (uint32_t)init_oom_kills;
    if (!c->host->knobs[KNOB_MEMORY_PEAK].y)
        s.memory_peak_bytes = s.memory_bytes;
    *ret = s;
    return 0;
}

/* Whether an earlier hierarchy has the slot, which was visited there. */
static bool seen_before(const struct cgroup_host *h, size_t hierarchy, const char *name)
{
    for (size_t i = 0; i < hierarchy; i++)
        if (faccessat(h->hierarchies[i].root_fd, name, F_OK, 0) == 0)
            return true;
    return false;
}

int cgroup_each_slot(const struct cgroup_host *h, void (*visit)(void *user, uint32_t slot),
                     void *user, struct err *e)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct cgroup_hierarchy *y = &h->hierarchies[i];
        int fd = openat(y->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *d;
        uint32_t slot;

        if (!dir) {
            int r = err_sys(e, errno, "open %s", y->path);

            fd_close(fd);
            return r;
        }
        while ((d = readdir(dir)))
            if (d->d_type == DT_DIR && str_to_u32(str_of(d->d_name), &slot) >= 0 &&
                !seen_before(h, i, d->d_name))
                visit(user, slot);
        closedir(dir);
    }
    return 0;
}
