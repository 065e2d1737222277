/* host.h - what a broker prepares once and all its sandboxes share.
 *
 *   <state>/mnt        where a child attaches its new root before it pivots into it
 *   <state>/stage      where a child mounts ahead what it will move there
 *   <state>/dev        a read-only tmpfs with the device nodes of every sandbox
 *   <state>/empty      an empty, read-only directory and file to mask paths with
 *   <state>/roots/host-root-<hash>  the root of PLAN_ROOT_HOST, see host_root.h
 *   <state>/slots/<k>  one sandbox each, see slot.h
 *   <state>/ids/<id>   a link whose target is the slot's number
 *   <state>/trash/<n>  a link whose target is a directory of a caller that is to be erased
 *   <state>/lock       guards the claiming of slots
 *   <state>/broker     locked by the one broker that serves this directory
 *
 * What lies outside it (control groups, bridge, addresses) is named after it, so that brokers of
 * different directories, each of which sweeps away what it does not know, never meet. */
#pragma once

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/netns.h"
#include "sandbox/seccomp.h"

enum { HOST_STAGE_DIRS = 4 };
extern const char *const host_stage_dirs[HOST_STAGE_DIRS]; /* file systems that every root gets */

struct host {
    int state;                         /* directory, O_PATH */
    int mnt, slots, ids, roots, trash; /* below it, O_PATH */
    int lock; /* flock: shared while slots are claimed or given back, exclusive for a sweep */
    int host_root, host_usr; /* lower layers of PLAN_ROOT_HOST */
    int serving;             /* -EBADF unless host_serve was called */
    int execd;               /* the program every sandbox begins with, see program.h */
    char state_path[256];
    struct seccomp_program seccomp;
    char name[32]; /* of our control groups: "opensandbox", or one that follows from state_path */
    struct cgroup_host *cgroups;
    struct disk_host disk;
    struct netns_conf net;
    bool has_bridge; /* netns_host_setup was done */
};

/* Makes what is missing below the state directory, which must be writable by nobody else. Others
 * may pass through it (0711), to what is theirs there, and enter nothing of ours (0700). Enters a
 * mount namespace of our own, so that what we mount shows nowhere else and goes with us. `serve`
 * calls host_serve before anything is changed. */
#define HOST_STATE_DEFAULT "/var/lib/opensandbox"
int host_open(struct host *h, const char *state_path, const char *execd_path, bool serve,
              struct err *e);
void host_close(struct host *h);
/* Takes the directory for the one broker that may serve it, until it is given back or all processes
 * with a copy of the descriptor are gone: -EBUSY when another still has it at the
 * end of the timeout. */
int host_serve(struct host *h, uint32_t timeout_ms, struct err *e);
void host_serve_end(struct host *h);
/* Removes roots that older versions have made, unless there are slots, which may stand on them.
 * Only for who serves the directory. */
void host_forget_roots(const struct host *h);
/* A lock of its own for a process that inherited the rest: locks belong to open files. */
int host_open_lock(const struct host *h, struct err *e);
