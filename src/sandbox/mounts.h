/* mounts.h - the file system a sandbox sees, as tables. Runs in the child, as real root, before
 * pivot. No allocation. Errors name the mount. */
#pragma once

#include "base/err.h"
#include "sandbox/spawn.h"

/* A descriptor of the host's mount namespace is of no use to mount calls in another, so layers are
 * cloned, ID-mapped and detached by the parent, and the child opens our state directory anew. */
struct mounts {
    const struct spawn_slot *slot;
    const struct plan *plan;
    int lowers[PLAN_LAYERS_MAX]; /* of /, topmost first */
    size_t lower_count;
    int binds[PLAN_BINDS_MAX]; /* volumes, in the plan's order */
    size_t bind_count;
    int usr_lower;  /* of /usr for PLAN_ROOT_HOST */
    int disk;       /* a mount that has the writable layer, or -EBADF */
    int state, dir; /* <state> and where the writable layer is, as the child has them */
    int stage;      /* where mounts wait for the root */
    int root;       /* the new root, once mounted */
};

#define MOUNTS_NONE                                                                                \
    ((struct mounts){.usr_lower = -EBADF,                                                          \
                     .disk = -EBADF,                                                               \
                     .state = -EBADF,                                                              \
                     .dir = -EBADF,                                                                \
                     .stage = -EBADF,                                                              \
                     .root = -EBADF})

/* In the parent: the same directory or file in our own mount namespace, to be cloned there; a
 * caller's descriptor belongs to the host's. -ESTALE when another one is at its path now. */
int mounts_reopen(int given, int open_flags, struct err *e);
/* In the parent, and its undoing. `layers` are those of the plan; without one it is the host root,
 * made ahead for plans that may want it. */
int mounts_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                   const int *layers, struct err *e);
void mounts_done(struct mounts *m);

/* In the child, before there is a plan: the directories it needs; /proc, /sys, /dev, /dev/pts,
 * /dev/shm, /dev/mqueue and /tmp, at <state>/stage; then hidden and write-protected what a
 * container must not see or touch. */
int mounts_open(struct mounts *m, struct err *e);
/* The limited disk the writable layer is on, if there is one. */
int mounts_disk(struct mounts *m, struct err *e);
int mounts_system(const struct mounts *m, struct err *e);
int mounts_mask(const struct mounts *m, struct err *e);
/* In the child: overlay(s), attached at <state>/mnt, which takes the lowers; the undoing, when the
 * plan wants another root than was made ahead; the staged mounts moved there. */
int mounts_root(struct mounts *m, struct err *e);
int mounts_drop_root(struct mounts *m, struct err *e);
int mounts_unstage(const struct mounts *m, struct err *e);
/* Looks up what nearly every command of a host root needs, so that the first finds it cached. */
void mounts_warm(const struct mounts *m);
/* Makes it "/"; nothing of the host is reachable by path afterwards. */
int mounts_pivot(const struct mounts *m, struct err *e);
