/* Version 1: one tree per controller, below our own group in each, so that its limits apply. */
#include <errno.h>

#include "base/mem.h"
#include "sandbox/cgroup_internal.h"

static const struct cgroup_file files[KNOB_COUNT] = {
    [KNOB_MEMORY_MAX] = {CONTROLLER_MEMORY,            "memory.limit_in_bytes",                 .probe = "-1",                           .none = "-1"},
 /* Memory and swap together: with the same value as memory, no swap is left. */
    [KNOB_SWAP_MAX] = {CONTROLLER_MEMORY,                            "memory.memsw.limit_in_bytes",                                                   .probe = "-1",
                         .none = "-1"},
    [KNOB_PIDS_MAX] = {CONTROLLER_PIDS,                 "pids.max",                                                        .probe = "max",                                                                                 .none = "max"},
 /* Thousandths of a core to microseconds of the default 100 ms; the kernel's minimum is 1 ms. */
    [KNOB_CPU_MAX] = {CONTROLLER_CPU,              "cpu.cfs_quota_us",.probe = "-1",.none = "-1", .times = 100,
                         .per = 1, .min = 1000},
    [KNOB_CPU_WEIGHT] = {CONTROLLER_CPU,"cpu.shares",                                       .probe = "1024",                                                                                                                           .times = 1024, .per = 100,
                         .min = 2, .max = 262144},
    [KNOB_IO_WEIGHT] = {CONTROLLER_IO,                     "blkio.weight",                                                 .probe = "100",                                                                                        .min = 10, .max = 1000},
    [KNOB_IO_WEIGHT_BFQ] = {CONTROLLER_IO,                    "blkio.bfq.weight",      .probe = "100",.min = 1,
                         .max = 1000},
    [KNOB_FREEZE] = {CONTROLLER_FREEZER,                     "freezer.state",                                               .probe = "THAWED",                                                                                      .none = "THAWED",
                         .on = "FROZEN"},
    [KNOB_RECLAIM] = {CONTROLLER_MEMORY,"memory.force_empty"},
    [KNOB_MEMORY_NOW] = {CONTROLLER_MEMORY,                            "memory.usage_in_bytes"                                                      },
    [KNOB_MEMORY_PEAK] = {CONTROLLER_MEMORY,                    "memory.max_usage_in_bytes"                                                          },
    [KNOB_KERNEL_NOW] = {CONTROLLER_MEMORY,"memory.kmem.usage_in_bytes"},
    [KNOB_CPU_USED] = {CONTROLLER_CPUACCT,                            "cpuacct.usage",                                                   .times = 1,.per = 1000},
    [KNOB_PIDS_NOW] = {CONTROLLER_PIDS,            "pids.current"},
    [KNOB_OOM_KILLS] = {CONTROLLER_MEMORY,"memory.oom_control",.key = "oom_kill"                                                        },
    [KNOB_FROZEN] = {CONTROLLER_FREEZER,                            "freezer.state",                                                                                  .on = "FROZEN"                                                                                                 },
};

const struct cgroup_version cgroup_v1 = {"v1", "tasks", files, NULL};

int cgroup_v1_place(const struct cgroup_mount *m, const char *name, struct cgroup_hierarchy *ret,
                    struct err *e)
{
    bool at_root = name[0] == '/';
    AUTO_BUF(path, 4096);
    struct cgroup_hierarchy y = {
        .version = &cgroup_v1, .controllers = m->controllers, .root_fd = -EBADF};
    int r;

    r = buf_addf(&path, "%s%s/%s", m->point, at_root ? "" : m->own, at_root ? name + 1 : name);
    if (r < 0)
        return err_sys(e, -r, "path of a control group");
    y.path = mem_strdup(path.p);
    r = cgroup_place_at(&y, e);
    if (r < 0) {
        free(y.path);
        return r;
    }
    *ret = y;
    return 0;
}
