/* cgroup.h - one sandbox's control groups, the same on cgroup v2, v1 and hybrid hosts.
 *
 *   <our root>/<slot>/        limits of the whole; frozen and killed as one
 *   <our root>/<slot>/init    execd: outside the workload's limits, so that it keeps answering;
 *                             its own limit of memory bears what it writes into /tmp
 *   <our root>/<slot>/work    the workload: memory, cpu, pids and io limits hold here
 *
 * On v1 the same tree stands in each hierarchy we use. What the host has is found by using it once,
 * at cgroup_host_open, and named in its report. All calls may block in the kernel; single-threaded.
 */
#pragma once

#include "base/err.h"
#include "sandbox/plan.h"

enum cgroup_ability {
    CGROUP_MEMORY = 1 << 0,
    CGROUP_CPU = 1 << 1,
    CGROUP_PIDS = 1 << 2,
    CGROUP_IO = 1 << 3,
    CGROUP_FREEZE = 1 << 4,
    CGROUP_KILL = 1 << 5,      /* cgroup.kill; otherwise freeze, signal, thaw */
    CGROUP_OOM_GROUP = 1 << 6, /* the whole workload goes, not one process of it */
    CGROUP_RECLAIM = 1 << 7,   /* memory.reclaim, or force_empty on v1 */
    CGROUP_SWAP = 1 << 8,      /* swap can be switched off; also set where there is no swap */
    CGROUP_INTO = 1 << 9,      /* clone3 can start a process inside (v2) */
};

struct cgroup_host; /* the host's hierarchies, held open */

/* Finds the hierarchies (from /proc/self/mountinfo), makes `name` (such as "opensandbox") in each,
 * and tries what works. On v1 the place is below our own group, on v2 the top of the mount or,
 * where that is forbidden, below our own group, this process then moving into "<name>.self" beside
 * it.
 * "/opensandbox" means the top of the mount on both, and only that. The error says what is missing
 * and how to get it. */
int cgroup_host_open(const char *name, struct cgroup_host **ret_host, struct err *e);
void cgroup_host_close(struct cgroup_host *h); /* NULL is fine; the groups stay */
/* Removes `name` again; -EBUSY while a slot has groups. */
int cgroup_host_remove(const struct cgroup_host *h, struct err *e);
unsigned cgroup_host_abilities(const struct cgroup_host *h);   /* enum cgroup_ability, or-ed */
const char *cgroup_host_describe(const struct cgroup_host *h); /* "v2", "v1", "hybrid: ..." */

enum { CGROUP_HIERARCHIES_MAX = 8 };

enum cgroup_limit_file { /* what cgroup_limit writes, kept open */
                         CGROUP_LIMIT_MEMORY,
                         CGROUP_LIMIT_SWAP,
                         CGROUP_LIMIT_PIDS,
                         CGROUP_LIMIT_CPU,
                         CGROUP_LIMIT_IO,
                         CGROUP_LIMIT_COUNT,
};

enum cgroup_usage_file {
    CGROUP_USAGE_MEMORY,
    CGROUP_USAGE_MEMORY_STAT,
    CGROUP_USAGE_CPU,
    CGROUP_USAGE_OOM, /* of "work": its oom_kill count */
    CGROUP_USAGE_COUNT,
};

/* A sandbox's groups, held by descriptors.
 *
 * A process enters by writing "0" to each file of init_procs or work_procs, while it has a single
 * thread (on v1 these are the `tasks` files: moving one thread costs microseconds, moving a process
 * waits for an RCU grace period, which is milliseconds on an idle host). Entering `work` takes for
 * granted that one was in `init`: hierarchies without a limit of the workload are entered once. */
struct cgroup {
    const struct cgroup_host *host;
    uint32_t slot;
    int init_procs[CGROUP_HIERARCHIES_MAX], work_procs[CGROUP_HIERARCHIES_MAX];
    size_t init_count, work_count;
    /* The directory of "init" for CLONE_INTO_CGROUP: starting there replaces the write to
     * init_procs[0], and its milliseconds. v2 and hybrid; -EBADF without CGROUP_INTO. */
    int init_fd;
    /* For execd to start processes in "work" in the same way: its directory, as a read-only mount
     * that has no way up from there, since execd follows strangers' paths; and a cgroup namespace
     * whose root is the slot, since the kernel wants both ends seen. Pure v2 only; or -EBADF. */
    int work_fd, ns_fd;
    int limit_fds[CGROUP_LIMIT_COUNT];
    /* For execd: what the whole slot uses, read-only, in the order of enum metrics_file of execd,
     * and the oom_kill count of "work". All of them, or none where a controller is missing. */
    int usage_fds[CGROUP_USAGE_COUNT];
    size_t usage_count;
};

/* A slot's groups by name, nothing opened: all calls below take it, if with more work. */
struct cgroup cgroup_at(const struct cgroup_host *h, uint32_t slot);

/* `owner` may start processes in "work" if he stands in "init", and can do nothing else there. May
 * fork a child that ends at once. -EEXIST when the slot has groups in any hierarchy: kill and
 * remove them first. */
int cgroup_make(const struct cgroup_host *h, uint32_t slot, uint32_t owner, struct cgroup *ret,
                struct err *e);
/* Without work_fd and ns_fd. */
int cgroup_open(const struct cgroup_host *h, uint32_t slot, struct cgroup *ret, struct err *e);
void cgroup_close(struct cgroup *c); /* descriptors only */

/* Of "work". Without a limit of processes it has two per MiB of memory, 128 to 4,096 of them.
 * -ENOTSUP names a limit that was asked for and cannot be had. */
int cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e);
/* The whole slot. -ETIMEDOUT leaves it running. */
int cgroup_freeze(const struct cgroup *c, bool frozen, uint32_t timeout_ms, struct err *e);
int cgroup_reclaim(const struct cgroup *c, struct err *e); /* best effort, after freezing */
/* Lifts the CPU quota, then sends SIGKILL to everything in it, by cgroup.kill or while it is
 * frozen; returns once it is empty. -ETIMEDOUT: some processes have not ended yet. */
int cgroup_kill(const struct cgroup *c, uint32_t timeout_ms, struct err *e);
int cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e); /* absent is fine */

struct cgroup_stat {
    uint64_t memory_bytes, memory_peak_bytes, kernel_bytes, cpu_us, pids;
    uint64_t oom_kills; /* of "work"; with CGROUP_OOM_GROUP the kernel counts the first one twice */
    bool frozen;
    uint32_t init_oom_kills; /* of "init": execd, and children of it that had not moved yet */
};
int cgroup_stat(const struct cgroup *c, struct cgroup_stat *ret, struct err *e);

/* Slots that have groups, for the sweep. Calls visit for each. */
int cgroup_each_slot(const struct cgroup_host *h, void (*visit)(void *user, uint32_t slot),
                     void *user, struct err *e);
