/* cgroup.h - the control groups of a sandbox, the same on cgroup v2, v1 and hybrid hosts.
 *
 *   <our root>/<slot>/        limits of the whole; frozen and killed as one
 *   <our root>/<slot>/init    execd: outside the workload's limits, so that it keeps answering;
 *                             its own memory limit covers what it writes into /tmp
 *   <our root>/<slot>/work    the workload: memory, cpu, pids and io limits apply here
 *
 * On v1 the same tree exists in each hierarchy we use. cgroup_host_open tries once what the host
 * supports and describes the result. All calls may block in the kernel; single-threaded. */
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
    CGROUP_OOM_GROUP = 1 << 6, /* an OOM kills the whole workload, not one process of it */
    CGROUP_RECLAIM = 1 << 7,   /* memory.reclaim, or force_empty on v1 */
    CGROUP_SWAP = 1 << 8,      /* swap can be disabled; also set where there is none */
    CGROUP_INTO = 1 << 9,      /* clone3 can start a process in a group (v2) */
};

struct cgroup_host; /* the host's hierarchies, held open */

/* Finds the hierarchies (from /proc/self/mountinfo), creates `name` (such as "opensandbox") in
 * each, and tries what works. On v1 it is created below our own group. On v2 it is at the top of
 * the mount or, where that is forbidden, below our own group; then this process moves into
 * "<name>.self" beside it. "/opensandbox" means the top of the mount on both, without that
 * fallback. The error says what is missing and how to get it. */
int cgroup_host_open(const char *name, struct cgroup_host **ret_host, struct err *e);
void cgroup_host_close(struct cgroup_host *h); /* NULL is fine; the groups stay */
/* Removes `name`; -EBUSY while a slot has groups. */
int cgroup_host_remove(const struct cgroup_host *h, struct err *e);
unsigned cgroup_host_abilities(const struct cgroup_host *h);   /* enum cgroup_ability, or-ed */
const char *cgroup_host_describe(const struct cgroup_host *h); /* "v2", "v1", "hybrid: ..." */

enum { CGROUP_HIERARCHIES_MAX = 8 };

enum cgroup_limit_file { /* files that cgroup_limit writes, kept open */
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
    CGROUP_USAGE_OOM, /* oom_kill count of "work" */
    CGROUP_USAGE_COUNT,
};

/* Descriptors of a sandbox's groups.
 *
 * A process with a single thread enters by writing "0" to each file of init_procs or work_procs. On
 * v1 these are the `tasks` files: moving a thread takes microseconds, moving a process waits for an
 * RCU grace period, which is milliseconds on an idle host. Enter `work` only from `init`:
 * hierarchies without a limit of the workload are entered once. */
struct cgroup {
    const struct cgroup_host *host;
    uint32_t slot;
    int init_procs[CGROUP_HIERARCHIES_MAX], work_procs[CGROUP_HIERARCHIES_MAX];
    size_t init_count, work_count;
    /* The directory of "init" for CLONE_INTO_CGROUP, which replaces the write to init_procs[0] and
     * saves milliseconds. v2 and hybrid; -EBADF without CGROUP_INTO. */
    int init_fd;
    /* The same for execd, to start processes in "work". work_fd: a read-only mount of it without
     * access to the parent, since execd opens untrusted paths. ns_fd: a cgroup namespace with the
     * slot as root, since the kernel requires both groups in it. Pure v2 only; or -EBADF. */
    int work_fd, ns_fd;
    int limit_fds[CGROUP_LIMIT_COUNT];
    /* For execd: usage of the whole slot, read-only, in the order of execd's enum metrics_file, and
     * the oom_kill count of "work". All of them, or none where a controller is missing. */
    int usage_fds[CGROUP_USAGE_COUNT];
    size_t usage_count;
};

/* A slot's groups by name, with nothing open. All calls below accept it, but take longer. */
struct cgroup cgroup_at(const struct cgroup_host *h, uint32_t slot);

/* A process of `owner` in "init" may start processes in "work"; the owner gets no other right. May
 * fork a child that exits at once. -EEXIST when the slot has groups in any hierarchy: kill and
 * remove them first. */
int cgroup_make(const struct cgroup_host *h, uint32_t slot, uint32_t owner, struct cgroup *ret,
                struct err *e);
/* Leaves work_fd and ns_fd unset. */
int cgroup_open(const struct cgroup_host *h, uint32_t slot, struct cgroup *ret, struct err *e);
void cgroup_close(struct cgroup *c); /* closes the descriptors only */

/* Sets limits of "work". Without a limit of processes it gets two per MiB of memory, 128 to 4,096.
 * -ENOTSUP names a requested limit that this host does not support. */
int cgroup_limit(const struct cgroup *c, const struct plan_limits *limits, struct err *e);
/* Freezes the whole slot. After -ETIMEDOUT it is running. */
int cgroup_freeze(const struct cgroup *c, bool frozen, uint32_t timeout_ms, struct err *e);
int cgroup_reclaim(const struct cgroup *c, struct err *e); /* best effort, after freezing */
/* Lifts the CPU quota, then sends SIGKILL to all processes, by cgroup.kill or while frozen; returns
 * once the groups are empty. -ETIMEDOUT: some processes have not ended yet. `owner` is a pidfd of
 * the process that ends last, PID 1 of a sandbox, so that its end is noticed at once; -EBADF: the
 * groups are looked at from time to time. */
int cgroup_kill(const struct cgroup *c, int owner, uint32_t timeout_ms, struct err *e);
/* Sends the signal only, and does not wait: 1 when the kernel has sent it to all processes at once
 * (cgroup.kill), so that none of them runs code of its own again or forks, and at least one was
 * there. 0: use cgroup_kill. */
int cgroup_kill_begin(const struct cgroup *c, struct err *e);
int cgroup_remove(const struct cgroup_host *h, uint32_t slot, struct err *e); /* absent is fine */

struct cgroup_stat {
    uint64_t memory_bytes, memory_peak_bytes, kernel_bytes, cpu_us, pids;
    uint64_t oom_kills; /* of "work"; with CGROUP_OOM_GROUP the kernel counts the first one twice */
    bool frozen;
    uint32_t init_oom_kills; /* of "init": execd, and its children that had not moved yet */
};
int cgroup_stat(const struct cgroup *c, struct cgroup_stat *ret, struct err *e);

/* Calls visit for each slot that has groups; for the sweep. */
int cgroup_each_slot(const struct cgroup_host *h, void (*visit)(void *user, uint32_t slot),
                     void *user, struct err *e);
