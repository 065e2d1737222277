/* layers.h - lower directories of a sandbox, prepared by the parent.
 *
 * Each must be on a mount that maps its ids to those of the sandbox. Layers are mostly in one
 * directory, so one mount of the nearest directory above all of them is cloned and mapped, and each
 * layer is opened below it. A clone for each layer would cost as much as the rest of a create. */
#pragma once

#include "sandbox/mounts.h"

/* Opens the plan's layers into m->lowers, and the mounts they are on into m->bases. */
int layers_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                   const int *layers, struct err *e);
/* The same for one directory on a mount of its own; returns its descriptor. */
int layers_prepare_one(struct mounts *m, int dir, int userns, struct err *e);
