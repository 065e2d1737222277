#include "sandbox/host.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/mount_api.h"
#include "base/sha.h"
#include "base/time.h"
#include "base/tree.h"
#include "sandbox/host_root.h"
#include "sandbox/program.h"
#include "sandbox/subnet.h"

enum {
    ROUTES_BYTES_MAX = 1 << 20,
    SERVE_MS_MAX = 10 * 1000, /* for the previous broker to release its slots; servers wait 15 s */
    SERVE_RETRY_MS = 20,
};

/* --- device nodes --- */

static const struct {
    const char *name;
    unsigned major, minor;
} dev_nodes[] = {
    {"null",    1, 3},
    {"zero",    1, 5},
    {"full",    1, 7},
    {"random",  1, 8},
    {"urandom", 1, 9},
    {"tty",     5, 0},
};

static const struct {
    const char *name, *target;
} dev_links[] = {
    {"fd",     "/proc/self/fd"  },
    {"stdin",  "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"},
    {"ptmx",   "pts/ptmx"       },
};

static const char *const dev_dirs[] = {"pts", "shm", "mqueue"};

static int dev_fill(int dir, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(dev_nodes); i++) {
        dev_t dev = makedev(dev_nodes[i].major, dev_nodes[i].minor);

        if (mknodat(dir, dev_nodes[i].name, S_IFCHR | 0666, dev) < 0 ||
            fchmodat(dir, dev_nodes[i].name, 0666, 0) < 0)
            return err_sys(e, errno, "make device '%s'", dev_nodes[i].name);
    }
    for (size_t i = 0; i < ARRAY_LEN(dev_links); i++)
        if (symlinkat(dev_links[i].target, dir, dev_links[i].name) < 0)
            return err_sys(e, errno, "link device '%s'", dev_links[i].name);
    for (size_t i = 0; i < ARRAY_LEN(dev_dirs); i++)
        if (mkdirat(dir, dev_dirs[i], 0755) < 0)
            return err_sys(e, errno, "make /dev/%s", dev_dirs[i]);
    return 0;
}

static int empty_fill(int dir, struct err *e)
{
    if (mkdirat(dir, "dir", 0555) < 0 || mknodat(dir, "file", S_IFREG | 0444, 0) < 0)
        return err_sys(e, errno, "make masks");
    return 0;
}

/* --- the state directory --- */

const char *const host_stage_dirs[] = {"dev", "proc", "sys", "tmp"};

static int state_dir(const struct host *h, const char *name, struct err *e)
{
    if (mkdirat(h->state, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make '%s/%s'", h->state_path, name);
    if (fchmodat(h->state, name, 0700, 0) < 0)
        return err_sys(e, errno, "close '%s/%s' to others", h->state_path, name);
    return fd_open_at(h->state, name, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
}

static int state_stage(const struct host *h, struct err *e)
{
    auto_fd stage = state_dir(h, "stage", e);

    if (stage < 0)
        return stage;
    for (size_t i = 0; i < HOST_STAGE_DIRS; i++)
        if (mkdirat(stage, host_stage_dirs[i], 0755) < 0 && errno != EEXIST)
            return err_sys(e, errno, "make '%s/stage/%s'", h->state_path, host_stage_dirs[i]);
    return 0;
}

/* Mounts a small tmpfs on one of our directories, fills it and makes it read-only. */
static int state_tmpfs(const struct host *h, const char *name, unsigned attributes,
                       int (*fill)(int dir, struct err *e), struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_fd place = state_dir(h, name, e);
    auto_fd fs = mnt_fs_open("tmpfs"), mount = -EBADF;
    int r = place < 0 ? place : fs;

    if (place >= 0 && r >= 0)
        r = mnt_fs_set(fs, "size", "1m");
    if (r >= 0)
        r = mnt_fs_set(fs, "mode", "0755");
    if (r >= 0)
        r = mnt_fs_create(fs);
    if (r >= 0)
        r = mount = mnt_fs_mount(fs, attributes);
    if (r >= 0)
        r = mnt_attach(mount, place);
    if (r < 0)
        return err_sys(e, -r, "mount tmpfs at '%s/%s'", h->state_path, name);
    r = fill(mount, e);
    if (r < 0)
        return r;
    r = mnt_set(mount, &attr, AT_EMPTY_PATH);
    return r < 0 ? err_sys(e, -r, "write-protect '%s/%s'", h->state_path, name) : 0;
}

static DIR *state_list(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);

    if (!list)
        fd_close(fd);
    return list;
}

/* Older versions had their roots in the state directory itself, which every user of the host may
 * pass through. A root has a /tmp that every user may write to, so they could put files into later
 * sandboxes. Running sandboxes may use such a root: it stays until host_forget_roots, under a name
 * that is never used again. */
static int state_hide_roots(const struct host *h, struct err *e)
{
    DIR *dir = state_list(h->state);
    int r = dir ? 0 : err_sys(e, errno, "list '%s'", h->state_path);

    for (const struct dirent *d; r == 0 && (d = readdir(dir));) {
        char name[64];

        if (!str_starts(str_of(d->d_name), STR("host-root")) &&
            !str_starts(str_of(d->d_name), STR("new-host-root")))
            continue;
        (void)snprintf(name, sizeof(name), "old-%llu", (unsigned long long)d->d_ino);
        if (renameat(h->state, d->d_name, h->roots, name) < 0 && errno != ENOENT)
            r = err_sys(e, errno, "move '%s/%s'", h->state_path, d->d_name);
    }
    if (dir)
        closedir(dir);
    return r;
}

/* Made once, under a temporary name first: an incomplete one is never used. */
static int state_host_root(const struct host *h, struct err *e)
{
    char name[HOST_ROOT_NAME_BYTES], temporary[32];
    auto_fd dir = -EBADF;
    int fd, r;

    host_root_name(name);
    fd = fd_open_at(h->roots, name, O_PATH | O_DIRECTORY, 0, PATH_STRICT, NULL);
    if (fd != -ENOENT)
        return fd;
    (void)snprintf(temporary, sizeof(temporary), "new-%d", (int)getpid());
    r = tree_remove(h->roots, temporary, e);
    if (r < 0)
        return r;
    if (mkdirat(h->roots, temporary, 0755) < 0)
        return err_sys(e, errno, "make '%s/roots/%s'", h->state_path, temporary);
    dir = fd_open_at(h->roots, temporary, O_RDONLY | O_DIRECTORY, 0, PATH_STRICT, e);
    r = dir < 0 ? dir : host_root_make(dir, e);
    /* Another broker may have been faster: its root is the same as ours. */
    if (r == 0 && renameat(h->roots, temporary, h->roots, name) < 0 && errno != EEXIST &&
        errno != ENOTEMPTY)
        r = err_sys(e, errno, "name the host's root");
    (void)tree_remove(h->roots, temporary, NULL);
    return r < 0 ? r : fd_open_at(h->roots, name, O_PATH | O_DIRECTORY, 0, PATH_STRICT, e);
}

static bool has_slots(const struct host *h)
{
    DIR *dir = state_list(h->slots);
    bool found = !dir;

    for (const struct dirent *d; !found && (d = readdir(dir));)
        found = d->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}

void host_forget_roots(const struct host *h)
{
    char name[HOST_ROOT_NAME_BYTES];
    DIR *dir = has_slots(h) ? NULL : state_list(h->roots);

    if (!dir)
        return;
    host_root_name(name);
    for (const struct dirent *d; (d = readdir(dir));)
        if (d->d_name[0] != '.' && strcmp(d->d_name, name) != 0)
            (void)tree_remove(h->roots, d->d_name, NULL);
    closedir(dir);
}

static int host_enter_mount_namespace(struct err *e)
{
    /* Slave: later mounts of the host appear here, too, and none of ours appear there. */
    struct mount_attr attr = {.propagation = 1 << 19}; /* MS_SLAVE */
    auto_fd root = -EBADF;
    int r;

    if (unshare(CLONE_NEWNS) < 0)
        return err_sys(e, errno, "enter a mount namespace");
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = root < 0 ? -errno : mnt_set(root, &attr, AT_EMPTY_PATH | AT_RECURSIVE);
    return r < 0 ? err_sys(e, -r, "make mounts slaves of the host's") : 0;
}

static int host_open_state(struct host *h, struct err *e)
{
    char real[PATH_MAX];
    struct stat st;

    if (mkdir(h->state_path, 0711) < 0 && errno != EEXIST)
        return err_sys(e, errno, "make '%s'", h->state_path);
    if (!realpath(h->state_path, real) ||
        str_copy(h->state_path, sizeof(h->state_path), str_of(real)) < 0)
        return err_sys(e, errno ? errno : ENAMETOOLONG, "find '%s'", h->state_path);
    h->state = fd_open_at(AT_FDCWD, h->state_path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (h->state < 0)
        return h->state;
    if (fstat(h->state, &st) < 0 || st.st_uid != geteuid() || st.st_mode & 022)
        return err_set(e, EPERM,
                       "'%s' must belong to the broker's user and be writable by no other",
                       h->state_path);
    /* Whatever the umask or its maker: callers have their socket and may have files there. */
    if (fchmodat(h->state, ".", 0711, 0) < 0)
        return err_sys(e, errno, "let callers into '%s'", h->state_path);
    return 0;
}

/* A host without these files has neither routes nor name servers. */
static int host_pick_network(struct host *h, unsigned start, struct err *e)
{
    AUTO_BUF(routes, ROUTES_BYTES_MAX);
    AUTO_BUF(resolv, ROUTES_BYTES_MAX);

    (void)io_read_file(AT_FDCWD, "/proc/net/route", ROUTES_BYTES_MAX, &routes, NULL);
    (void)io_read_file(AT_FDCWD, "/etc/resolv.conf", ROUTES_BYTES_MAX, &resolv, NULL);
    return subnet_pick(buf_str(&routes), buf_str(&resolv), h->net.bridge, start, &h->net.v4_net, e);
}

/* Names and addresses outside the state directory: fixed ones for the default directory, for others
 * derived from a hash of its path. */
static int host_name(struct host *h, struct err *e)
{
    uint8_t hash[SHA256_BYTES] = {0};

    h->net = netns_conf_default;
    (void)snprintf(h->name, sizeof(h->name), "opensandbox");
    if (str_eq(str_of(h->state_path), STR(HOST_STATE_DEFAULT)))
        return host_pick_network(h, 0, e);
    sha256_of(str_of(h->state_path), hash);
    (void)snprintf(h->name, sizeof(h->name), "opensandbox-%02x%02x%02x%02x", hash[0], hash[1],
                   hash[2], hash[3]);
    (void)snprintf(h->net.bridge, sizeof(h->net.bridge), "osb%02x%02x%02x", hash[0], hash[1],
                   hash[2]);
    return host_pick_network(h, 1 + hash[3] % (SUBNET_COUNT - 1), e);
}

int host_serve(struct host *h, uint32_t timeout_ms, struct err *e)
{
    struct timespec pause = {.tv_nsec = SERVE_RETRY_MS * 1000000L};
    uint64_t deadline = deadline_in_ms(timeout_ms);
    auto_fd fd = fd_open_at(h->state, "broker", O_RDWR | O_CREAT, 0600, PATH_STRICT, e);

    if (fd < 0)
        return fd;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return err_sys(e, errno, "lock '%s'", h->state_path);
        if (deadline_passed(deadline))
            return err_set(e, EBUSY, "another broker serves '%s'", h->state_path);
        (void)nanosleep(&pause, NULL);
    }
    h->serving = take_fd(&fd);
    return 0;
}

void host_serve_end(struct host *h)
{
    fd_close(take_fd(&h->serving));
}

int host_open_lock(const struct host *h, struct err *e)
{
    return fd_open_at(h->state, "lock", O_RDWR | O_CREAT, 0600, PATH_STRICT, e);
}

static int host_open_parts(struct host *h, const char *execd_path, struct err *e)
{
    char path[PATH_MAX];
    int r = state_tmpfs(h, "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, dev_fill, e);

    if (r == 0)
        r = state_tmpfs(h, "empty", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                        empty_fill, e);
    if (r == 0)
        r = state_stage(h, e);
    if (r == 0)
        r = h->mnt = state_dir(h, "mnt", e);
    if (r >= 0)
        r = h->slots = state_dir(h, "slots", e);
    if (r >= 0)
        r = h->ids = state_dir(h, "ids", e);
    if (r >= 0)
        r = h->roots = state_dir(h, "roots", e);
    if (r >= 0)
        r = h->trash = state_dir(h, "trash", e);
    if (r >= 0)
        r = h->disks = state_dir(h, "disks", e);
    if (r >= 0)
        r = state_hide_roots(h, e);
    if (r >= 0)
        r = h->lock = host_open_lock(h, e);
    if (r >= 0)
        r = h->host_root = state_host_root(h, e);
    if (r >= 0)
        r = h->host_usr = fd_open_at(AT_FDCWD, "/usr", O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (r >= 0)
        r = h->execd = program_copy(execd_path, e);
    if (r >= 0 && (!realpath(execd_path, path) ||
                   str_copy(h->execd_path, sizeof(h->execd_path), str_of(path)) < 0))
        r = err_sys(e, ENAMETOOLONG, "'%s'", execd_path);
    return r < 0 ? r : 0;
}

int host_open(struct host *h, const char *state_path, const char *execd_path, bool serve,
              struct err *e)
{
    int r;

    *h = (struct host){
        .state = -EBADF,
        .mnt = -EBADF,
        .slots = -EBADF,
        .ids = -EBADF,
        .roots = -EBADF,
        .trash = -EBADF,
        .disks = -EBADF,
        .lock = -EBADF,
        .host_root = -EBADF,
        .host_usr = -EBADF,
        .serving = -EBADF,
        .execd = -EBADF,
        .disk.blank = -EBADF,
    };
    r = str_copy(h->state_path, sizeof(h->state_path), str_of(state_path));
    if (r < 0)
        return err_sys(e, -r, "state directory '%s'", state_path);
    r = host_enter_mount_namespace(e);
    if (r == 0)
        r = host_open_state(h, e);
    if (r == 0)
        r = host_name(h, e);
    if (r == 0 && serve)
        r = host_serve(h, SERVE_MS_MAX, e); /* a previous one may be about to end */
    if (r == 0)
        r = host_open_parts(h, execd_path, e);
    if (r == 0)
        r = seccomp_compile(&h->seccomp, e);
    if (r == 0)
        r = cgroup_host_open(h->name, &h->cgroups, e);
    if (r == 0)
        disk_host_open(&h->disk, h->state);
    if (r < 0)
        host_close(h);
    return r;
}

void host_close(struct host *h)
{
    int fds[] = {h->state, h->mnt,  h->slots,     h->ids,      h->roots,   h->trash,
                 h->disks, h->lock, h->host_root, h->host_usr, h->serving, h->execd};

    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        fd_close(fds[i]);
    seccomp_program_done(&h->seccomp);
    cgroup_host_close(h->cgroups);
    disk_host_close(&h->disk);
    *h = (struct host){.state = -EBADF, .serving = -EBADF, .disk.blank = -EBADF};
}
