/* host.h - what a broker prepares once for all its sandboxes.
 *
 *   <state>/mnt        where a child attaches its new root before it pivots into it
 *   <state>/stage      where a child mounts ahead what it moves to that root later
 *   <state>/dev        a read-only tmpfs with the device nodes of every sandbox
 *   <state>/empty      an empty, read-only directory and file to mask paths with
 *   <state>/roots/host-root-<hash>  the root of PLAN_ROOT_HOST, see host_root.h
 *   <state>/slots/<k>  one sandbox each, see slot.h
 *   <state>/ids/<id>   a symbolic link to the number of the slot
 *   <state>/trash/<n>  a symbolic link that names a directory of a caller that is to be erased
 *   <state>/disks/<id> the image of a volume of limited size
 *   <state>/lock       protects the claiming of slots
 *   <state>/broker     locked by the one broker that serves this directory
 *
 * Names outside it (cgroups, bridge, addresses) are derived from its path, so that brokers of
 * different directories, each of which sweeps unknown leftovers, do not interfere. */
#pragma once

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/netns.h"
#include "sandbox/seccomp.h"

enum { HOST_STAGE_DIRS = 4 };
extern const char *const host_stage_dirs[HOST_STAGE_DIRS]; /* file systems that every root gets */

struct oci_runtime; /* see oci.h */

struct host {
    int state;                                /* directory, O_PATH */
    int mnt, slots, ids, roots, trash, disks; /* in it, O_PATH */
    int lock;                /* flock: shared to claim or release slots, exclusive for a sweep */
    int host_root, host_usr; /* lower layers of PLAN_ROOT_HOST */
    int serving;             /* -EBADF unless host_serve was called */
    int execd;               /* the first program of every sandbox, see program.h */
    char execd_path[256];    /* its file, for sandboxes behind an OCI runtime */
    struct oci_runtime *oci; /* those that the operator allows */
    size_t oci_count;
    char state_path[256];
    struct seccomp_program seccomp;
    char name[32]; /* of our cgroups: "opensandbox", or derived from state_path */
    struct cgroup_host *cgroups;
    struct disk_host disk;
    struct netns_conf net;
    bool has_bridge; /* netns_host_setup was done */
};

/* Creates what is missing in the state directory, which only root may write. Other users may pass
 * through it (0711) to their files, but not enter our directories (0700). Enters a new mount
 * namespace, so that our mounts are visible nowhere else and vanish with us. `serve` calls
 * host_serve before anything is changed. */
#define HOST_STATE_DEFAULT "/var/lib/opensandbox"
int host_open(struct host *h, const char *state_path, const char *execd_path, bool serve,
              struct err *e);
void host_close(struct host *h);
/* Locks the directory for the one broker that serves it, until host_serve_end or until all
 * processes with a copy of the descriptor have ended. -EBUSY when another broker holds it after the
 * timeout. */
int host_serve(struct host *h, uint32_t timeout_ms, struct err *e);
void host_serve_end(struct host *h);
/* Removes roots of older versions, unless there are slots, which may use them. Used only by the
 * process that serves the directory. */
void host_forget_roots(const struct host *h);
/* Opens the lock again for a forked process: flock belongs to the open file description. */
int host_open_lock(const struct host *h, struct err *e);
