/* slot.h - the directory of one sandbox, which is also the claim on its number.
 *
 *   <state>/slots/<k>/record   struct slot_record: who has it
 *                     upper work        writable layer of /, and overlayfs' scratch
 *                     usr usrwork       the same for /usr of PLAN_ROOT_HOST
 *                     disk.*            an image that has these four instead, see disk.h
 *                     exit log          execd's report and the entrypoint's output
 *
 * A number is claimed by mkdir and given back by removing the directory, last of all: so a range of
 * user ids is never used twice while a file of it exists. Several brokers share the numbers. */
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
    SLOT_READY = 1, /* made ahead by the owner, a broker */
    SLOT_LIVE,      /* a sandbox: the owner is its PID 1 */
};

/* Names a process for good: the number may be reused, with the start time it cannot be mistaken. */
struct slot_owner {
    int32_t pid;
    uint32_t boot; /* a digest of the boot's id: ticks count from each boot anew */
    uint64_t start_ticks;
};

struct slot_record {
    uint32_t magic, version;
    uint32_t slot, state; /* enum slot_state */
    struct slot_owner owner;
    uint64_t created_us;  /* wall clock */
    uint32_t net, root;   /* enum plan_net, plan_root */
    char id[PLAN_ID_MAX]; /* of SLOT_READY: for which it is being made; "" until a create has it */
};

static inline uint32_t slot_uid_first(uint32_t slot)
{
    return SLOT_UID_FIRST + slot * PLAN_UID_RANGE;
}

/* Claims a free number at or after `hint` and makes what it needs, empty. *ret_dir is open on it.
 */
int slot_claim(const struct host *h, uint32_t hint, uint32_t *ret_slot, int *ret_dir,
               struct err *e);
int slot_open(const struct host *h, uint32_t slot, struct err *e);
/* Removes the directory and so the claim. It may take long: a sandbox leaves as many files as it
 * likes. */
int slot_remove(const struct host *h, uint32_t slot, struct err *e);
/* The same if there is little to remove; else 1, when part of it is gone. */
int slot_remove_little(const struct host *h, uint32_t slot, struct err *e);

int slot_write_record(int dir, const struct slot_record *record, struct err *e);
/* -ENOENT when there is none yet, -EBADMSG when it is not whole. */
int slot_read_record(int dir, struct slot_record *ret, struct err *e);

int slot_owner_of(pid_t pid, struct slot_owner *ret);
bool slot_owner_alive(const struct slot_owner *owner);

int slot_each(const struct host *h, void (*visit)(void *user, uint32_t slot), void *user,
              struct err *e);
