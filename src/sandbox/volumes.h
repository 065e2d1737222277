/* volumes.h - mounts directories and files of the host in a sandbox, as its plan says.
 *
 * A volume shows ids 0..65535 on disk unchanged inside, like a layer, and is nosuid and nodev.
 * Mounts below it on the host are not included. Errors name the path inside. */
#pragma once

#include "sandbox/mounts.h"

/* In the parent: clones the directories or regular files of `binds` as detached mounts into m,
 * where mounts_done closes them. -ENOTSUP when a file system does not support ID-mapped mounts. */
int volumes_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                    const int *binds, struct err *e);

/* In the child, when the root is complete but not yet /: makes missing mount points, owned by root
 * inside, and mounts in the plan's order. Resolves symbolic links of the image within the root;
 * none may lead to /proc, /sys or /dev. No allocation. */
int volumes_mount(const struct mounts *m, struct err *e);
