/* memory.h - the memory of a sandbox behind an OCI runtime that can save it (OCI_CAN_MEMORY).
 *
 * The guard of the sandbox passes no connections meanwhile, and execd closes those it has: they end
 * outside of what is saved. If the process that saves is killed, the guard goes on by itself. */
#pragma once

#include "broker/broker.h"

struct memory_hold {
    int guard; /* connection to the guard; -EBADF = none */
    bool paused;
};

/* The sandbox's runtime, if it can save memory: -ENOTSUP with the reason if not. */
int memory_check(const struct broker *b, const struct slot_record *record, struct err *e);
/* Pauses the sandbox and saves its memory into the empty directory `target`. It stays paused, so
 * that its files can be copied as of the same moment, until memory_release, due in any case. */
int memory_save(const struct broker *b, const struct slot_record *record, int target,
                struct memory_hold *hold, struct err *e);
void memory_release(const struct broker *b, const struct slot_record *record,
                    struct memory_hold *hold);
/* Bytes on disk of what memory_save left there. */
uint64_t memory_bytes(int target);
