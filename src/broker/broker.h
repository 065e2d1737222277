/* broker.h - internals of the broker, the only privileged program. Single-threaded; may block.
 *
 * A worker serves connections one request at a time, and makes slots ahead while there is none.
 * Workers share the prepared host and the slot numbers, nothing else. */
#pragma once

#include "base/list.h"
#include "broker/wire.h"
#include "sandbox/host.h"
#include "sandbox/slot.h"
#include "sandbox/spawn.h"

/* A slot made ahead: complete except for a plan. */
struct ready {
    struct list link;
    enum plan_net net;
    struct spawn_slot slot;
    struct cgroup cgroup;
    int dir;
    struct parked parked;
    bool has_host;           /* the host's root is mounted already */
    struct slot_owner child; /* the parked child; all 0 once it may have ended */
};

/* A directory from which callers other than root may take layers and volumes. */
struct broker_allowed {
    int dir;    /* O_PATH, in our mount namespace */
    char *path; /* without symbolic links */
};

enum { BROKER_ALLOWED_MAX = 64, BROKER_CONNECTIONS_MAX = 64 };

enum {
    JOBS_MAX = 16,       /* of one worker at a time, without counts */
    JOBS_COUNTS_MAX = 4, /* counts of volumes, beside them: listing volumes stops no snapshot */
    JOBS_FDS_MAX = PLAN_LAYERS_MAX + 1,
    JOBS_HOST_FDS_MAX = 256,
    JOBS_HOST_FD_LAST = 1024, /* higher ones are not looked at: a worker begins with few */
};

struct job_note {
    int pidfd;
    bool counts;               /* a volume */
    char freezes[PLAN_ID_MAX]; /* id of the sandbox that it may leave frozen; "" = none */
};

/* Processes for long work, see jobs.h. */
struct jobs {
    struct job_note notes[JOBS_MAX + JOBS_COUNTS_MAX];
    size_t count;
    int ended; /* epoll, readable when one has ended */
    int host_fds[JOBS_HOST_FDS_MAX];
    size_t host_fd_count;
};

struct broker {
    struct host host;
    struct broker_allowed allowed[BROKER_ALLOWED_MAX];
    size_t allowed_count;
    struct slot_owner self;
    struct list ready[2]; /* indexed by enum plan_net */
    uint32_t ready_count[2];
    uint32_t ready_total[2];  /* that all workers together keep ready */
    uint32_t worker, workers; /* our index, and the number of workers */
    uint16_t plans_host;      /* bit per plan, the last in bit 0: it used the host's root alone */
    uint16_t plans_shifted;   /* the same: it had shifted layers */
    uint32_t plans;           /* how many bits count; new slots are made as these plans were */
    bool tied;                /* ends with the process that started it (--until-eof) */
    struct err blocked;       /* why the last user namespace could not be made; code 0 = it could */
    uint32_t slot_hint;       /* where the search for a free number begins */
    int unpack;               /* program that unpacks layers; negative = none */
    int remover;              /* eventfd that wakes it; -EBADF = none: remove everything here */
    int leftovers[2];         /* pipe to the cleaner with numbers of slots; -EBADF = none */
    struct jobs jobs;         /* of this worker */
};

/* allow.c */
/* Adds a directory; call after host_open. The state directory must not be at or below it. */
int allow_add(struct broker *b, const char *path, struct err *e);
/* Whether the broker may use what `fd` is open on for this caller. Root may name anything, others
 * an allowed directory and all below it. */
int allow_check(const struct broker *b, uid_t caller, int fd, struct err *e);
/* The same, and opens it (O_PATH) in this process's mount namespace. The caller closes it. */
int allow_open(const struct broker *b, uid_t caller, int fd, struct err *e);
/* The same for a directory, for reading; with `empty` it must have no files. */
int allow_open_dir(const struct broker *b, uid_t caller, int fd, bool empty, struct err *e);
/* Opens path (O_PATH) relative to `dir`, which must be allowed, and never above it. Follows no
 * symbolic link (-ELOOP): a sandbox that mounts the directory may plant one at any time. `make`
 * creates missing directories, owned by root, mode 0755. */
int allow_reach(const struct broker *b, uid_t caller, int dir, struct str path, bool make,
                struct err *e);

/* worker.c: runs a worker. Root and `caller` may connect. */
NORETURN void worker_main(struct broker *shared, uint32_t index, int listener, uid_t caller);

/* ready.c */
/* userns_make() for the ids of a slot; sets or clears b->blocked. */
int ready_userns(struct broker *b, uint32_t slot, struct err *e);
/* Makes the slot's namespace for ids of shifted layers, unless it has it. */
int ready_layer_userns(struct spawn_slot *slot, struct err *e);
/* Raises the wanted total to that of this connection: the highest of all connections counts. */
void ready_want(struct broker *b, const struct broker_config *c);
/* This worker's share of that total. */
uint32_t ready_share(const struct broker *b, enum plan_net net);
int ready_make(struct broker *b, enum plan_net net, struct ready **ret, struct err *e);
void ready_free(struct broker *b, struct ready *r); /* releases the slot */
/* Notes which plans there are, for the slots that are made from now on. */
void ready_note(struct broker *b, const struct plan *plan);
/* The slot that needs least changes for this plan. NULL when there is none. */
struct ready *ready_take(struct broker *b, const struct plan *plan);
/* Makes one slot if fewer than wanted are ready: 1 = made, 0 = enough, -errno. */
int ready_fill_one(struct broker *b, const uint32_t wanted[2], struct err *e);
void ready_free_all(struct broker *b);

/* A connection. */
struct broker_peer {
    uid_t uid;       /* from SO_PEERCRED */
    bool configured; /* it has sent BROKER_CONFIG */
    struct broker_config config;
};

/* ops.c: answers one request. Returns the number of descriptors for the caller in ret_files. */
size_t broker_answer(struct broker *b, struct broker_peer *peer,
                     const union broker_message *message, size_t bytes, const int *fds,
                     size_t fd_count, struct broker_reply *reply, int ret_files[BROKER_FILE_COUNT]);

/* life.c: sandboxes by id. -ENOENT when there is none. */
int life_find(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
              struct err *e);
/* Also finds one that is SLOT_READY: a worker is making it, or died while doing so. */
int life_find_any(const struct broker *b, const char *id, struct slot_record *ret, int *ret_dir,
                  struct err *e);
/* The same, after waiting for the exclusive lock, and so for all running creates: a slot that is
 * SLOT_READY then has lost its worker and must be destroyed. Removes a name without a slot. */
int life_find_leftover(const struct broker *b, const char *id, struct slot_record *ret,
                       int *ret_dir, struct err *e);
/* Whether `dir` is still the directory of that slot: the number may have been reused. The answer
 * stays valid while the caller holds the directory's flock. */
bool life_is_current(const struct broker *b, uint32_t slot, int dir);
int life_name(const struct broker *b, const char *id, uint32_t slot, struct err *e);
/* Kills and removes everything of a slot, its claim last. If it left many files and there is a
 * remover, this removes the files and the claim later. `dir` is the slot's directory as the caller
 * found it; its flock excludes other processes. -ENOENT when another process was faster, and the
 * number may have been reused. */
int life_destroy(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e);
/* Kills a sandbox and frees its name: no process and no id of it is left on return. The cleaner
 * removes the rest, or this call if too many slots wait for that. Otherwise as life_destroy. */
int life_end(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e);
/* The same, but processes may be left that were killed and have not ended, unless their end could
 * be seen: by a volume, or by the next start of the sandbox. */
int life_end_soon(struct broker *b, uint32_t slot, int dir, const char *id, struct err *e);
/* Before a sandbox with volumes starts: its removal waits until its processes have ended. */
int life_note_shares(int dir, struct err *e);
/* Leaves a slot that could not be destroyed to the next sweep. */
void life_abandon(int dir);

/* policy.c: policies of the network, see netns_policy.h. `dir` is the slot's directory. */
int policy_close(const struct broker *b, uint32_t slot, int dir, struct err *e);
/* -ENOENT when the sandbox is gone, -EINVAL when it has no network. */
int policy_set(const struct broker *b, const struct slot_record *record, int dir,
               const struct netns_policy *policy, struct err *e);
int policy_learn(const struct broker *b, const struct slot_record *record, int dir,
                 const struct netns_entry *entries, size_t count, struct err *e);
int policy_traffic_of(const struct broker *b, const struct slot_record *record,
                      struct netns_traffic *ret, struct err *e);
/* Of a removed sandbox. As long as it fails the slot must stay: the rules would be those of the
 * next sandbox with its number. */
int policy_forget(const struct broker *b, uint32_t slot, int dir, struct err *e);

/* pause.c: freezing. `dir` is the slot's directory; -ESRCH when the sandbox has ended. */
/* Pauses or resumes a sandbox. While a snapshot holds it, it stays frozen until that is done. */
int pause_set(const struct broker *b, const struct slot_record *record, int dir, bool paused,
              struct err *e);
/* Whether it is paused; not while only a snapshot holds it. */
bool pause_is_set(const struct broker *b, const struct slot_record *record, int dir);
/* Freezes it until this process calls pause_release. -EBUSY when another process holds it. */
int pause_hold(const struct broker *b, const struct slot_record *record, int dir, struct err *e);
/* Thaws it, unless a user has paused it. */
int pause_release(const struct broker *b, const struct slot_record *record, int dir, struct err *e);
/* Undoes the hold of a process that died, if there is one. */
void pause_heal(const struct broker *b, const struct slot_record *record, int dir);

/* trash.c: directories of callers with any number of files that are still to be erased. */
/* Erases the directory parent/name, a single name: the name is free on return, the eraser erases
 * the files, even if any process dies in between. -ENOENT when there is none. */
int trash_put(const struct broker *b, int parent, const char *name, struct err *e);
/* Erases all of the trash, after waiting for another process that does so. Returns the number of
 * directories. */
int trash_empty(const struct broker *b, struct err *e);
/* The same, but leaves it to the eraser if there is one. */
int trash_sweep(const struct broker *b, struct err *e);

/* remover.c: processes that remove what takes long, for the others. */
/* Enables the remover, the eraser and the cleaner, for this process and those it forks. */
int remover_open(struct broker *b, struct err *e);
/* Tells both that there is a slot without an owner, or something in the trash. */
void remover_wake(const struct broker *b);
/* Whether they were woken since the last call: then start them. */
bool remover_is_wanted(const struct broker *b);
/* Leaves a slot without processes, name and record to the cleaner. False when too many wait. */
bool leftover_put(const struct broker *b, uint32_t slot);
/* Each runs in a process of its own. The remover removes slots, the eraser empties the trash. The
 * cleaner removes the slots of leftover_put(), and ends when there was none for a while. */
int remover_run(struct broker *b, struct err *e);
int eraser_run(struct broker *b, struct err *e);
int cleaner_run(struct broker *b, struct err *e);

/* sweep.c: removes what no living process owns. Returns the number of removed things. */
int broker_sweep_all(struct broker *b, bool dead_too, struct err *e);
/* Removes this slot, if it has no owner. */
int broker_sweep_slot(struct broker *b, uint32_t slot, struct err *e);
/* Slots only, without dead sandboxes. */
int broker_sweep_slots(struct broker *b, struct err *e);
