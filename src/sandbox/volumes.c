#include "sandbox/volumes.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "base/tree.h"
#include "sandbox/disk.h"
#include "sandbox/host.h"
#include "sandbox/objects.h"

enum {
    LINK_MAX_BYTES = 64,
    PROPAGATION_PRIVATE = 1 << 18, /* MS_PRIVATE: later mounts of the host do not appear */
};

/* --- in the parent --- */

/* Volumes of limited size are detached mounts already. */
static bool volume_is_mount(int fd)
{
    char id[DISK_VOLUME_ID_BYTES];
    uint64_t device, inode;

    return disk_volume_of(fd, id, &device, &inode);
}

static int volume_clone(int given, int userns, bool read_only, struct err *e)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (read_only ? MOUNT_ATTR_RDONLY : 0U),
        .propagation = PROPAGATION_PRIVATE,
        .userns_fd = (uint64_t)userns,
    };
    bool is_mount = volume_is_mount(given); /* the caller made it for this sandbox */
    auto_fd ours =
        is_mount ? fcntl(given, F_DUPFD_CLOEXEC, 0) : mounts_reopen(given, O_NOFOLLOW, e);
    auto_fd mount = -EBADF;
    struct stat st;
    int r;

    if (ours < 0)
        return is_mount ? err_sys(e, errno, "use it") : ours;
    if (fstat(ours, &st) < 0)
        return err_sys(e, errno, "look at it");
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "it is neither a directory nor a regular file");
    mount = is_mount ? take_fd(&ours) : mnt_clone(ours, "", AT_EMPTY_PATH);
    if (mount < 0)
        return err_sys(e, -mount, "clone it");
    r = mnt_set(mount, &attr, AT_EMPTY_PATH);
    if (r == -EINVAL)
        return err_set(e, ENOTSUP, "its file system cannot map user ids");
    return r < 0 ? err_sys(e, -r, "map its ids") : take_fd(&mount);
}

int volumes_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                    const int *binds, struct err *e)
{
    const char *targets[PLAN_BINDS_MAX + 1];

    plan_targets(plan, targets);
    for (size_t i = 0; i < plan->bind_count; i++) {
        bool read_only = plan->binds_read_only >> i & 1;
        int r = plan->binds_objects >> i & 1 ? objects_mount(slot, binds[i], read_only, e)
                                             : volume_clone(binds[i], slot->userns, read_only, e);

        if (r < 0)
            return err_wrap(e, r, "%.64s", targets[i]);
        m->binds[m->bind_count++] = r;
    }
    return 0;
}

/* --- in the child --- */

/* Files made from now on belong to that user: an ID-mapped earlier volume accepts only ids of the
 * sandbox. These calls do not report failure. */
static void files_belong_to(uint32_t id)
{
    (void)syscall(SYS_setfsgid, id);
    (void)syscall(SYS_setfsuid, id);
}

static int place_make(int parent, const char *name, bool is_dir, uint32_t owner)
{
    int bits = prctl(PR_GET_SECUREBITS), r;

    (void)umask(022);
    /* Otherwise leaving uid 0 would drop our capabilities over files. */
    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0)
        return -errno;
    files_belong_to(owner);
    r = is_dir ? mkdirat(parent, name, 0755) : mknodat(parent, name, S_IFREG | 0644, 0);
    r = r < 0 && errno != EEXIST ? -errno : 0; /* another sandbox made it in the volume */
    files_belong_to(0);
    return prctl(PR_SET_SECUREBITS, bits) < 0 ? -errno : r;
}

/* Opens a path relative to the root, or makes its last component. */
static int place_enter(const struct mounts *m, int parent, const char *path, bool is_dir,
                       struct err *e)
{
    const int flags = O_PATH | (is_dir ? O_DIRECTORY : 0);
    const char *slash = strrchr(path, '/');
    int fd = fd_open_at(m->root, path, flags, 0, PATH_IN_ROOT, NULL), r;

    if (fd == -ENOTDIR)
        return err_set(e, ENOTDIR, "/%.128s is not a directory", path);
    if (fd != -ENOENT)
        return fd < 0 ? err_sys(e, -fd, "open /%.128s", path) : fd;
    r = place_make(parent, slash ? slash + 1 : path, is_dir, m->slot->uid_first);
    if (r < 0)
        return err_sys(e, -r, "make /%.128s", path);
    return fd_open_at(m->root, path, flags, 0, PATH_IN_ROOT, e);
}

/* Opens the mount point, after making missing directories on the way. */
static int place_reach(const struct mounts *m, const char *target, bool is_dir, struct err *e)
{
    char path[PLAN_TARGET_MAX];
    auto_fd at = fcntl(m->root, F_DUPFD_CLOEXEC, 0);

    if (at < 0 || str_copy(path, sizeof(path), str_of(target + 1)) < 0)
        return err_sys(e, at < 0 ? errno : ENAMETOOLONG, "begin");
    for (char *slash = path;; slash++) {
        int next;

        slash = strchr(slash, '/');
        if (slash)
            *slash = '\0';
        next = place_enter(m, at, path, slash || is_dir, e);
        if (next < 0 || !slash)
            return next;
        fd_close(at);
        at = next;
        *slash = '/';
    }
}

/* Checks where symbolic links of the image and of earlier volumes led: the plan's rule for paths
 * applies there, too. */
static int place_check(const struct mounts *m, int place, bool is_dir, struct err *e)
{
    char link[LINK_MAX_BYTES], path[PATH_MAX];
    struct str state = str_of(m->slot->host->state_path), mnt = STR("/mnt"), at;
    struct stat st;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", place);
    n = readlink(link, path, sizeof(path));
    if (n < 0 || fstat(place, &st) < 0)
        return err_sys(e, errno, "look where it leads");
    at = str_make(path, (size_t)n);
    at = str_starts(at, state) ? str_skip(at, state.n) : STR_NONE;
    at = str_starts(at, mnt) ? str_skip(at, mnt.n) : STR_NONE;
    if (!plan_target_is_valid(at))
        return err_set(e, EINVAL, "its links lead to /, /proc, /sys or /dev");
    if (!is_dir && !S_ISREG(st.st_mode))
        return err_set(e, EINVAL, "there is something else than a regular file");
    return 0;
}

/* Object storage is a directory. It is not looked at, as its program may not answer. */
static int volume_is_dir(const struct mounts *m, size_t i)
{
    struct stat st;

    if (m->plan->binds_objects >> i & 1)
        return 1;
    return fstat(m->binds[i], &st) < 0 ? -errno : S_ISDIR(st.st_mode);
}

/* Without that, only root inside could write to a new volume. */
static int volume_give(const struct mounts *m, size_t i, struct err *e)
{
    const struct plan *p = m->plan;
    uint32_t root = m->slot->uid_first;
    auto_fd dir = -EBADF;
    struct stat st;

    if (!(p->binds_given >> i & 1))
        return 0;
    dir = openat(m->binds[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != root || st.st_gid != root ||
        tree_is_empty(dir) != 1)
        return 0;
    return fchown(dir, root + p->uid, root + p->gid) < 0 ? err_sys(e, errno, "give it away") : 0;
}

static int volume_mount(const struct mounts *m, size_t i, const char *target, struct err *e)
{
    auto_fd place = -EBADF;
    int is_dir = volume_is_dir(m, i), r;

    if (is_dir < 0)
        return err_sys(e, -is_dir, "look at it");
    place = place_reach(m, target, is_dir, e);
    r = place < 0 ? place : place_check(m, place, is_dir, e);
    if (r == 0 && is_dir)
        r = volume_give(m, i, e);
    if (r < 0)
        return r;
    r = mnt_attach(m->binds[i], place);
    return r < 0 ? err_sys(e, -r, "mount") : 0;
}

int volumes_mount(const struct mounts *m, struct err *e)
{
    const char *targets[PLAN_BINDS_MAX + 1];

    plan_targets(m->plan, targets);
    for (size_t i = 0; i < m->bind_count; i++) {
        int r = volume_mount(m, i, targets[i], e);

        if (r < 0)
            return err_wrap(e, r, "%.64s", targets[i]);
    }
    return 0;
}
