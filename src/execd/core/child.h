/* child.h - the steps of every workload process between fork and exec: it drops PID 1's privileges,
 * changes to its user and enters its directory. Nothing here allocates, locks or logs. */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/proc.h"

struct child_box;

struct child_user {
    bool change; /* false: the usual user of the place; the other fields are ignored */
    uint32_t uid, gid;
    const gid_t *groups; /* supplementary */
    size_t group_count;
    bool keep; /* with change false: execd's own ids, whatever the usual user is */
};

/* Where to read how many workload processes the OOM killer ended: memory.events (cgroup v2) or
 * memory.oom_control (v1) of the workload's cgroup. */
struct child_memory {
    int events_fd;        /* 0 = not available */
    uint64_t limit_bytes; /* 0 = unknown */
};

/* The cgroups and limits of a new process. All processes of a sandbox share one place, except those
 * of isolated sessions. The caller that starts a process passes `groups` to proc_spec and the whole
 * place to child_settle(). */
struct child_place {
    struct proc_groups groups;
    bool limit; /* to caps_sandbox and no nesting (nesting.h): less than PID 1 has */
    /* Isolated sessions only, else NULL: enters the session's namespaces and does there what
     * child_settle() does elsewhere. Returns in another process. `box` is its argument. */
    int (*enter)(const struct child_place *place, const struct child_user *user, const char *cwd,
                 const char *name, struct proc_step *ret_step);
    const struct child_box *box;
    struct child_memory memory;
    /* The usual user: that of the image, when execd runs as another. With change false it is
     * execd's own. */
    struct child_user user;
};

/* Another process signals the process group of a process that place.enter() started. This signal,
 * sent to that other process, makes it send SIGKILL to the whole group. */
#define CHILD_KILL_GROUP SIGRTMIN

/* Only the change of user, including the owner of standard output and error. */
int child_become(const struct child_user *user);
/* The same without the chown of standard output and error. */
int child_set_ids(const struct child_user *user);

enum { CHILD_FS_GROUPS_MAX = 256 };

/* execd's own supplementary groups, while it uses those of another user. */
struct child_fs {
    bool changed;
    int group_count; /* negative: execd keeps its own, see child_fs_enter() */
    gid_t groups[CHILD_FS_GROUPS_MAX];
};

/* File accesses of this thread as `user`, its supplementary groups included, until
 * child_fs_leave(), for what execd makes on behalf of the workload: setfsuid(2), which also drops
 * the capabilities over files. Does nothing without change. An execd that has more than
 * CHILD_FS_GROUPS_MAX groups itself, or no CAP_SETGID, keeps its own. */
void child_fs_enter(const struct child_user *user, struct child_fs *ret);
void child_fs_leave(const struct child_fs *fs);

/* chdir(2) that follows no /proc/PID/fd link (RESOLVE_NO_MAGICLINKS): execd's descriptors are still
 * open here, and some belong to the host. */
int child_enter(const char *cwd);

/* Limits capabilities and system calls, changes to the user (which then owns its standard output
 * and error, where the chown is permitted) and to `cwd` (NULL: stay). `name` is only used in the
 * message of ret_step. Changing to the current user needs no privilege. If place->enter is set, it
 * does all of this instead. */
int child_settle(const struct child_place *place, const struct child_user *user, const char *cwd,
                 const char *name, struct proc_step *ret_step);
