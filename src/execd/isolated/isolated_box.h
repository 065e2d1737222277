/* isolated_box.h - the box: the namespaces of an isolated session, and how a process enters them.
 *
 * A box has its own PID, mount, IPC and UTS namespaces and, unless it shares the network, a network
 * namespace with only loopback. Its first process is a copy of execd that dropped all privileges
 * and waits. When that process ends, the kernel kills every process inside. There is no user
 * namespace: creating a box needs CAP_SYS_ADMIN in the current one, and uids and gids mean the same
 * inside and outside.
 *
 *   /              the sandbox's, read-only; later mounts do not appear
 *   /tmp /run      a tmpfs each; the balanced profile uses the sandbox's /tmp
 *   /dev           the six standard devices, and its own devpts, /dev/shm and mqueue
 *   /proc          of the box's processes only; sensitive files are masked
 *   the workspace  writable, read-only, or an overlay above the sandbox's, which stays unchanged
 *   further paths  the sandbox's, writable
 *
 * All functions here run between fork and exec: they do not allocate, lock or log. */
#pragma once

#include <signal.h>

#include "execd/core/child.h"

enum box_mode { BOX_RW, BOX_OVERLAY, BOX_RO };

enum { BOX_WRITABLE_MAX = 16, BOX_PATH_BYTES_MAX = 4096 };

/* Descriptors that the first process sends to execd; -EBADF = not sent. */
enum box_fd { BOX_FD_PID, BOX_FD_IPC, BOX_FD_UTS, BOX_FD_NET, BOX_FD_MNT, BOX_FD_UPPER, BOX_FDS };

struct child_box {
    int fds[BOX_FDS];
    struct child_user user; /* default user of processes in it */
};

struct box_plan {          /* borrowed; the child has its own copy */
    const char *workspace; /* its path in the box, absolute and clean */
    const char *real;      /* its path outside, with symlinks resolved */
    int place;             /* descriptor of it: `real` must still lead there */
    enum box_mode mode;
    const char *upper;    /* BOX_OVERLAY: directory of upper and work; NULL = in a tmpfs */
    uint64_t upper_bytes; /* size of that tmpfs */
    const char *hidden; /* layers of other sessions, hidden even from root; may be NULL or absent */
    const char *writable[BOX_WRITABLE_MAX]; /* absolute, clean, existing, without symlinks */
    size_t writable_count;
    bool own_tmp, share_net;
    int channel; /* SOCK_SEQPACKET: sends the descriptors; closing it ends the box */
};

unsigned long box_namespaces(const struct box_plan *plan); /* for proc_spec.namespaces */
/* For proc_spec.prepare with the plan as its argument: returns only if a step fails. On success it
 * closes the spawn's report; the descriptors are in the channel by then. */
int box_become(void *plan, struct proc_step *ret_step);

/* For the prepare hook of a child: enters the box of `place`, as `user` or, without one, as the
 * box's default user. Drops all capabilities and installs the filter of isolated_filter.h. `cwd` is
 * a path inside the box; NULL is /. Returns in a new process inside the box, which leads its own
 * process group. The calling process stays outside: it waits, forwards signals to that group, and
 * exits as that process does. After a SIGTERM it waits for the whole group. */
int box_enter(const struct child_place *place, const struct child_user *user, const char *cwd,
              const char *name, struct proc_step *ret_step);
/* The waiting process turns CHILD_KILL_GROUP into SIGKILL for that group. A SIGKILL would only end
 * the waiting process itself. */
/* Enters only the mount namespace, without changing user: to see files as the box does. */
int box_enter_view(const struct child_place *place, struct proc_step *ret_step);
