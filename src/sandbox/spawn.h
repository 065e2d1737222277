/* spawn.h - from a plan and a slot to a running sandbox, in two tables of steps.
 *
 * The first table needs no plan and is done ahead: a child made by clone3 with pid, mnt, uts and
 * ipc namespaces of its own enters the slot's control groups and network (slow on some kernels) and
 * parks. The second is done when a plan comes: as real root it mounts and pivots with full power,
 * and only then enters the sandbox's user namespace, gives everything up and becomes execd. So root
 * inside owns none of the namespaces around it.
 *
 * The child allocates, locks and logs nothing. A failed step comes back by name, word for word.
 * When the broker dies, parked children end by themselves. */
#pragma once

#include "base/proc.h"
#include "sandbox/cgroup.h"
#include "sandbox/plan.h"
#include "sandbox/seccomp.h"
#include <netinet/in.h>

/* What all sandboxes of a host share; see host.h. */
struct host;

/* What a slot has before there is a plan; owned by its holder, see src/broker/ready.c. */
struct spawn_slot {
    const struct host *host;
    const struct cgroup *cgroup;
    uint32_t slot;
    uint32_t uid_first; /* outside id of the sandbox's root */
    int userns, netns;  /* to enter */
};

struct parked {
    struct proc proc;
    int channel;   /* to the child */
    bool has_root; /* of the host, mounted ahead */
};

/* Makes the child and sends it through the steps that need no plan; they go on while we return, and
 * what fails there is told by spawn_go. With `host_root` they include that root, in the slot's
 * writable layer; a plan that wants another has it undone first. */
int spawn_park(const struct spawn_slot *slot, bool host_root, struct parked *ret, struct err *e);
void parked_kill(struct parked *p); /* and reaps; an empty one is fine */

/* What comes with a plan. */
struct spawn_args {
    const struct plan *plan;
    const int *layers;                 /* plan->layer_count lower directories, topmost first */
    const int *binds;                  /* plan->bind_count volumes */
    int listener, exit_file, log_file; /* execd's 3, 4 and 5 */
    int disk; /* a detached mount that has the writable layer; -EBADF: the slot's directory has */
    bool has_address;
    struct in_addr address; /* of eth0, for /etc/hosts */
};

enum {
    SPAWN_STEPS_MS_MAX = 30 * 1000, /* a layer's file system may hang; we must not */
    SPAWN_KILL_MS_MAX = 2000,       /* then, for the child to end */
};

/* Returns once execd runs, or the step that failed is known: "mount root: overlay: ...". The parked
 * child is used up in any case; its process is *ret on success. */
int spawn_go(const struct spawn_slot *slot, struct parked *p, const struct spawn_args *args,
             struct proc *ret, struct err *e);
