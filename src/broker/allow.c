/* allow.c - what callers other than root may have the broker use: the directories of --allow.
 *
 * A descriptor proves that the caller reached a file, not that it may read it: opening with O_PATH
 * needs no permission on the file itself. The broker uses it with root's rights, so it accepts only
 * files below a directory that belongs to the callers. To check this it takes the path that the
 * kernel reports for the descriptor, opens it again below the allowed directory, without following
 * a symbolic link or leaving the directory, and requires the same file. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/tree.h"
#include "broker/broker.h"
#include "broker/disks.h"

enum { LINK_BYTES_MAX = 64 };

/* The part of `path` below `dir`: "." for the directory itself, NULL when it is elsewhere. */
static const char *path_below(const char *path, const char *dir)
{
    struct str rest = str_of(path);

    if (strcmp(dir, "/") != 0) {
        if (!str_starts(rest, str_of(dir)))
            return NULL;
        rest = str_skip(rest, strlen(dir));
    }
    if (rest.n == 0)
        return ".";
    return rest.p[0] != '/' ? NULL : rest.n == 1 ? "." : rest.p + 1;
}

int allow_add(struct broker *b, const char *path, struct err *e)
{
    auto_free char *real = realpath(path, NULL);
    auto_fd dir = -EBADF;

    if (!real)
        return err_sys(e, errno, "find '%s'", path);
    if (b->allowed_count == BROKER_ALLOWED_MAX)
        return err_set(e, E2BIG, "at most %d directories can be allowed", BROKER_ALLOWED_MAX);
    if (path_below(b->host.state_path, real))
        return err_set(e, EINVAL, "'%s' holds the sandboxes themselves and cannot be allowed",
                       real);
    dir = fd_open_at(AT_FDCWD, real, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (dir < 0)
        return dir;
    b->allowed[b->allowed_count++] = (struct broker_allowed){take_fd(&dir), take_ptr(&real)};
    return 0;
}

static bool is_same(int one, int other)
{
    struct stat a, b;

    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

static int open_allowed(const struct broker *b, const char *path, int fd, struct err *e)
{
    for (size_t i = 0; i < b->allowed_count; i++) {
        const char *below = path_below(path, b->allowed[i].path);
        auto_fd found = -EBADF;

        if (!below)
            continue;
        found = fd_open_at(b->allowed[i].dir, below, O_PATH | O_NOFOLLOW, 0, PATH_STRICT, NULL);
        if (found >= 0 && is_same(found, fd))
            return take_fd(&found);
    }
    return err_set(e, EPERM, "'%s' is not below a directory that this broker allows", path);
}

int allow_open(const struct broker *b, uid_t caller, int fd, struct err *e)
{
    char link[LINK_BYTES_MAX], path[PATH_MAX];
    auto_fd found = -EBADF;
    ssize_t n;

    if (caller != 0 && b->allowed_count == 0)
        return err_set(e, EPERM, "only root may give directories to sandboxes, or fill them");
    if (disks_has(b, fd)) /* it has no path; only disks_open() made it */
        return (found = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0 ? err_sys(e, errno, "use a volume")
                                                           : take_fd(&found);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return err_sys(e, errno, "find the path of a descriptor");
    path[n] = '\0';
    if (caller != 0)
        return open_allowed(b, path, fd, e);
    found = fd_open_at(AT_FDCWD, path, O_PATH | O_NOFOLLOW, 0, PATH_FREE, e);
    if (found < 0)
        return found;
    return is_same(found, fd) ? take_fd(&found)
                              : err_set(e, ESTALE, "'%s' is something else here", path);
}

static int check_empty(int dir, struct err *e)
{
    int r = tree_is_empty(dir);

    if (r < 0)
        return err_sys(e, -r, "list the directory");
    return r ? 0 : err_set(e, ENOTEMPTY, "expected an empty directory");
}

int allow_open_dir(const struct broker *b, uid_t caller, int fd, bool empty, struct err *e)
{
    auto_fd found = allow_open(b, caller, fd, e), dir = -EBADF;
    int r;

    if (found < 0)
        return found;
    r = dir = fd_open_at(found, ".", O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    if (r >= 0 && empty)
        r = check_empty(dir, e);
    return r < 0 ? r : take_fd(&dir);
}

int allow_check(const struct broker *b, uid_t caller, int fd, struct err *e)
{
    int found = caller == 0 ? 0 : allow_open(b, caller, fd, e);

    if (caller != 0)
        fd_close(found);
    return found < 0 ? found : 0;
}

/* Opens at/name, and creates it if missing and allowed. The last name may be a file. */
static int reach_step(int at, struct str name, bool last, bool make, struct err *e)
{
    const int flags = O_PATH | (last ? 0 : O_DIRECTORY);
    char text[NAME_MAX + 1];
    int fd;

    if (str_copy(text, sizeof(text), name) < 0)
        return err_set(e, ENAMETOOLONG, "a name in the path is too long");
    fd = fd_open_at(at, text, flags, 0, PATH_STRICT, e);
    if (fd != -ENOENT || !make)
        return fd;
    if (mkdirat(at, text, 0755) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make the directory '%s'", text);
    return fd_open_at(at, text, flags, 0, PATH_STRICT, e);
}

int allow_reach(const struct broker *b, uid_t caller, int dir, struct str path, bool make,
                struct err *e)
{
    /* In our mount namespace: the caller's service manager may have made it read-only there. */
    auto_fd at = allow_open(b, caller, dir, e);
    char id[DISK_VOLUME_ID_BYTES];
    struct str name;

    while (at >= 0 && str_cut(&path, '/', &name)) {
        int next;

        if (name.n == 0)
            continue;
        next = reach_step(at, name, path.n == 0, make, e);
        fd_close(at);
        at = next;
        if (at >= 0 && disks_id(at, id))
            return disks_open(b, id, path, e);
    }
    return take_fd(&at);
}
