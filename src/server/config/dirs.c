#include "server/config/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum { LINKS_MAX = 40 }; /* the kernel's limit */

/* Walks to a directory and creates those that are missing. */
struct way {
    int dir;         /* the directory reached so far */
    bool made;       /* dir was missing and has been created */
    struct buf rest; /* path that is still to be walked */
    int links;       /* symbolic links followed so far */
};

/* Removes the next name from the rest of the path. False at its end. */
static bool way_next(struct way *w, char ret_name[PATH_MAX])
{
    struct str rest = buf_str(&w->rest), name = STR("");
    bool found;

    while (name.n == 0 && str_cut(&rest, '/', &name))
        continue;
    found = name.n > 0 && str_copy(ret_name, PATH_MAX, name) == 0;
    buf_drop_front(&w->rest, w->rest.n - rest.n);
    return found;
}

/* Whether only root can have changed the entries of this directory. */
static bool is_of_root_alone(int dir)
{
    struct stat st;

    return fstat(dir, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* Continues at the target of a symbolic link. As root, follows only links that root made. */
static int way_follow(struct way *w, const char *name)
{
    AUTO_BUF(path, PATH_MAX);
    char target[PATH_MAX];
    ssize_t n = readlinkat(w->dir, name, target, sizeof(target));

    if (n < 0)
        return errno == EINVAL ? -ENOTDIR : -errno; /* not a symbolic link */
    if (geteuid() == 0 && !is_of_root_alone(w->dir))
        return -EPERM;
    if (w->links++ == LINKS_MAX)
        return -ELOOP;
    if (buf_addf(&path, "%.*s/%.*s", (int)n, target, (int)w->rest.n, w->rest.p) < 0)
        return -ENAMETOOLONG;
    if (target[0] == '/') {
        fd_close(w->dir);
        w->dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    buf_clear(&w->rest);
    return buf_add(&w->rest, buf_str(&path));
}

static int way_step(struct way *w, const char *name, mode_t mode)
{
    bool made = mkdirat(w->dir, name, w->rest.n > 0 ? 0755 : mode) == 0;
    struct stat st;
    int fd;

    if (!made && errno != EEXIST)
        return -errno;
    fd = openat(w->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOTDIR ? way_follow(w, name) : -errno;
    fd_close(w->dir);
    w->dir = fd;
    /* A user with write access to the parent may have replaced it since. */
    w->made = made && fstat(fd, &st) == 0 && st.st_uid == geteuid();
    return 0;
}

int dirs_make(const char *path, mode_t mode, bool *ret_made, struct err *e)
{
    struct way w = {.dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    char name[PATH_MAX];
    int r;

    buf_init(&w.rest, PATH_MAX);
    r = w.dir < 0 ? -errno : buf_add(&w.rest, str_of(path));
    while (r >= 0 && way_next(&w, name))
        r = way_step(&w, name, mode);
    buf_done(&w.rest);
    if (r >= 0) {
        *ret_made = w.made;
        return w.dir;
    }
    fd_close(w.dir);
    if (r == -EPERM)
        return err_set(
            e, EPERM, "'%s' leads through a link that users other than root could have made", path);
    return err_sys(e, -r, "make the directory '%s'", path);
}

/* Changes the directory's owner to the account if we created it. Leaves other owners alone. */
static int hand_over(int dir, const char *path, bool made, uid_t uid, gid_t gid, struct err *e)
{
    auto_fd fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, errno, "open the directory '%s'", path);
    if (!made && st.st_uid != uid)
        return err_set(e, EPERM,
                       "the directory '%s' belongs to user %u, and the server runs as %u: give it "
                       "one of its own, or chown this one",
                       path, st.st_uid, uid);
    if (fchown(fd, uid, gid) < 0 || fchmod(fd, 0700) < 0)
        return err_sys(e, errno, "change the owner of the directory '%s'", path);
    return 0;
}

int dirs_prepare(const struct config *config, const char *path, struct err *e)
{
    bool made;
    auto_fd dir = dirs_make(path, 0700, &made, e);
    uid_t uid;
    gid_t gid;
    int r = dir < 0 ? dir : config_account(config, &uid, &gid, e);

    if (r < 0 || geteuid() != 0)
        return r;
    return hand_over(dir, path, made, uid, gid, e);
}
