#include "sandbox/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mount_api.h"
#include "sandbox/host.h"
#include "sandbox/layers.h"
#include "sandbox/overlay.h"

enum { OPTION_MAX = 64 };

#define MIB ((uint64_t)1 << 20)

/* --- layers, in the parent --- */

int mounts_reopen(int given, int open_flags, struct err *e)
{
    char link[OPTION_MAX], path[PATH_MAX];
    struct stat wanted, found;
    auto_fd fd = -EBADF;
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", given);
    n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return err_sys(e, errno, "find it");
    path[n] = '\0';
    fd = open(path, O_PATH | O_CLOEXEC | open_flags);
    if (fd < 0)
        return err_sys(e, errno, "open '%s'", path);
    if (fstat(given, &wanted) < 0 || fstat(fd, &found) < 0 || wanted.st_dev != found.st_dev ||
        wanted.st_ino != found.st_ino)
        return err_set(e, ESTALE, "'%s' is another one now", path);
    return take_fd(&fd);
}

void mounts_done(struct mounts *m)
{
    while (m->lower_count > 0)
        fd_close(m->lowers[--m->lower_count]);
    while (m->base_count > 0)
        fd_close(m->bases[--m->base_count]);
    while (m->bind_count > 0)
        fd_close(m->binds[--m->bind_count]);
    fd_close(take_fd(&m->usr_lower));
}

/* The host root is below all layers. */
static int prepare_host(struct mounts *m, const struct spawn_slot *slot, struct err *e)
{
    int r = layers_prepare_one(m, slot->host->host_root, slot->userns, e);

    if (r < 0)
        return r;
    m->lowers[m->lower_count++] = r;
    return m->usr_lower = layers_prepare_one(m, slot->host->host_usr, slot->userns, e);
}

int mounts_prepare(struct mounts *m, const struct spawn_slot *slot, const struct plan *plan,
                   const int *layers, struct err *e)
{
    int r = 0;

    *m = MOUNTS_NONE;
    if (plan)
        r = layers_prepare(m, slot, plan, layers, e);
    if (r >= 0 && (!plan || plan->root == PLAN_ROOT_HOST))
        r = prepare_host(m, slot, e);
    if (r < 0)
        mounts_done(m);
    return r < 0 ? r : 0;
}

/* --- mount points --- */

/* Opens a directory of the root to mount on, and makes it if missing. Follows no symbolic link: an
 * image must not decide where we mount. */
static int place_open(int root, const char *path, struct err *e)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    int fd = fd_open_at(root, path, flags, 0, PATH_STRICT, e);

    if (fd == -ENOTDIR || fd == -ELOOP)
        return err_set(e, ENOTDIR, "/%s of the image is not a directory", path);
    if (fd != -ENOENT)
        return fd;
    if (mkdirat(root, path, 0755) < 0)
        return err_sys(e, errno, "make %s", path);
    return fd_open_at(root, path, flags, 0, PATH_STRICT, e);
}

static int place_attach(int root, const char *path, int mount, struct err *e)
{
    auto_fd place = place_open(root, path, e);
    int r;

    if (place < 0)
        return place;
    r = mnt_attach(mount, place);
    return r < 0 ? err_sys(e, -r, "mount %s", path) : 0;
}

/* Older kernels need an upper directory in an attached mount; it vanishes with the old root. */
int mounts_disk(struct mounts *m, struct err *e)
{
    auto_fd slot = -EBADF;
    int r;

    if (m->disk < 0)
        return 0;
    slot = take_fd(&m->dir);
    r = place_attach(slot, "disk", m->disk, e);

    if (r == 0)
        m->dir = fd_open_at(slot, "disk", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    return r < 0 ? r : m->dir < 0 ? m->dir : 0;
}

int mounts_open(struct mounts *m, struct err *e)
{
    char slot[OPTION_MAX];

    (void)snprintf(slot, sizeof(slot), "slots/%u", m->slot->slot);
    m->state =
        fd_open_at(AT_FDCWD, m->slot->host->state_path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    m->dir = m->state < 0 ? m->state
                          : fd_open_at(m->state, slot, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    m->stage = m->dir < 0 ? m->dir
                          : fd_open_at(m->state, "stage", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    return m->stage < 0 ? m->stage : 0;
}

/* Before Linux 6.15 overlayfs takes layers only from mounts of our namespace. So they are attached
 * on top of each other where the new root will cover them, and vanish with the old root. */
static int attach_bases(const struct mounts *m, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < m->base_count; i++)
        r = place_attach(m->state, "mnt", m->bases[i], e);
    return r < 0 ? err_wrap(e, r, "layers") : 0;
}

static int overlay_attach(const struct overlay *o, int root, const char *path, struct err *e)
{
    auto_fd place = place_open(root, path, e);

    return place < 0 ? place : overlay_mount(o, place, e);
}

/* /usr of PLAN_ROOT_HOST: those of the layers, then the host's, then the names that the host root
 * adds. */
static int mount_host_usr(const struct mounts *m, struct err *e)
{
    int lowers[MOUNTS_LOWERS_MAX + 1];
    struct overlay overlay = {lowers, 0, m->dir, "usr", "usrwork", m->lasts};
    int r = 0;

    for (size_t i = 0; r >= 0 && i < m->lower_count; i++) {
        if (i + 1 == m->lower_count)
            lowers[overlay.lower_count++] = m->usr_lower;
        r = fd_open_at(m->lowers[i], "usr", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, PATH_STRICT, e);
        if (r >= 0)
            lowers[overlay.lower_count++] = r;
        else if (i + 1 < m->lower_count && (r == -ENOENT || r == -ENOTDIR || r == -ELOOP))
            r = 0; /* a layer without files there */
    }
    if (r >= 0)
        r = overlay_attach(&overlay, m->root, "usr", e);
    for (size_t i = 0; i < overlay.lower_count; i++)
        if (lowers[i] != m->usr_lower)
            fd_close(lowers[i]);
    return r;
}

int mounts_root(struct mounts *m, struct err *e)
{
    struct overlay overlay = {m->lowers, m->lower_count, m->dir, "upper", "work", m->lasts};
    int r = attach_bases(m, e);

    if (r == 0)
        r = overlay_attach(&overlay, m->state, "mnt", e);
    if (r < 0)
        return r;
    m->root = fd_open_at(m->state, "mnt", O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
    if (m->root < 0)
        return m->root;
    return m->usr_lower < 0 ? 0 : mount_host_usr(m, e);
}

/* Not MNT_DETACH: the writable layer must be free for the next mount. overlayfs refuses a layer of
 * a volatile mount unless its mark, a directory in the work directory, is removed. */
int mounts_drop_root(struct mounts *m, struct err *e)
{
    static const struct {
        const char *place, *work;
    } rows[] = {
        {"mnt/usr", "usrwork"},
        {"mnt",     "work"   },
    };
    char path[PATH_MAX];

    fd_close(take_fd(&m->root));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", m->slot->host->state_path, rows[i].place);
        if (syscall(SYS_umount2, path, UMOUNT_NOFOLLOW) < 0)
            return err_sys(e, errno, "unmount what was made ahead");
        (void)snprintf(path, sizeof(path), "%s/work/incompat/volatile/dirty", rows[i].work);
        if (unlinkat(m->dir, path, 0) < 0 && errno != ENOENT)
            return err_sys(e, errno, "clear %s", path);
        path[strlen(path) - strlen("/dirty")] = '\0';
        if (unlinkat(m->dir, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
            return err_sys(e, errno, "clear %s", path);
    }
    return 0;
}

/* Looking these up through two overlays takes a quarter of a millisecond. Absent ones are fine. */
void mounts_warm(const struct mounts *m)
{
    static const char *const opened[] = {
        "bin/sh",
        "usr/bin/bash",
        "etc/ld.so.cache",
        "etc/nsswitch.conf",
        "etc/passwd",
        "lib64/ld-linux-x86-64.so.2",
        "lib/x86_64-linux-gnu/libc.so.6",
        "lib/x86_64-linux-gnu/libtinfo.so.6",
    };
    static const char *const missed[] = {
        "usr/local/sbin/bash", "usr/local/bin/bash",  "usr/sbin/bash",
        "etc/ld.so.preload",   "var/run/nscd/socket",
    };

    for (size_t i = 0; i < ARRAY_LEN(opened); i++)
        fd_close(fd_open_at(m->root, opened[i], O_RDONLY, 0, PATH_IN_ROOT, NULL));
    for (size_t i = 0; i < ARRAY_LEN(missed); i++)
        fd_close(fd_open_at(m->root, missed[i], O_PATH, 0, PATH_IN_ROOT, NULL));
}

/* --- system file systems --- */

struct system_mount {
    const char *type, *path;
    unsigned attributes;
    const char *options[5][2]; /* key, value; NULL value = flag; "%uid", "%tty", "%tmp", "%shm" */
    int (*before)(const struct mounts *m, struct err *e);
};

static int mount_whole_proc(const struct mounts *m, struct err *e);

#define QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

static const struct system_mount system_mounts[] = {
    {"proc",   "proc",       QUIET,                                 {{NULL}}},
    {"sysfs",  "sys",        QUIET | MOUNT_ATTR_RDONLY,             {{NULL}}},
    {"devpts",
     "dev/pts",              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
     {{"newinstance", NULL},
      {"ptmxmode", "0666"},
      {"mode", "0620"},
      {"gid", "%tty"},
      {"max", "1024"}}                                                      },
    {"tmpfs",
     "dev/shm",              QUIET,
     {{"mode", "1777"},
      {"size", "%shm"},
      {"nr_inodes", "131072"},
      {"uid", "%uid"},
      {"gid", "%uid"}}                                                      },
    {"mqueue", "dev/mqueue", QUIET,                                 {{NULL}}, mount_whole_proc},
    {"tmpfs",
     "tmp",              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
     {{"mode", "1777"},
      {"size", "%tmp"},
      {"nr_inodes", "131072"},
      {"uid", "%uid"},
      {"gid", "%uid"}}               },
};

enum { TTY_GID = 5 };

/* Replaces a value that begins with '%' by the sandbox's number. */
static const char *option_value(const struct mounts *m, const char *value, char room[OPTION_MAX])
{
    struct {
        const char *name;
        uint64_t number;
    } numbers[] = {
        {"%uid", m->slot->uid_first          },
        {"%tty", m->slot->uid_first + TTY_GID},
        {"%tmp", 64 * MIB                    },
        {"%shm", 64 * MIB                    },
    };

    for (size_t i = 0; value && i < ARRAY_LEN(numbers); i++) {
        if (str_eq(str_of(value), str_of(numbers[i].name))) {
            (void)snprintf(room, OPTION_MAX, "%llu", (unsigned long long)numbers[i].number);
            return room;
        }
    }
    return value;
}

static int system_mount_make(const struct mounts *m, const struct system_mount *sm)
{
    auto_fd fs = mnt_fs_open(sm->type);
    int r = fs;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(sm->options) && sm->options[i][0]; i++) {
        char room[OPTION_MAX];
        const char *value = option_value(m, sm->options[i][1], room);

        r = value ? mnt_fs_set(fs, sm->options[i][0], value) : mnt_fs_flag(fs, sm->options[i][0]);
    }
    if (r >= 0)
        r = mnt_fs_create(fs);
    return r < 0 ? r : mnt_fs_mount(fs, sm->attributes);
}

/* The shared device nodes: a read-only copy of the host's mount of them. */
static int mount_dev(const struct mounts *m, struct err *e)
{
    auto_fd dev = mnt_clone(m->state, "dev", 0);

    if (dev < 0)
        return err_sys(e, -dev, "clone the device nodes");
    return place_attach(m->stage, "dev", dev, e);
}

/* Mounts a /proc without masks where no path leads: below the mount of mqueue. The kernel lets root
 * of a user namespace mount a proc of its own pid namespace only if it already sees one that is not
 * masked. execd needs that for sandboxes inside this one. */
static int mount_whole_proc(const struct mounts *m, struct err *e)
{
    auto_fd cover = mnt_clone(m->state, "empty", 0), proc = mnt_clone(m->stage, "proc", 0);
    int r = cover < 0 ? cover : proc;

    if (r < 0)
        return err_sys(e, -r, "clone proc");
    r = place_attach(m->stage, "dev/mqueue", cover, e);
    return r < 0 ? r : place_attach(m->stage, "dev/mqueue/dir", proc, e);
}

int mounts_system(const struct mounts *m, struct err *e)
{
    int r = mount_dev(m, e);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(system_mounts); i++) {
        const struct system_mount *sm = &system_mounts[i];
        auto_fd mount = system_mount_make(m, sm);

        if (mount >= 0 && sm->before)
            r = sm->before(m, e);
        if (r < 0)
            return r;
        r = mount < 0 ? err_sys(e, -mount, "mount %s", sm->path)
                      : place_attach(m->stage, sm->path, mount, e);
    }
    return r;
}

/* --- masks --- */

/* Absent ones are fine. The user namespace already protects files that only the host's root may
 * use. These are open to every user, or protected twice. */
static const char *const masked_paths[] = {
    "proc/kcore",       "proc/keys",          "proc/timer_list",
    "proc/sched_debug", "proc/latency_stats", "proc/kpagecount",
    "proc/kallsyms",    "proc/acpi",          "proc/scsi",
    "proc/asound",      "sys/firmware",       "sys/kernel",
    "sys/fs",           "sys/module",         "sys/devices/virtual/powercap",
};

static const char *const read_only_paths[] = {
    "proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger",
};

static int mask_path(const struct mounts *m, const char *path, struct err *e)
{
    auto_fd place = fd_open_at(m->stage, path, O_PATH | O_NOFOLLOW, 0, PATH_STRICT, e);
    auto_fd mount = -EBADF;
    struct stat st;
    int r;

    if (place == -ENOENT)
        return 0;
    if (place < 0)
        return place;
    if (fstat(place, &st) < 0)
        return err_sys(e, errno, "mask %s", path);
    mount = mnt_clone(m->state, S_ISDIR(st.st_mode) ? "empty/dir" : "empty/file", 0);
    if (mount < 0)
        return err_sys(e, -mount, "mask %s", path);
    r = mnt_attach(mount, place);
    return r < 0 ? err_sys(e, -r, "mask %s", path) : 0;
}

static int protect_path(int stage, const char *path, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | QUIET};
    auto_fd place = fd_open_at(stage, path, O_PATH | O_NOFOLLOW, 0, PATH_STRICT, e);
    auto_fd mount = -EBADF;
    int r;

    if (place == -ENOENT)
        return 0;
    if (place < 0)
        return place;
    mount = mnt_clone(place, "", AT_EMPTY_PATH);
    r = mount < 0 ? mount : mnt_set(mount, &attr, AT_EMPTY_PATH);
    if (r >= 0)
        r = mnt_attach(mount, place);
    return r < 0 ? err_sys(e, -r, "protect %s", path) : 0;
}

int mounts_mask(const struct mounts *m, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(read_only_paths); i++)
        r = protect_path(m->stage, read_only_paths[i], e);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked_paths); i++)
        r = mask_path(m, masked_paths[i], e);
    return r;
}

/* --- from the stage to the root --- */

static int resize(int root, const char *path, uint64_t bytes, struct err *e)
{
    char size[OPTION_MAX];
    auto_fd fs = -EBADF;
    int r;

    if (bytes == 0)
        return 0;
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
    fs = r = mnt_fs_pick(root, path);
    if (r >= 0)
        r = mnt_fs_set(fs, "size", size);
    if (r >= 0)
        r = mnt_fs_reconfigure(fs);
    return r < 0 ? err_sys(e, -r, "resize %s", path) : 0;
}

int mounts_unstage(const struct mounts *m, struct err *e)
{
    const struct plan_limits *l = &m->plan->limits;
    int r = 0;

    for (size_t i = 0; r == 0 && i < HOST_STAGE_DIRS; i++) {
        auto_fd mount =
            fd_open_at(m->stage, host_stage_dirs[i], O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);

        r = mount < 0 ? mount : place_attach(m->root, host_stage_dirs[i], mount, e);
    }
    if (r == 0)
        r = resize(m->root, "tmp", l->tmp_bytes, e);
    return r < 0 ? r : resize(m->root, "dev/shm", l->shm_bytes, e);
}

int mounts_pivot(const struct mounts *m, struct err *e)
{
    if (fchdir(m->root) < 0)
        return err_sys(e, errno, "enter the new root");
    /* The old root is then stacked on the new one, where it can be detached without a directory for
     * it. */
    if (syscall(SYS_pivot_root, ".", ".") < 0)
        return err_sys(e, errno, "pivot");
    if (syscall(SYS_umount2, ".", MNT_DETACH) < 0)
        return err_sys(e, errno, "detach the old root");
    return chdir("/") < 0 ? err_sys(e, errno, "enter /") : 0;
}
