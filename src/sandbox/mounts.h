/* mounts.h - the file systems of a sandbox, as tables. Runs in the child, as real root, before
 * pivot_root. No allocation. Errors name the mount. */
#pragma once

#include "base/err.h"
#include "sandbox/spawn.h"

enum {
    MOUNTS_LOWERS_MAX = PLAN_LAYERS_MAX + 1, /* the host root, too */
    MOUNTS_BASES_MAX = 64,
};

/* A process cannot mount by descriptors of another mount namespace. So the parent clones, ID-maps
 * and detaches the layers, and the child opens the state directory again. */
struct mounts {
    const struct spawn_slot *slot;
    const struct plan *plan;
    int lowers[MOUNTS_LOWERS_MAX]; /* directories of /, topmost first */
    size_t lower_count;
    int bases[MOUNTS_BASES_MAX]; /* detached mounts that these and usr_lower are on */
    size_t base_count;
    int binds[PLAN_BINDS_MAX]; /* volumes, in the plan's order */
    size_t bind_count;
    int usr_lower;  /* of /usr for PLAN_ROOT_HOST */
    int disk;       /* mount with the writable layer, or -EBADF */
    bool lasts;     /* the writable layer outlives the sandbox */
    int state, dir; /* <state> and the directory of the writable layer, opened by the child */
    int stage;      /* where mounts are kept until the root exists */
    int root;       /* the new root, once mounted */
};

#define MOUNTS_NONE                                                                                \
    ((struct mounts){.usr_lower = -EBADF,                                                          \
                     .disk = -EBADF,                                                               \
                     .state = -EBADF,                                                              \
                     .dir = -EBADF,                                                                \
                     .stage = -EBADF,                                                              \
                     .root = -EBADF})

/* In the parent: opens the same directory or file in our own mount namespace, to be cloned there;
 * `given` is of the host's. -ESTALE when its path leads to another now. */
int mounts_reopen(int given, int open_flags, struct err *e);
/* In the parent; mounts_done undoes it. `layers` are those of the plan. Without a plan it is the
 * host root, mounted ahead. */
int mounts_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                   const int *layers, struct err *e);
void mounts_done(struct mounts *m);

/* In the child, before there is a plan. mounts_open: the directories it needs. mounts_system:
 * /proc, /sys, /dev, /dev/pts, /dev/shm, /dev/mqueue and /tmp, at <state>/stage. mounts_mask: hides
 * or write-protects what a container must not use. */
int mounts_open(struct mounts *m, struct err *e);
/* Mounts the limited disk with the writable layer, if there is one. */
int mounts_disk(struct mounts *m, struct err *e);
int mounts_system(const struct mounts *m, struct err *e);
int mounts_mask(const struct mounts *m, struct err *e);
/* In the child. mounts_root: attaches overlays at <state>/mnt, uses up the bases.
 * mounts_drop_root: undoes it for another root. mounts_unstage: moves the staged mounts there. */
int mounts_root(struct mounts *m, struct err *e);
int mounts_drop_root(struct mounts *m, struct err *e);
int mounts_unstage(const struct mounts *m, struct err *e);
/* Looks up files that most commands of a host root need, so that the kernel has them cached. */
void mounts_warm(const struct mounts *m);
/* Makes it "/" (pivot_root); after that no path leads to the host. */
int mounts_pivot(const struct mounts *m, struct err *e);
