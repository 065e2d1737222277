#include "execd/tree/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "execd/core/path.h"

enum { LINKS_MAX = 40 }; /* the kernel's limit */

const char *fs_text(int code)
{
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        {EACCES,       "permission denied"                },
        {EBUSY,        "device or resource busy"          },
        {EEXIST,       "file exists"                      },
        {EIO,          "input/output error"               },
        {EISDIR,       "is a directory"                   },
        {ELOOP,        "too many levels of symbolic links"},
        {ENAMETOOLONG, "file name too long"               },
        {ENOENT,       "no such file or directory"        },
        {ENOSPC,       "no space left on device"          },
        {ENOTDIR,      "not a directory"                  },
        {ENOTEMPTY,    "directory not empty"              },
        {EPERM,        "operation not permitted"          },
        {EROFS,        "read-only file system"            },
        {ETXTBSY,      "text file busy"                   },
        {EXDEV,        "invalid cross-device link"        },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].code == code)
            return rows[i].text;
    return strerror(code);
}

/* --- confinement --- */

/* Set once, by fs_confine. */
static struct {
    int fd; /* -EBADF = not confined */
    struct str path;
} fs_root = {.fd = -EBADF};

int fs_confine(const char *dir, struct err *e)
{
    AUTO_BUF(path, PATH_MAX);
    int fd, r = path_clean(str_of(dir), &path, e);

    if (r < 0)
        return r;
    fd = fd_open_at(AT_FDCWD, path.p, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (fd < 0)
        return fd;
    if (path.n == 1)
        buf_clear(&path); /* "/" */
    fs_root.fd = fd;
    fs_root.path = str_of(mem_strdup(path.p));
    return 0;
}

bool fs_is_confined(void)
{
    return fs_root.fd >= 0;
}

int fs_confine_again(int fd)
{
    auto_fd found = -EBADF;

    if (!fs_is_confined())
        return 0;
    found = fd_open_at(AT_FDCWD, fs_root.path.n ? fs_root.path.p : "/", O_PATH | O_DIRECTORY, 0,
                       PATH_FREE, NULL);
    if (found < 0)
        return found;
    if (found == fd)
        (void)take_fd(&found);
    else if (dup3(found, fd, O_CLOEXEC) < 0)
        return -errno;
    fs_root.fd = fd;
    return 0;
}

/* The part of a path below the root; "." is the root itself. NULL when it is outside. */
static const char *path_below(const char *path)
{
    const char *rest = path + fs_root.path.n;

    if (!str_starts(str_of(path), fs_root.path) || (*rest != '/' && *rest != '\0'))
        return NULL;
    while (*rest == '/')
        rest++;
    return *rest ? rest : ".";
}

static int open_below(const char *path, int flags)
{
    const char *rest = path_below(path);
    int fd = rest ? fd_open_at(fs_root.fd, rest, flags, 0, PATH_BENEATH, NULL) : -EXDEV;

    return fd == -EXDEV ? -EACCES : fd;
}

int fs_open(const char *path, int flags)
{
    int fd;

    if (fs_is_confined())
        return open_below(path, flags);
    fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int stat_by_fd(const char *path, int flags, struct stat *ret)
{
    auto_fd fd = fs_open(path, O_PATH | flags);

    if (fd < 0)
        return fd;
    return fstat(fd, ret) < 0 ? -errno : 0;
}

int fs_stat(const char *path, struct stat *ret)
{
    if (fs_is_confined())
        return stat_by_fd(path, 0, ret);
    return stat(path, ret) < 0 ? -errno : 0;
}

int fs_lstat(const char *path, struct stat *ret)
{
    if (fs_is_confined())
        return stat_by_fd(path, O_NOFOLLOW, ret);
    return lstat(path, ret) < 0 ? -errno : 0;
}

/* fchmod(2) refuses an O_PATH descriptor, hence the way through /proc/self/fd. */
static int chmod_below(const char *path, mode_t mode)
{
    char link[sizeof("/proc/self/fd/") + 12];
    auto_fd fd = fs_open(path, O_PATH);
    auto_fd full = -EBADF;

    if (fd < 0)
        return fd;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (chmod(link, mode) == 0)
        return 0;
    if (errno != ENOENT)
        return -errno;
    full = fs_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (full < 0)
        return full;
    return fchmod(full, mode) < 0 ? -errno : 0;
}

int fs_chmod(const char *path, mode_t mode)
{
    if (fs_is_confined())
        return chmod_below(path, mode);
    return chmod(path, mode) < 0 ? -errno : 0;
}

int fs_chown(const char *path, uid_t uid, gid_t gid)
{
    auto_fd fd = fs_open(path, O_PATH);

    if (fd < 0)
        return fd;
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* --- names in a directory --- */

/* Opens the directory of the path's last component, and copies that component. */
static int open_place(const char *path, char ret_name[NAME_MAX + 1])
{
    struct str name;
    int r, fd = fs_open_parent(path, &name);

    if (fd < 0)
        return fd;
    r = str_copy(ret_name, NAME_MAX + 1, name);
    if (r == 0)
        return fd;
    fd_close(fd);
    return r;
}

static int unlink_place(const char *path, int flags)
{
    char name[NAME_MAX + 1];
    auto_fd dir = open_place(path, name);

    if (dir < 0)
        return dir;
    return unlinkat(dir, name, flags) < 0 ? -errno : 0;
}

int fs_unlink(const char *path)
{
    return unlink_place(path, 0);
}

int fs_rmdir(const char *path)
{
    return unlink_place(path, AT_REMOVEDIR);
}

int fs_rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
    struct stat st;

    if (syscall(SYS_renameat2, from_dir, from, to_dir, to, 1 /* RENAME_NOREPLACE */) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    return renameat(from_dir, from, to_dir, to) < 0 ? -errno : 0;
}

int fs_rename_path_new(const char *from, const char *to)
{
    char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
    auto_fd from_dir = open_place(from, from_name);
    auto_fd to_dir = from_dir < 0 ? -EBADF : open_place(to, to_name);

    if (from_dir < 0 || to_dir < 0)
        return from_dir < 0 ? from_dir : to_dir;
    return fs_rename_new(from_dir, from_name, to_dir, to_name);
}

/* --- directories --- */

static int mkdir_below(const char *path, mode_t mode)
{
    char name[NAME_MAX + 1];
    auto_fd dir = open_place(path, name);

    if (dir < 0)
        return dir;
    return mkdirat(dir, name, mode) < 0 ? -errno : 0;
}

/* Creates one level: 1 when it is new, 0 when it existed. */
static int make_dir(const char *path, mode_t mode)
{
    struct stat st;
    int r;

    if (fs_is_confined())
        r = mkdir_below(path, mode);
    else
        r = mkdir(path, mode) < 0 ? -errno : 0;
    if (r == 0)
        return 1;
    if (fs_stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
    return r;
}

int fs_make_dirs(const char *path, mode_t mode, bool *ret_made)
{
    AUTO_BUF(b, PATH_MAX);
    int r = buf_add(&b, str_of(path));

    if (r < 0)
        return r == -EMSGSIZE ? -ENAMETOOLONG : r;
    while (b.n > 1 && b.p[b.n - 1] == '/')
        buf_cut(&b, b.n - 1);
    r = make_dir(b.p, mode);
    if (r == -ENOENT && b.n > 0) {
        for (size_t i = fs_root.path.n + 1; i < b.n; i++) {
            if (b.p[i] != '/' || b.p[i - 1] == '/')
                continue;
            b.p[i] = '\0';
            r = make_dir(b.p, mode);
            b.p[i] = '/';
            if (r < 0)
                return r;
        }
        r = make_dir(b.p, mode);
    }
    if (r < 0)
        return r;
    if (ret_made)
        *ret_made = r == 1;
    return 0;
}

/* --- links --- */

/* Replaces the last component of `path`, a link, by its target. */
static int follow_link(struct buf *path, const char *target)
{
    AUTO_BUF(next, PATH_MAX);
    struct str parent = path_parent(buf_str(path));
    int r = 0;

    if (target[0] != '/' && parent.n > 0)
        r = buf_addf(&next, "%.*s%s", STR_ARG(parent), parent.p[parent.n - 1] == '/' ? "" : "/");
    if (r == 0)
        r = buf_add(&next, str_of(target));
    if (r < 0)
        return r;
    buf_clear(path);
    return buf_add(path, buf_str(&next));
}

static ssize_t link_read(const char *path, char *out, size_t size)
{
    auto_fd fd = fs_open(path, O_PATH | O_NOFOLLOW);

    return fd < 0 ? -1 : readlinkat(fd, "", out, size);
}

int fs_follow(const char *path, struct buf *out)
{
    AUTO_BUF(at, PATH_MAX);
    char target[PATH_MAX];
    int r = buf_add(&at, str_of(path));

    for (int links = 0; r == 0; links++) {
        ssize_t n = link_read(at.p, target, sizeof(target) - 1);

        if (n < 0)
            break; /* no link, or missing */
        if (links == LINKS_MAX)
            return -ELOOP;
        target[n] = '\0';
        r = follow_link(&at, target);
    }
    if (r == 0)
        r = buf_add(out, buf_str(&at));
    return r == -EMSGSIZE ? -ENAMETOOLONG : r;
}

int fs_open_parent(const char *path, struct str *ret_name)
{
    AUTO_BUF(parent, PATH_MAX);
    struct str s = str_of(path), base;
    int fd;

    while (s.n > 1 && s.p[s.n - 1] == '/')
        s.n--;
    base = path_base(s);
    if (base.n == 0 || str_eq(base, STR("/")) || str_eq(base, STR(".")) || str_eq(base, STR("..")))
        return -EINVAL;
    if (base.n > NAME_MAX || buf_add(&parent, path_parent(s)) < 0)
        return -ENAMETOOLONG;
    fd = fs_open(parent.n ? parent.p : ".", O_PATH | O_DIRECTORY);
    if (fd < 0)
        return fd;
    *ret_name = base;
    return fd;
}

void fs_temp_name(char out[FS_TEMP_NAME_MAX])
{
    static const struct str prefix = STR_INIT(".opensandbox-");

    memcpy(out, prefix.p, prefix.n);
    id_short(out + prefix.n, FS_TEMP_NAME_MAX - 1 - prefix.n);
}
