/* target.h - writes a file so that readers see all of the old content or all of the new.
 *
 * New content goes to a temporary file beside the old one and takes its place by rename(2), with
 * the mode and owner of the old one. Links are followed: what they lead to is replaced. Where that
 * cannot be (a device, a pipe, a file that is mounted, a directory we may not write to, an owner we
 * may not give) the file is written in place. Nothing is synced: a file is whole for everyone on
 * this machine, and as durable as the kernel's write-back makes it. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "execd/fs.h"

struct target {
    int dir; /* where it stands; -EBADF when the target is not open */
    int fd;  /* to write to */
    char name[NAME_MAX + 1];
    char temp[FS_TEMP_NAME_MAX]; /* "" in place */
};

/* Creates with mode 0777 minus the umask. -EISDIR for a directory. */
int target_open(struct target *t, const char *path, struct err *e) MUST_USE;
/* The same for a name of an open directory (borrowed). A link of that name is replaced itself. */
int target_open_at(struct target *t, int dir, const char *name, struct err *e) MUST_USE;
/* Puts it into place. The target is closed then; on failure what was written is gone, unless it was
 * written in place. */
int target_commit(struct target *t, struct err *e) MUST_USE;
/* Closes it, written but not in place yet: that is for the caller to do, by renaming *ret_temp in
 * its directory. "" when it was written in place. On failure as target_commit. */
int target_keep(struct target *t, char ret_temp[FS_TEMP_NAME_MAX], struct err *e) MUST_USE;
void target_drop(struct target *t); /* gives up what was not committed; not open is fine */

#define TARGET_NONE ((struct target){.dir = -EBADF, .fd = -EBADF})
