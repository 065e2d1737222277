/* spawn.h - starts a sandbox from a plan and a slot, in two tables of steps.
 *
 * The first table needs no plan and runs ahead: a child, made by clone3 with its own pid, mnt, uts
 * and ipc namespaces, enters the slot's cgroups and network (slow on some kernels) and waits. The
 * second runs when a plan arrives: the child mounts and pivots as real root, and only then enters
 * the sandbox's user namespace, drops all privileges and executes execd. So root inside owns none
 * of its namespaces.
 *
 * The child does not allocate, lock or log. A failed step is reported by name with its error. When
 * the broker dies, parked children exit. */
#pragma once

#include "base/proc.h"
#include "sandbox/cgroup.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"
#include <netinet/in.h>

/* Shared by all sandboxes of a host; see host.h. */
struct host;
struct oci_runtime; /* see oci.h */

/* What a slot has before there is a plan. The caller owns it, see src/broker/ready.c. */
struct spawn_slot {
    const struct host *host;
    const struct cgroup *cgroup;
    uint32_t slot;
    uint32_t uid_first; /* host id of root inside */
    int userns, netns;  /* namespaces to enter */
    int layer_userns;   /* maps ids of PLAN_LAYER_SHIFTED; -EBADF until a plan needs it */
};

struct parked {
    struct proc proc;
    int channel;   /* socket to the child */
    bool has_root; /* the host root is mounted already */
};

/* Makes the child and starts the steps that need no plan. They continue after this returns;
 * spawn_go reports their failure. With `host_root` they include that root, in the slot's writable
 * layer; it is unmounted if the plan needs another. */
int spawn_park(const struct spawn_slot *slot, bool host_root, struct parked *ret, struct err *e);
void parked_kill(struct parked *p); /* and reaps it; an empty one is fine */

/* What arrives with a plan. */
struct spawn_args {
    const struct plan *plan;
    const int *layers;                 /* plan->layer_count lower directories, topmost first */
    const int *binds;                  /* plan->bind_count volumes */
    int listener, exit_file, log_file; /* descriptors 3, 4 and 5 of execd */
    const struct oci_runtime *oci;     /* of plan->runtime; NULL: none */
    int bundle;                        /* its config.json; -EBADF = none */
    int memory; /* directory of saved memory that it goes on with; -EBADF = none */
    int disk;   /* detached mount with the writable layer; -EBADF: it is in the slot's directory */
    bool has_address;
    struct in_addr address; /* of eth0, for /etc/hosts */
};

enum {
    SPAWN_STEPS_MS_MAX = 30 * 1000, /* a layer's file system may hang; the broker must not */
    SPAWN_KILL_MS_MAX = 2000,       /* then, for the child to exit */
};

/* Returns once execd runs, or with the step that failed: "mount root: overlay: ...". Uses up the
 * parked child in any case; on success its process is *ret. */
int spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
             struct proc *ret, struct err *e);
