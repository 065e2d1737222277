/* isolated_box.h - the sandbox inside the sandbox that an isolated session is: how its namespaces
 * are made, and how a process gets into them.
 *
 * A box has process, mount, IPC and host name namespaces of its own, and unless it shares it, a
 * network without anything but loopback. Its first process is a copy of us that gave up all rights
 * and waits; when it ends the kernel ends everything inside. There is no user namespace: who makes
 * a box must have CAP_SYS_ADMIN in the one he is in, and ids mean the same inside and outside.
 *
 *   /              as ours, read-only, and nothing mounted later appears
 *   /tmp /run      a tmpfs each; the balanced profile has our /tmp
 *   /dev           the six devices everybody has, and terminals, shared memory and message queues
 *                  of its own
 *   /proc          of the box's processes only; what is no business of theirs is masked
 *   the workspace  writable, read-only, or writable above ours, which stays as it is
 *   further paths  writable, as ours
 *
 * Everything here runs between fork and exec: nothing allocates, locks or logs. */
#pragma once

#include <signal.h>

#include "execd/core/child.h"

enum box_mode { BOX_RW, BOX_OVERLAY, BOX_RO };

enum { BOX_WRITABLE_MAX = 16, BOX_PATH_BYTES_MAX = 4096 };

/* What its first process hands to us; unset is -EBADF. */
enum box_fd { BOX_FD_PID, BOX_FD_IPC, BOX_FD_UTS, BOX_FD_NET, BOX_FD_MNT, BOX_FD_UPPER, BOX_FDS };

struct child_box {
    int fds[BOX_FDS];
    struct child_user user; /* of what has no other */
};

struct box_plan {          /* borrowed; the child has its own copy */
    const char *workspace; /* its name in the box, absolute and clean */
    const char *real;      /* where it is, with no link on the way */
    int place;             /* open on it: what is there must be that */
    enum box_mode mode;
    const char *upper;    /* of BOX_OVERLAY: where it keeps upper and work, or NULL: in a tmpfs */
    uint64_t upper_bytes; /* size of that tmpfs */
    const char *hidden;   /* what other sessions keep, root or not; NULL, or absent, is fine */
    const char *writable[BOX_WRITABLE_MAX]; /* absolute and clean; exist, with no link on the way */
    size_t writable_count;
    bool own_tmp, share_net;
    int channel; /* SOCK_SEQPACKET: descriptors come out of it, and its end is the box's */
};

unsigned long box_namespaces(const struct box_plan *plan); /* for proc_spec */
/* For proc_spec.prepare, with the plan: does not return unless a step fails. Success closes the
 * report of the spawn; descriptors are in the channel by then. */
int box_become(void *plan, struct proc_step *ret_step);

/* For the prepare of a child of ours: into the box that the place has, as this user or, when he is
 * none, as the box's own; without any capability, and without the calls of isolated_filter.h. `cwd`
 * is as the box sees it; NULL is /. Returns in another process, the first one's child in the box,
 * with a process group of its own; the first one waits, passes signals on to that group, and ends
 * as its child does. After a SIGTERM it waits for all of the group. */
int box_enter(const struct child_place *place, const struct child_user *user, const char *cwd,
              const char *name, struct proc_step *ret_step);
/* The waiting process turns CHILD_KILL_GROUP into SIGKILL for that group: SIGKILL itself would end
 * the waiting process alone. */
/* The mount namespace only, as ourselves: to see files as the box does. */
int box_enter_view(const struct child_place *place, struct proc_step *ret_step);
