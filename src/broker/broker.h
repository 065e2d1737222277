/* broker.h - the one privileged program, from inside: single-threaded, it may block.
 *
 * A worker serves connections one request at a time and makes slots ahead while nobody asks.
 * Workers share the host's preparation, the slot numbers and nothing else. */
#pragma once

#include "base/list.h"
#include "broker/wire.h"
#include "sandbox/host.h"
#include "sandbox/slot.h"
#include "sandbox/spawn.h"

/* A slot made ahead: all it lacks is a plan. */
struct ready {
    struct list link;
    enum plan_net net;
    struct spawn_slot slot;
    struct cgroup cgroup;
    int dir;
    struct parked parked;
    struct slot_owner child; /* the parked one, while it surely lives; all 0 if it does not */
};

/* A directory from which callers other than root may take layers and volumes. */
struct broker_allowed {
    int dir;    /* O_PATH, of our mount namespace */
    char *path; /* without links */
};

enum { BROKER_ALLOWED_MAX = 64, BROKER_CONNECTIONS_MAX = 64 };

struct broker {
    struct host host;
    struct broker_allowed allowed[BROKER_ALLOWED_MAX];
    size_t allowed_count;
    struct slot_owner self;
    struct list ready[2]; /* by enum plan_net */
    uint32_t ready_count[2];
    uint32_t ready_total[2];  /* that all workers together are to keep ready */
    uint32_t worker, workers; /* which of how many we are */
    bool expects_host;        /* the last plan wanted that root: so may the next */
    bool tied;                /* ends with whoever started it */
    struct err blocked;       /* why no user namespace could be made the last time; 0 = it could */
    uint32_t slot_hint;       /* where to look for a free number */
    int remover;              /* wakes it; -EBADF = there is none, remove everything yourself */
};

/* allow.c */
/* Adds a directory, once host_open was called. The state directory must not lie at or below it. */
int allow_add(struct broker *b, const char *path, struct err *e);
/* Whether a caller may have us use what `fd` is open on: root may name anything; others what is, or
 * lies beneath, an allowed directory. */
int allow_check(const struct broker *b, uid_t caller, int fd, struct err *e);
/* The same, and opens it (O_PATH) as this process sees it: a descriptor, the caller's. */
int allow_open(const struct broker *b, uid_t caller, int fd, struct err *e);
/* Opens path (O_PATH), relative to what the caller may have us use and never above it, name by name
 * without following a symbolic link (-ELOOP): a sandbox that mounts the same directory may put one
 * in the way at any time. `make` makes directories that are missing: root's, 0755. */
int allow_reach(const struct broker *b, uid_t caller, int dir, struct str path, bool make,
                struct err *e);

/* worker.c: the life of a worker. Root and `caller` may connect. */
NORETURN void worker_main(struct broker *shared, uint32_t index, int listener, uid_t caller);

/* ready.c */
/* userns_make() for the ids of a slot; sets or clears b->blocked. */
int ready_userns(struct broker *b, uint32_t slot, struct err *e);
/* Raises the total that is wanted to what one connection wants: the most of them counts. */
void ready_want(struct broker *b, const struct broker_config *c);
/* This worker's part of that total. */
uint32_t ready_share(const struct broker *b, enum plan_net net);
int ready_make(struct broker *b, enum plan_net net, struct ready **ret, struct err *e);
void ready_free(struct broker *b, struct ready *r);            /* gives the slot back */
struct ready *ready_take(struct broker *b, enum plan_net net); /* NULL when there is none */
/* Makes one more if fewer than wanted are there: 1 = made, 0 = enough, -errno. */
int ready_fill_one(struct broker *b, const uint32_t wanted[2], struct err *e);
void ready_free_all(struct broker *b);

/* One connection. */
struct broker_peer {
    uid_t uid;       /* as the kernel says */
    bool configured; /* it said BROKER_CONFIG */
    struct broker_config config;
};

/* ops.c: one request. Returns how many descriptors for the caller are in ret_files. */
size_t broker_answer(struct broker *b, struct broker_peer *peer,
                     const union broker_message *message, size_t bytes, const int *fds,
                     size_t fd_count, struct broker_reply *reply, int ret_files[BROKER_FILE_COUNT]);

/* life.c: sandboxes by id. -ENOENT when there is none. */
int life_find(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
              struct err *e);
/* Also one that is SLOT_READY: a worker is making it, or died while it did. */
int life_find_any(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
                  struct err *e);
/* The same, after waiting for the exclusive lock, so for every create that is under way: one that
 * is SLOT_READY then has lost its worker and is to be destroyed. A name without a slot is removed.
 */
int life_find_leftover(const struct broker *b, const char *id, struct slot_record *ret,
                       int *ret_dir, struct err *e);
/* Whether `dir` is still the directory of that slot: the number may have a new owner. Under its
 * lock (flock) the answer stays true. */
bool life_is_current(const struct broker *b, uint32_t slot, int dir);
int life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e);
/* Kills and removes everything of a slot, its claim last; when it left many files and there is a
 * remover, these, and with them the claim, a little later. `dir` is the slot's directory as the
 * caller found it; its lock keeps others from doing the same. -ENOENT when someone was faster, and
 * the number may be another's by now. */
int life_destroy(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e);
/* Leaves a slot that could not be destroyed to the next sweep. */
void life_abandon(int dir);

/* trash.c: directories of callers whose files are still to be erased, however many these are. */
/* Has the directory parent/name, a single name, erased: the name is free on return, the remover
 * does the rest. Survives the death of everybody. -ENOENT when there is none. */
int trash_put(const struct broker *b, int parent, const char *name, struct err *e);
/* Erases all that is noted, and waits for another process that does. Returns how many directories.
 */
int trash_empty(const struct broker *b, struct err *e);
/* The same, by the remover if there is one. */
int trash_sweep(const struct broker *b, struct err *e);

/* remover.c: a process that removes what others leave because it is much. */
/* From here on there is one, for us and for those we fork. */
int remover_open(struct broker *b, struct err *e);
/* There is a slot that is nobody's, or something in the trash. */
void remover_wake(const struct broker *b);
/* Whether someone woke it since this was asked last: then start it. */
bool remover_is_wanted(const struct broker *b);
/* Its work, in a process of its own. */
int remover_run(struct broker *b, struct err *e);

/* sweep.c: removes what no living process answers for. Returns how many slots. */
int broker_sweep_all(struct broker *b, bool dead_too, struct err *e);
/* The slots only, and no dead sandboxes. */
int broker_sweep_slots(struct broker *b, struct err *e);
