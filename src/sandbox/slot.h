/* slot.h - the directory of a sandbox, which is also the claim on its number.
 *
 *   <state>/slots/<k>/record       struct slot_record: its owner
 *                     upper work   writable layer of /, and overlayfs' work directory
 *                     usr usrwork  the same for /usr of PLAN_ROOT_HOST
 *                     disk.*       an image that has these four instead, see disk.h
 *                     exit log     execd's report and the entrypoint's output
 *
 * mkdir claims a number; removing the directory, as the last step, releases it: so a range of user
 * ids is never reused while a file of it exists. Several brokers share the numbers. */
#pragma once

#include "base/err.h"
#include "sandbox/host.h"
#include "sandbox/plan.h"
#include <sys/types.h>

enum {
    SLOT_COUNT_MAX = 16384,
    SLOT_UID_FIRST = 0x70000000, /* above the ranges of shadow and systemd-nspawn */
};

enum slot_state {
    SLOT_READY = 1, /* made ahead; the owner is a broker */
    SLOT_LIVE,      /* a sandbox: the owner is its PID 1 */
};

/* Identifies a process: a pid may be reused, but not with the same start time. */
struct slot_owner {
    int32_t pid;
    uint32_t boot; /* hash of the boot id: start times count from each boot */
    uint64_t start_ticks;
};

struct slot_record {
    uint32_t magic, version;
    uint32_t slot, state; /* enum slot_state */
    struct slot_owner owner;
    uint64_t created_us;            /* wall clock */
    uint32_t net, root;             /* enum plan_net, plan_root */
    char runtime[PLAN_RUNTIME_MAX]; /* plan.runtime */
    char id[PLAN_ID_MAX];           /* of SLOT_READY: the sandbox being made; "" before a create */
};

static inline uint32_t slot_uid_first(uint32_t slot)
{
    return SLOT_UID_FIRST + slot * PLAN_UID_RANGE;
}

/* Claims a free number at or after `hint` and makes its empty files. *ret_dir is its directory. */
int slot_claim(const struct host *h, uint32_t hint, uint32_t *ret_slot, int *ret_dir,
               struct err *e);
int slot_open(const struct host *h, uint32_t slot, struct err *e);
/* Removes the directory and so the claim. May take long: a sandbox may leave any number of
 * files. */
int slot_remove(const struct host *h, uint32_t slot, struct err *e);
/* The same if there are few files. Else 1, with some of them removed. */
int slot_remove_little(const struct host *h, uint32_t slot, struct err *e);

int slot_write_record(int dir, const struct slot_record *record, struct err *e);
/* -ENOENT when there is none yet, -EBADMSG when it is incomplete. */
int slot_read_record(int dir, struct slot_record *ret, struct err *e);

int slot_owner_of(pid_t pid, struct slot_owner *ret);
bool slot_owner_alive(const struct slot_owner *owner);

int slot_each(const struct host *h, void (*visit)(void *user, uint32_t slot), void *user,
              struct err *e);
