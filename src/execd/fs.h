/* fs.h - small questions to the file system, and its errors in words. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/* "no such file or directory" for ENOENT: in lower case, and the same words with every C library.
 * Borrowed; until the next call. */
const char *fs_text(int code);

/* Makes a directory and whatever leads there, with `mode` minus the umask. One that exists is fine;
 * a file in the way is -ENOTDIR. *ret_made (may be NULL) tells whether the last one is new. */
int fs_make_dirs(const char *path, mode_t mode, bool *ret_made) MUST_USE;

/* Appends where a path leads when its last component is a link, or a link to a link, and so on; the
 * path itself when it is none. What it leads to need not exist. -ELOOP for a circle. */
int fs_follow(const char *path, struct buf *out) MUST_USE;

/* Opens the directory that holds the last component of `path`, O_PATH, and points at that component
 * ("x" of "/a/x", of "x" and of "x//"). -EINVAL when it is "", "/", "." or "..". */
int fs_open_parent(const char *path, struct str *ret_name) MUST_USE;

/* A name nobody uses, for what becomes a file of a directory later. */
enum { FS_TEMP_NAME_MAX = sizeof(".opensandbox-0123456789abcdef") };
void fs_temp_name(char out[FS_TEMP_NAME_MAX]);
