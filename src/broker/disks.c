/* disks.c - volumes of limited size.
 *
 * While a volume is made or erased, <state>/disks/<id>/half is a symbolic link whose target is
 * "<inode of the directory above> <path of the volume's directory>". What a killed process left has
 * that link: if the directory has the id, the volume is whole, and only the link is removed; else
 * the image is. */
#include "broker/disks.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mount_api.h"
#include "base/tree.h"

#define ATTRIBUTE  "trusted.opensandbox.disk"
#define HALF_NAME  "half"
#define NEW_PREFIX ".disk-"

enum {
    LINK_BYTES_MAX = 64,
    OPEN_MS_MAX = 10 * 1000, /* for the process that looks into an image */
};

/* --- names --- */

bool disks_id(int dir, char ret_id[DISK_VOLUME_ID_BYTES])
{
    char link[LINK_BYTES_MAX];
    ssize_t n;

    /* An O_PATH descriptor has no fgetxattr(). */
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    n = getxattr(link, ATTRIBUTE, ret_id, DISK_VOLUME_ID_BYTES - 1);
    if (n != DISK_VOLUME_ID_BYTES - 1)
        return false;
    ret_id[n] = '\0';
    return strspn(ret_id, "0123456789abcdef") == (size_t)n;
}

static bool has_id(int parent, const char *name, const char *id)
{
    auto_fd dir = fd_open_at(parent, name, O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);
    char found[DISK_VOLUME_ID_BYTES];

    return dir >= 0 && disks_id(dir, found) && strcmp(found, id) == 0;
}

static int disk_dir(const struct broker *b, const char *id, struct err *e)
{
    return fd_open_at(b->host.disks, id, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
}

bool disks_has(const struct broker *b, int fd)
{
    char id[DISK_VOLUME_ID_BYTES], path[DISK_VOLUME_ID_BYTES + 16];
    uint64_t device, inode;
    struct stat st;

    if (!disk_volume_of(fd, id, &device, &inode) ||
        strspn(id, "0123456789abcdef") != DISK_VOLUME_ID_BYTES - 1)
        return false;
    (void)snprintf(path, sizeof(path), "%s/disk.img", id);
    return fstatat(b->host.disks, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == device &&
           st.st_ino == inode;
}

/* --- what is half done --- */

static int half_write(int disk, int parent, const char *name, struct err *e)
{
    char link[LINK_BYTES_MAX], path[PATH_MAX];
    AUTO_BUF(target, PATH_MAX - 1);
    struct stat st;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
    n = readlink(link, path, sizeof(path));
    if (n < 0 || fstat(parent, &st) < 0)
        return err_sys(e, errno, "find the directory that it is in");
    if (buf_addf(&target, "%ju %.*s/%s", (uintmax_t)st.st_ino, (int)n, path, name) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    return symlinkat(target.p, disk, HALF_NAME) < 0 && errno != EEXIST
               ? err_sys(e, errno, "note the volume")
               : 0;
}

/* Opens the directory above a half-made volume; -EAGAIN when its file system is not mounted. */
static int half_read(int disk, char text[PATH_MAX], const char **ret_name)
{
    ssize_t n = readlinkat(disk, HALF_NAME, text, PATH_MAX - 1);
    char *path, *slash;
    struct str inode;
    auto_fd parent = -EBADF;
    uint64_t number = 0;
    struct stat st;

    if (n < 0)
        return -ENOENT;
    text[n] = '\0';
    path = strchr(text, '/');
    slash = strrchr(text, '/');
    if (!path || path == text || path == slash)
        return -EAGAIN;
    *slash = '\0';
    inode = str_make(text, (size_t)(path - text) - 1);
    parent = fd_open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, PATH_REAL, NULL);
    if (parent < 0 || str_to_u64(inode, &number) < 0 || fstat(parent, &st) < 0 ||
        st.st_ino != number)
        return -EAGAIN;
    *ret_name = slash + 1;
    return take_fd(&parent);
}

static void new_name(const char *id, char ret[sizeof(NEW_PREFIX) + DISK_VOLUME_ID_BYTES])
{
    (void)snprintf(ret, sizeof(NEW_PREFIX) + DISK_VOLUME_ID_BYTES, NEW_PREFIX "%s", id);
}

/* 1 when its image was removed. */
static int sweep_one(const struct broker *b, const char *id)
{
    char text[PATH_MAX], fresh[sizeof(NEW_PREFIX) + DISK_VOLUME_ID_BYTES];
    auto_fd disk = disk_dir(b, id, NULL), parent = -EBADF;
    const char *name = NULL;

    parent = disk < 0 ? disk : half_read(disk, text, &name);
    if (parent < 0)
        return 0;
    if (has_id(parent, name, id)) {
        (void)unlinkat(disk, HALF_NAME, 0);
        return 0;
    }
    new_name(id, fresh);
    (void)unlinkat(parent, fresh, AT_REMOVEDIR);
    return tree_remove(b->host.disks, id, NULL) == 0;
}

int disks_sweep(const struct broker *b)
{
    int fd = openat(b->host.disks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int removed = 0;

    if (!dir) {
        fd_close(fd);
        return 0;
    }
    for (const struct dirent *d; (d = readdir(dir));)
        removed += d->d_name[0] == '.' ? 0 : sweep_one(b, d->d_name);
    closedir(dir);
    return removed;
}

/* --- making and erasing --- */

/* The directory appears under its name with its attribute, and after its image. */
static int make_named(int parent, const char *name, const char *id, struct err *e)
{
    char fresh[sizeof(NEW_PREFIX) + DISK_VOLUME_ID_BYTES], link[LINK_BYTES_MAX];
    auto_fd dir = -EBADF;
    int r;

    new_name(id, fresh);
    if (mkdirat(parent, fresh, 0700) < 0)
        return err_sys(e, errno, "make the directory");
    dir = fd_open_at(parent, fresh, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
    r = dir;
    if (dir >= 0 && setxattr(link, ATTRIBUTE, id, DISK_VOLUME_ID_BYTES - 1, XATTR_CREATE) < 0)
        r = err_sys(e, errno, "set the attribute " ATTRIBUTE);
    if (r >= 0 && renameat2(parent, fresh, parent, name, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? err_set(e, EEXIST, "there is a '%s' already", name)
                            : err_sys(e, errno, "name the directory");
    if (r < 0)
        (void)unlinkat(parent, fresh, AT_REMOVEDIR);
    return r < 0 ? r : take_fd(&dir);
}

static int make_locked(const struct broker *b, int parent, const char *name, uint64_t bytes,
                       struct err *e)
{
    char id[DISK_VOLUME_ID_BYTES];
    auto_fd disk = -EBADF;
    uint64_t random;
    int r;

    id_random_bytes(&random, sizeof(random));
    (void)snprintf(id, sizeof(id), "%016" PRIx64, random);
    if (mkdirat(b->host.disks, id, 0700) < 0)
        return err_sys(e, errno, "make a directory for the image");
    r = disk = disk_dir(b, id, e);
    if (r >= 0)
        r = half_write(disk, parent, name, e);
    if (r >= 0)
        r = disk_volume_make(disk, bytes, e);
    if (r >= 0)
        r = make_named(parent, name, id, e);
    if (r >= 0)
        (void)unlinkat(disk, HALF_NAME, 0);
    else
        (void)tree_remove(b->host.disks, id, NULL);
    return r;
}

int disks_make(const struct broker *b, uid_t caller, int dir, struct str name, uint64_t bytes,
               struct err *e)
{
    auto_fd parent = allow_open(b, caller, dir, e);
    char text[NAME_MAX + 1];
    int r;

    if (parent < 0)
        return parent;
    if (name.n == 0 || name.p[0] == '.' || str_find(name, '/') < name.n ||
        str_copy(text, sizeof(text), name) < 0)
        return err_set(e, EINVAL, "expected the name of a directory, without a '/'");
    if (faccessat(parent, text, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(e, EEXIST, "there is a '%s' already", text);
    /* The lock keeps sweeps from what is half made. */
    if (flock(b->host.lock, LOCK_SH) < 0)
        return err_sys(e, errno, "lock the volumes");
    r = make_locked(b, parent, text, bytes, e);
    (void)flock(b->host.lock, LOCK_UN);
    return r;
}

int disks_erase(const struct broker *b, int parent, const char *name, struct err *e)
{
    auto_fd dir = fd_open_at(parent, name, O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);
    auto_fd disk = -EBADF;
    char id[DISK_VOLUME_ID_BYTES];
    int r;

    if (dir < 0 || !disks_id(dir, id))
        return trash_put(b, parent, name, e);
    disk = disk_dir(b, id, NULL);
    r = disk < 0 ? 0 : half_write(disk, parent, name, e);
    if (r == 0)
        r = trash_put(b, parent, name, e);
    if (r == 0 && disk >= 0)
        (void)tree_remove(b->host.disks, id, NULL); /* if this fails, a sweep does it */
    return r;
}

/* --- opening --- */

struct opened {
    int result;
    struct err err;
};

/* In a mount namespace of its own, as only an attached mount has parts that can be cloned. The
 * workers share one, of which parked children keep copies: there it would stay. */
static int open_part(const struct broker *b, int mount, const char *path, struct err *e)
{
    struct mount_attr alone = {.propagation = 1 << 18}; /* MS_PRIVATE */
    auto_fd root = -EBADF, place = -EBADF, found = -EBADF;
    int r;

    if (unshare(CLONE_NEWNS) < 0)
        return err_sys(e, errno, "enter a mount namespace");
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = root < 0 ? -errno : mnt_set(root, &alone, AT_EMPTY_PATH | AT_RECURSIVE);
    if (r < 0)
        return err_sys(e, -r, "leave the host's mounts");
    place = fd_open_at(AT_FDCWD, b->host.state_path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    r = place < 0 ? place : mnt_attach(mount, place);
    if (r < 0)
        return place < 0 ? r : err_sys(e, -r, "attach the image");
    found = fd_open_at(mount, path, O_PATH, 0, PATH_STRICT, e);
    if (found < 0)
        return found;
    r = mnt_clone(found, "", AT_EMPTY_PATH);
    return r < 0 ? err_sys(e, -r, "clone the mount") : r;
}

static NORETURN void open_main(const struct broker *b, int sock, int mount, const char *path)
{
    static struct opened opened;
    int fd = open_part(b, mount, path, &opened.err);

    opened.result = fd < 0 ? fd : 0;
    (void)alarm(OPEN_MS_MAX / 1000);
    _exit(fd_send(sock, &opened, sizeof(opened), &fd, fd >= 0) < 0);
}

static int open_wait(int sock, struct err *e)
{
    static struct opened opened;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int fds[FD_SEND_MAX], r;
    size_t n = 0, count = 0;

    if (poll(&p, 1, OPEN_MS_MAX) <= 0)
        return err_set(e, ETIMEDOUT, "its file system does not answer");
    r = fd_recv(sock, &opened, sizeof(opened), &n, fds, &count);
    if (r < 0 || n != sizeof(opened) || count != (opened.result == 0)) {
        while (r == 0 && count > 0)
            fd_close(fds[--count]);
        return err_set(e, EIO, "the process that opens it died");
    }
    if (opened.result == 0)
        return fds[0];
    if (e)
        *e = opened.err;
    return opened.result;
}

static int open_apart(const struct broker *b, int mount, const char *path, struct err *e)
{
    int pair[2], r;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "make a socket");
    pid = fork();
    if (pid == 0)
        open_main(b, pair[1], mount, path);
    fd_close(pair[1]);
    r = pid < 0 ? err_sys(e, errno, "start a process") : open_wait(pair[0], e);
    if (r == -ETIMEDOUT)
        (void)kill(pid, SIGKILL);
    fd_close(pair[0]);
    return r;
}

int disks_open(const struct broker *b, const char *id, struct str path, struct err *e)
{
    auto_fd disk = disk_dir(b, id, e), mount = -EBADF;
    AUTO_BUF(inside, PATH_MAX - 1);

    if (disk < 0)
        return disk == -ENOENT ? err_set(e, ESTALE, "the image of the volume is gone") : disk;
    if (buf_addf(&inside, "files/%.*s", STR_ARG(path)) < 0)
        return err_set(e, ENAMETOOLONG, "the path is too long");
    while (inside.n > 0 && inside.p[inside.n - 1] == '/')
        buf_cut(&inside, inside.n - 1);
    mount = disk_volume_mount(disk, id, e);
    return mount < 0 ? err_wrap(e, mount, "open the volume") : open_apart(b, mount, inside.p, e);
}
