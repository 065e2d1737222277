#include "execd/tree/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

/* musl has statx since 1.2.5, without all of its attributes. The kernel's header conflicts with a
 * libc that has its own. */
#ifndef STATX_TYPE
#include <linux/stat.h>
#endif
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

enum {
    NEW_MODE = 0777, /* minus the umask */
    NAMELESS_CLOEXEC = O_WRONLY | O_TMPFILE | O_CLOEXEC,
    TEMP_CLOEXEC = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
    PLACE_CLOEXEC = O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
    MODE_BITS = 07777,
};

/* rename(2) cannot replace a mount point. Calls statx by syscall(2), for older musl. */
static bool is_mounted(int dir, const char *name)
{
    struct statx stx;

    return syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &stx) == 0 &&
           stx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/* --- unnamed files --- */

enum { FD_LINK_MAX = sizeof("/proc/self/fd/") + 11 };

/* linkat(2) through /proc names a file by its descriptor without a privilege (AT_EMPTY_PATH needs
 * one). */
static void fd_link(int fd, char out[FD_LINK_MAX])
{
    (void)snprintf(out, FD_LINK_MAX, "/proc/self/fd/%d", fd);
}

static int open_nameless(int dir, mode_t mode)
{
    char link[FD_LINK_MAX];
    int fd = openat(dir, ".", NAMELESS_CLOEXEC, mode);

    if (fd < 0)
        return -errno;
    fd_link(fd, link);
    if (access(link, F_OK) == 0)
        return fd;
    fd_close(fd);
    return -ENOENT; /* no /proc: it could not be named */
}

/* -EEXIST when the name exists. */
static int name_file(int fd, int dir, const char *name)
{
    char link[FD_LINK_MAX];

    fd_link(fd, link);
    return linkat(AT_FDCWD, link, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int name_temp(int fd, int dir, char out[FS_TEMP_NAME_MAX])
{
    int r;

    fs_temp_name(out);
    r = name_file(fd, dir, out);
    if (r < 0)
        out[0] = '\0'; /* an existing file is not ours */
    return r;
}

/* --- opening --- */

static int open_temp(struct target *t, mode_t mode)
{
    t->fd = open_nameless(t->dir, mode);
    if (t->fd >= 0)
        return 0;
    fs_temp_name(t->temp);
    t->fd = openat(t->dir, t->temp, TEMP_CLOEXEC, mode);
    if (t->fd < 0) {
        t->temp[0] = '\0';
        return -errno;
    }
    return 0;
}

static void drop_temp(struct target *t)
{
    fd_close(take_fd(&t->fd));
    if (t->temp[0])
        (void)unlinkat(t->dir, t->temp, 0); /* no other process knows it */
    t->temp[0] = '\0';
}

/* Opens a temporary file with the mode and owner of the old one. */
static int open_like(struct target *t, const struct stat *old)
{
    int r = open_temp(t, S_IRUSR | S_IWUSR);
    struct stat st;

    if (r < 0)
        return r;
    if (fstat(t->fd, &st) == 0 &&
        ((st.st_uid == old->st_uid && st.st_gid == old->st_gid) ||
         fchown(t->fd, old->st_uid, old->st_gid) == 0) &&
        fchmod(t->fd, old->st_mode & MODE_BITS) == 0)
        return 0;
    r = -errno;
    drop_temp(t);
    return r;
}

static int open_in_place(struct target *t)
{
    t->in_place = true;
    t->fd = openat(t->dir, t->name, PLACE_CLOEXEC);
    return t->fd < 0 ? -errno : 0;
}

static int open_content(struct target *t, bool replace_link)
{
    struct stat st;

    if (fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? open_temp(t, NEW_MODE) : -errno;
    if (S_ISDIR(st.st_mode))
        return -EISDIR;
    if (replace_link && S_ISLNK(st.st_mode))
        return open_temp(t, NEW_MODE);
    if (S_ISREG(st.st_mode) && !is_mounted(t->dir, t->name) && open_like(t, &st) == 0)
        return 0;
    return open_in_place(t);
}

int target_open(struct target *t, const char *path, struct err *e)
{
    AUTO_BUF(real, PATH_MAX);
    struct str name;
    int r = fs_follow(path, &real);

    *t = TARGET_NONE;
    if (r == 0 && (real.n == 0 || real.p[real.n - 1] == '/'))
        r = -EISDIR;
    if (r == 0)
        t->dir = r = fs_open_parent(real.p, &name);
    if (r >= 0)
        r = str_copy(t->name, sizeof(t->name), name);
    if (r == 0)
        r = open_content(t, false);
    if (r == 0)
        return 0;
    target_drop(t);
    return err_set(e, -r, "open %s: %s", path, fs_text(-r));
}

int target_open_at(struct target *t, int dir, const char *name, struct err *e)
{
    int r;

    *t = TARGET_NONE;
    t->dir = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    r = t->dir < 0 ? -errno : str_copy(t->name, sizeof(t->name), str_of(name));
    if (r == 0)
        r = open_content(t, true);
    if (r == 0)
        return 0;
    target_drop(t);
    return err_set(e, -r, "open %s: %s", name, fs_text(-r));
}

void target_drop(struct target *t)
{
    if (t->dir < 0)
        return;
    drop_temp(t);
    fd_close(t->dir);
    *t = TARGET_NONE;
}

/* --- committing --- */

/* A complete file that is not in its place yet. */
struct kept {
    int fd;                      /* O_PATH, of an unnamed file; or -EBADF */
    char temp[FS_TEMP_NAME_MAX]; /* in the directory of its place; or "" */
};

/* A file open for writing cannot be executed (ETXTBSY), and some file systems report write errors
 * only at close. */
static int close_written(struct target *t, struct kept *ret)
{
    struct kept kept = {.fd = -EBADF};
    char link[FD_LINK_MAX];

    if (!t->in_place && !t->temp[0]) {
        fd_link(t->fd, link);
        kept.fd = open(link, O_PATH | O_CLOEXEC);
        if (kept.fd < 0) { /* no descriptor is free: use a temporary name */
            int r = name_temp(t->fd, t->dir, t->temp);

            if (r < 0)
                return r;
        }
    }
    if (close(take_fd(&t->fd)) < 0 && errno != EINTR) {
        int r = -errno;

        fd_close(kept.fd);
        return r;
    }
    memcpy(kept.temp, t->temp, sizeof(kept.temp));
    t->temp[0] = '\0';
    *ret = kept;
    return 0;
}

static int keep_by_name(struct kept *kept, int dir)
{
    int r = name_temp(kept->fd, dir, kept->temp);

    if (r == 0)
        fd_close(take_fd(&kept->fd));
    return r;
}

static int place_kept(struct kept *kept, int dir, const char *name)
{
    int r;

    if (kept->fd >= 0) {
        r = name_file(kept->fd, dir, name);
        if (r == -EEXIST) /* linkat(2) replaces nothing */
            r = keep_by_name(kept, dir);
        if (r < 0)
            return r;
        fd_close(take_fd(&kept->fd));
    }
    if (kept->temp[0] && renameat(dir, kept->temp, dir, name) < 0)
        return -errno;
    kept->temp[0] = '\0';
    return 0;
}

static void drop_kept(struct kept *kept, int dir)
{
    fd_close(take_fd(&kept->fd));
    if (kept->temp[0])
        (void)unlinkat(dir, kept->temp, 0); /* no other process knows it */
    kept->temp[0] = '\0';
}

int target_commit(struct target *t, struct err *e)
{
    struct kept kept;
    int r = close_written(t, &kept);

    if (r < 0)
        r = err_set(e, -r, "close: %s", fs_text(-r));
    else {
        r = place_kept(&kept, t->dir, t->name);
        if (r < 0)
            r = err_set(e, -r, "rename: %s", fs_text(-r));
        drop_kept(&kept, t->dir);
    }
    target_drop(t);
    return r;
}
