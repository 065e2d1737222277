/* Version 2: one tree. A group other than the real root has either processes or controllers enabled
 * for its children, so our own group cannot be the parent while processes are in it. We use a place
 * at the top of the mount, or, where that is forbidden, one below our own group; then this process
 * moves into a leaf, but moves no other. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sandbox/cgroup_internal.h"

static const struct cgroup_file files[KNOB_COUNT] = {
    [KNOB_MEMORY_MAX] = {CONTROLLER_MEMORY, "memory.max",                     .probe = "max",                 .none = "max"},
    [KNOB_SWAP_MAX] = {CONTROLLER_MEMORY,                 "memory.swap.max",                                 .probe = "0",                              .none = "0", .times = 0,
                         .per = 1}, /* no swap, whatever the memory limit */
    [KNOB_OOM_GROUP] = {CONTROLLER_MEMORY,      "memory.oom.group",                            .probe = "1"                                                                           },
    [KNOB_PIDS_MAX] = {CONTROLLER_PIDS, "pids.max",          .probe = "max", .none = "max"},
 /* Thousandths of a core to microseconds of the default 100 ms; the kernel's minimum is 1 ms. */
    [KNOB_CPU_MAX] = {CONTROLLER_CPU,   "cpu.max",                         .probe = "max",                                .none = "max", .times = 100,
                         .per = 1, .min = 1000},
    [KNOB_CPU_WEIGHT] = {CONTROLLER_CPU,                 "cpu.weight",                                    .probe = "100",                                                       .min = 1, .max = 10000},
    [KNOB_IO_WEIGHT] = {CONTROLLER_IO,    "io.weight",                        .probe = "100",                                                                            .min = 1, .max = 10000},
    [KNOB_IO_WEIGHT_BFQ] = {CONTROLLER_IO,                 "io.bfq.weight",                                    .probe = "100",                                      .min = 1, .max = 1000},
    [KNOB_FREEZE] = {CONTROLLER_CORE,         "cgroup.freeze",                             .probe = "0",     .none = "0"},
    [KNOB_KILL] = {CONTROLLER_CORE,   "cgroup.kill",.probe = "1"},
    [KNOB_RECLAIM] = {CONTROLLER_MEMORY,                 "memory.reclaim"                                    },
    [KNOB_MEMORY_NOW] = {CONTROLLER_MEMORY,         "memory.current"                             },
    [KNOB_MEMORY_PEAK] = {CONTROLLER_MEMORY,"memory.peak"},
    [KNOB_KERNEL_NOW] = {CONTROLLER_MEMORY,   "memory.stat",                    .key = "kernel"                                   },
    [KNOB_CPU_USED] = {CONTROLLER_CORE, "cpu.stat", .key = "usage_usec"                      },
    [KNOB_PIDS_NOW] = {CONTROLLER_PIDS,"pids.current"},
    [KNOB_OOM_KILLS] = {CONTROLLER_MEMORY,                 "memory.events",                                                .key = "oom_kill"},
    [KNOB_FROZEN] = {CONTROLLER_CORE,                 "cgroup.events",                                   .key = "frozen"                                        },
};

static const struct {
    enum cgroup_controller controller;
    const char *name;
} controllers[] = {
    {CONTROLLER_MEMORY, "memory"},
    {CONTROLLER_CPU,    "cpu"   },
    {CONTROLLER_PIDS,   "pids"  },
    {CONTROLLER_IO,     "io"    },
};

/* The controllers that the group has, of those we use. */
static int controllers_of(const struct cgroup_hierarchy *y, const char *group, unsigned *ret,
                          struct err *e)
{
    char text[512];
    struct str rest, word;
    unsigned found = 0;
    int n = cgroup_file_read(y, group, "cgroup.controllers", text, sizeof(text), e);

    if (n < 0)
        return n;
    rest = str_make(text, n > 0 && text[n - 1] == '\n' ? (size_t)n - 1 : (size_t)n);
    while (str_cut(&rest, ' ', &word)) {
        for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
            if (str_eq(word, str_of(controllers[i].name)))
                found |= 1U << controllers[i].controller;
    }
    *ret = found;
    return 0;
}

/* Enables the controllers `which` for the child groups. */
static int enable(const struct cgroup_hierarchy *y, const char *group, unsigned which,
                  struct err *e)
{
    AUTO_BUF(text, 128);
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(controllers) && r == 0; i++)
        if (which & 1U << controllers[i].controller)
            r = buf_addf(&text, "%s+%s", text.n ? " " : "", controllers[i].name);
    if (r < 0 || text.n == 0)
        return r;
    return cgroup_file_write(y, group, "cgroup.subtree_control", buf_str(&text), e);
}

static int enable_below(const struct cgroup_hierarchy *y, const char *group, struct err *e)
{
    return enable(y, group, y->controllers, e);
}

const struct cgroup_version cgroup_v2 = {"v2", "cgroup.procs", files, enable_below};

/* Moves only this process into a leaf beside the wanted place, and tries again. Moves back if other
 * processes keep the group busy. */
static int enable_from_aside(const struct cgroup_hierarchy *parent, const char *name,
                             unsigned which, struct err *e)
{
    char leaf[CGROUP_PATH_MAX];
    int r;

    snprintf(leaf, sizeof(leaf), "%s.self", name);
    if (mkdirat(parent->root_fd, leaf, 0755) < 0 && errno != EEXIST)
        return err_sys(e, errno, "mkdir %s/%s", parent->path, leaf);
    r = cgroup_file_write(parent, leaf, "cgroup.procs", STR("0"), e);
    if (r >= 0)
        r = enable(parent, ".", which, e);
    if (r < 0) {
        cgroup_file_write(parent, ".", "cgroup.procs", STR("0"), NULL);
        unlinkat(parent->root_fd, leaf, AT_REMOVEDIR);
    }
    return r;
}

/* Makes `name` below a group, with all controllers of the group. */
static int place_below(const char *parent_path, const char *name, bool may_step_aside,
                       struct cgroup_hierarchy *ret, struct err *e)
{
    auto_fd parent_fd = -EBADF;
    AUTO_BUF(path, 4096);
    struct cgroup_hierarchy parent = {.version = &cgroup_v2, .path = (char *)parent_path};
    unsigned have = 0;
    int r;

    parent_fd = fd_open_at(AT_FDCWD, parent_path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (parent_fd < 0)
        return parent_fd;
    parent.root_fd = parent_fd;
    r = controllers_of(&parent, ".", &have, e);
    if (r < 0)
        return r;
    r = enable(&parent, ".", have, e);
    if (r == -EBUSY && may_step_aside)
        r = enable_from_aside(&parent, name, have, e);
    if (r == -EBUSY)
        return err_wrap(e, r, "others run in %s, so it cannot hand controllers down", parent_path);
    if (r < 0)
        return r;
    r = buf_addf(&path, "%s/%s", parent_path, name);
    if (r < 0)
        return err_sys(e, -r, "path of a control group");
    ret->path = mem_strdup(path.p);
    r = cgroup_place_at(ret, e);
    if (r >= 0)
        r = controllers_of(ret, ".", &ret->controllers, e);
    if (r >= 0)
        r = enable(ret, ".", ret->controllers, e);
    if (r < 0) {
        fd_close(take_fd(&ret->root_fd));
        free(take_ptr(&ret->path));
    }
    return r;
}

/* Enables controllers at each level from the mount to our own group, as far as permitted: a manager
 * that delegated the group to us has done so already. */
static void enable_towards(const struct cgroup_mount *m)
{
    auto_fd fd = fd_open_at(AT_FDCWD, m->point, O_PATH | O_DIRECTORY, 0, PATH_FREE, NULL);
    struct cgroup_hierarchy top = {.version = &cgroup_v2, .root_fd = fd, .path = m->point};

    for (const char *end = m->own; fd >= 0 && *end; end += strcspn(end + 1, "/") + 1) {
        AUTO_BUF(group, 4096);
        unsigned have = 0;

        if (buf_addf(&group, ".%.*s", (int)(end - m->own), m->own) < 0 ||
            controllers_of(&top, group.p, &have, NULL) < 0 || enable(&top, group.p, have, NULL) < 0)
            return;
    }
}

int cgroup_v2_place(const struct cgroup_mount *m, const char *name, struct cgroup_hierarchy *ret,
                    struct err *e)
{
    struct cgroup_hierarchy y = {.version = &cgroup_v2, .root_fd = -EBADF};
    bool only_root = name[0] == '/';
    AUTO_BUF(own, 4096);
    int r;

    name += only_root;
    r = place_below(m->point, name, false, &y, e);
    if (r < 0 && !only_root && buf_addf(&own, "%s%s", m->point, m->own) == 0) {
        enable_towards(m);
        r = place_below(own.p, name, true, &y, e);
    }
    if (r < 0)
        return r;
    *ret = y;
    return 0;
}
