/* fs.h - the file system by path: confinement of paths, small operations, and error texts. */
#pragma once

#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/* "no such file or directory" for ENOENT: in lower case, and the same with every C library.
 * Borrowed until the next call. */
const char *fs_text(int code);

/* Confines the paths of this module and of all that uses it (walk, copy, remove, target): they must
 * be absolute and below `dir`, and are resolved beneath it. A path outside is -EACCES, as is a link
 * that is absolute or leads out. Applies to the whole process and cannot be undone, as chroot(2),
 * so that no caller can forget it; call it before the first request. -ENOSYS if the kernel has no
 * openat2(2). */
int fs_confine(const char *dir, struct err *e) MUST_USE;
bool fs_is_confined(void);
/* For a fork of execd with another root or other ids: opens the same directory again, from the
 * current root and with the current ids. It becomes descriptor `fd`, which is replaced; the
 * previous one stays open. No-op when nothing is confined. */
int fs_confine_again(int fd) MUST_USE;

/* Follows links except with O_NOFOLLOW; adds O_CLOEXEC. Not for O_CREAT. */
int fs_open(const char *path, int flags) MUST_USE;
int fs_stat(const char *path, struct stat *ret) MUST_USE;      /* follows links */
int fs_lstat(const char *path, struct stat *ret) MUST_USE;     /* does not */
int fs_chmod(const char *path, mode_t mode) MUST_USE;          /* follows links */
int fs_chown(const char *path, uid_t uid, gid_t gid) MUST_USE; /* follows links */
int fs_unlink(const char *path) MUST_USE;
int fs_rmdir(const char *path) MUST_USE; /* an empty directory */

/* rename(2) that replaces nothing: -EEXIST. If the file system lacks RENAME_NOREPLACE, as close to
 * it as possible. */
int fs_rename_new(int from_dir, const char *from, int to_dir, const char *to) MUST_USE;
int fs_rename_path_new(const char *from, const char *to) MUST_USE;

/* Creates a directory and its missing parents, with `mode` minus the umask. An existing one is
 * fine; a file in the way is -ENOTDIR. *ret_made (may be NULL) tells whether the last one is new.
 */
int fs_make_dirs(const char *path, mode_t mode, bool *ret_made) MUST_USE;

/* Appends the target of `path` if its last component is a link, followed through further links;
 * else the path itself. The target need not exist. -ELOOP for a cycle. */
int fs_follow(const char *path, struct buf *out) MUST_USE;

/* Opens the directory of the last component of `path`, O_PATH, and returns that component ("x" of
 * "/a/x", of "x" and of "x//"). -EINVAL when it is "", "/", "." or "..". */
int fs_open_parent(const char *path, struct str *ret_name) MUST_USE;

/* An unused name for a temporary file in a directory. */
enum { FS_TEMP_NAME_MAX = sizeof(".opensandbox-0123456789abcdef") };
void fs_temp_name(char out[FS_TEMP_NAME_MAX]);
