/* snapshot.h - processes that copy and merge layers, beside the workers. */
#pragma once

#include "broker/broker.h"
#include "broker/layer_copy.h"

enum { SNAPSHOT_MS_MAX = 15 * 60 * 1000 };

/* Both start the work and return a socket, on which one struct broker_copied arrives. Closing it
 * stops the work, and SNAPSHOT_MS_MAX end it. The target is an empty directory, opened in our mount
 * namespace. */

/* Freezes the sandbox, copies its writable layer, and thaws it unless a user had paused it. `dir`
 * is the slot's directory. */
int snapshot_start(struct broker *b, const struct slot_record *record, int dir, int target,
                   int memory, struct err *e);
int merge_start(struct broker *b, const struct layer_merge *merge, int target, struct err *e);
