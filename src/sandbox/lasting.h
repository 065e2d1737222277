/* lasting.h - a writable layer that outlives its sandbox: a directory of the caller.
 *
 *   <dir>/upper work usr usrwork   as in a slot, with ids of shifted layers, see layer_ids.h
 *   <dir>/owner                    struct slot_owner of the sandbox that uses it
 *
 * The directory becomes ours: broker_reach and broker_erase are the caller's ways to it. A mount
 * maps the ids to those of the slot, so that any slot can use it later. The slot has a link to it,
 * for snapshots. While no sandbox uses it, <dir>/upper can be a layer of others.
 *
 * A volume of limited size (disk.h) can be that directory, too: then all this is in its image. */
#pragma once

#include "sandbox/slot.h"
#include "sandbox/spawn.h"

/* Makes what is missing in `dir` and returns a detached mount of it for the slot, which needs its
 * layer_userns. `given` is what the caller gave for `dir`: of a volume, the detached mount that is
 * used. `slot_dir` is the slot's directory, `owner` the process that will use it. -EBUSY while
 * another sandbox uses it. Everything there may be of a user's making. */
int lasting_open(int dir, int given, const struct spawn_slot *slot, int slot_dir,
                 const struct slot_owner *owner, struct err *e);

/* Opens the lasting layer of a slot for reading. `disks` is the directory with the images of
 * volumes. -ENOENT when it has none. */
int lasting_find(int slot_dir, int disks, struct err *e);
