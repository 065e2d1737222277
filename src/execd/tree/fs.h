/* fs.h - the file system by path: where a path may lead, small questions, and errors in words. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/* "no such file or directory" for ENOENT: in lower case, and the same words with every C library.
 * Borrowed; until the next call. */
const char *fs_text(int code);

/* From now on paths of this module, and of all that builds on it (walk, copy, remove, target), are
 * absolute and lie below `dir`. They are resolved beneath it: a link that is absolute or leads out
 * is -EACCES, as is any path outside. For the whole process and for good, as chroot(2) is, so that
 * no caller can forget it; call it before the first request. -ENOSYS where the kernel has no
 * openat2(2). */
int fs_confine(const char *dir, struct err *e) MUST_USE;
bool fs_is_confined(void);
/* For a copy of us that went elsewhere, or has become someone else: the same name, as it leads from
 * here and for who we are now. It is descriptor `fd` from now on, whatever that was; the one before
 * stays open. Fine when nothing is confined. */
int fs_confine_again(int fd) MUST_USE;

/* Links are followed but for O_NOFOLLOW; O_CLOEXEC is added. Not for O_CREAT. */
int fs_open(const char *path, int flags) MUST_USE;
int fs_stat(const char *path, struct stat *ret) MUST_USE;      /* follows links */
int fs_lstat(const char *path, struct stat *ret) MUST_USE;     /* does not */
int fs_chmod(const char *path, mode_t mode) MUST_USE;          /* follows */
int fs_chown(const char *path, uid_t uid, gid_t gid) MUST_USE; /* follows */
int fs_unlink(const char *path) MUST_USE;
int fs_rmdir(const char *path) MUST_USE; /* an empty directory */

/* rename(2) that replaces nothing: -EEXIST. Where the file system has no such call, as near as can
 * be. */
int fs_rename_new(int from_dir, const char *from, int to_dir, const char *to) MUST_USE;
int fs_rename_path_new(const char *from, const char *to) MUST_USE;

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
