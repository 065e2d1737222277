/* target.h - writes a file so that readers see all of the old content or all of the new.
 *
 * New content goes to a file without a name, which gets the one it is for when it is whole: whoever
 * is killed before leaves nothing. Where the file system knows no such files, or /proc is not there
 * to name them, it goes to a temporary file beside the old one. An old one is replaced by
 * rename(2); the new one has its mode and owner. Links are followed: what they lead to is replaced.
 * Where that cannot be (a device, a pipe, a file that is mounted, a directory we may not write to,
 * an owner we may not give) the file is written in place. Nothing is synced: a file is whole for
 * everyone on this machine, and as durable as the kernel's write-back makes it. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "execd/tree/fs.h"

struct target {
    int dir; /* where it stands; -EBADF when the target is not open */
    int fd;  /* to write to */
    bool in_place;
    char name[NAME_MAX + 1];
    char temp[FS_TEMP_NAME_MAX]; /* "" without a name, or in place */
};

/* What is written, and not where it belongs yet. */
struct target_kept {
    int fd;                      /* O_PATH, of a file without a name; or -EBADF */
    char temp[FS_TEMP_NAME_MAX]; /* beside its place; or "" */
};

/* Creates with mode 0777 minus the umask. -EISDIR for a directory. */
int target_open(struct target *t, const char *path, struct err *e) MUST_USE;
/* The same for a name of an open directory (borrowed). A link of that name is replaced itself. */
int target_open_at(struct target *t, int dir, const char *name, struct err *e) MUST_USE;
/* Puts it into place. The target is closed then; on failure what was written is gone, unless it was
 * written in place. */
int target_commit(struct target *t, struct err *e) MUST_USE;
void target_drop(struct target *t); /* gives up what was not committed; not open is fine */

/* Closes it, written but not in place yet: *ret is to be placed or dropped. It holds a descriptor
 * at most if `may_hold`, or if its directory is gone, and none when there are no more. Nothing is
 * left to do for what was written in place. On failure as target_commit. */
int target_keep(struct target *t, bool may_hold, struct target_kept *ret, struct err *e) MUST_USE;
/* Puts it into place, by that name of its directory; or -errno, and it is still kept. */
int target_kept_place(struct target_kept *kept, int dir, const char *name) MUST_USE;
void target_kept_drop(struct target_kept *kept, int dir); /* placed, or empty, is fine */

#define TARGET_NONE      ((struct target){.dir = -EBADF, .fd = -EBADF})
#define TARGET_KEPT_NONE ((struct target_kept){.fd = -EBADF})
