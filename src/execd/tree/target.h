/* target.h - replaces a file atomically: readers see all of the old content or all of the new.
 *
 * New content goes to an unnamed file (O_TMPFILE) that gets its name once it is complete: a writer
 * that is killed before leaves nothing. If the file system lacks O_TMPFILE, or there is no /proc to
 * name the file, it goes to a temporary file beside the old one. An old file is replaced by
 * rename(2); the new one gets its mode and owner. Symbolic links are followed and their target is
 * replaced. If replacing is impossible (a device, a FIFO, a mounted file, a directory that is not
 * writable, an owner that may not be set) the file is written in place. Nothing is synced: the file
 * is complete for every process on this machine, and as durable as the kernel's write-back makes
 * it. */
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include "base/err.h"
#include "execd/tree/fs.h"

struct target {
    int dir; /* its directory; -EBADF when the target is not open */
    int fd;  /* to write to */
    bool in_place;
    char name[NAME_MAX + 1];
    char temp[FS_TEMP_NAME_MAX]; /* "" when unnamed or in place */
};

/* Creates with mode 0777 minus the umask. -EISDIR for a directory. */
int target_open(struct target *t, const char *path, struct err *e) MUST_USE;
/* The same for a name in an open directory (borrowed). A link of that name is replaced itself. */
int target_open_at(struct target *t, int dir, const char *name, struct err *e) MUST_USE;
/* Puts the file into place and closes the target. On failure the content is discarded, unless it
 * was written in place. */
int target_commit(struct target *t, struct err *e) MUST_USE;
void target_drop(struct target *t); /* discards what was not committed; no-op if not open */

#define TARGET_NONE ((struct target){.dir = -EBADF, .fd = -EBADF})
