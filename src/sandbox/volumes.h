/* volumes.h - directories and files of the host inside a sandbox, where its plan says.
 *
 * A volume shows ids 0..65535 on disk as such inside, like a layer, and is nosuid and nodev; what
 * is mounted below it on the host does not come along. Errors name the place inside. */
#pragma once

#include "sandbox/mounts.h"

/* In the parent: clones what the `binds` of the plan are open on, directories or regular files, as
 * detached mounts into m, where mounts_done finds them. -ENOTSUP when a file system cannot map ids.
 */
int volumes_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                    const int *binds, struct err *e);

/* In the child, once the root is whole and before it is /: makes the missing places, which belong
 * to root inside, and mounts in the plan's order. Links of the image are followed as the sandbox
 * would follow them, so none leads out of its root, or to what is ours there. No allocation. */
int volumes_mount(const struct mounts *m, struct err *e);
