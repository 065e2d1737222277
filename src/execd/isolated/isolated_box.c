#include "execd/isolated/isolated_box.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/mount_api.h"
#include "base/tree.h"
#include "execd/isolated/isolated_filter.h"

enum { DIR_MODE = 0755, OPTION_MAX = 32, LOOK_NS = 20 * 1000 * 1000 };

#define PLAIN  (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define QUIET  (PLAIN | MOUNT_ATTR_NOEXEC)
#define DEVICE (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)

/* The sandbox's devices, each as a bind mount: mknod() may be forbidden here, a mount is not. */
static const char *const device_paths[] = {
    "/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero",
};

/* State of the first process. */
struct box {
    const struct box_plan *plan;
    /* Detached mounts, cloned before the root becomes read-only. */
    int workspace, upper, writable[BOX_WRITABLE_MAX];
    int devices[ARRAY_LEN(device_paths)]; /* or -errno */
    int upper_dir;
    struct proc_step *step; /* reported to the parent on failure */
};

unsigned long box_namespaces(const struct box_plan *plan)
{
    return CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
           (plan->share_net ? 0UL : CLONE_NEWNET);
}

/* --- the mount tree --- */

/* Stops mount propagation in both directions between the sandbox and the box. */
static int box_separate(struct box *b)
{
    struct mount_attr attr = {.propagation = 1UL << 18}; /* MS_PRIVATE */
    auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    *b->step = (struct proc_step){"separate the mounts of", "the session"};
    return root < 0 ? -errno : mnt_set(root, &attr, AT_EMPTY_PATH | AT_RECURSIVE);
}

/* Opens a path from a request. It must not lead through execd's descriptors (/proc/self/fd). */
static int open_place(const char *path)
{
    return fd_open_at(AT_FDCWD, path, O_PATH, 0, PATH_BY_NAME, NULL);
}

static int box_keep(struct box *b, const char *path, enum path_policy policy, unsigned attributes,
                    int *ret)
{
    struct mount_attr attr = {.attr_set = attributes};
    auto_fd place = -EBADF, mount = -EBADF;
    int r;

    *b->step = (struct proc_step){"keep", path};
    r = place = fd_open_at(AT_FDCWD, path, O_PATH, 0, policy, NULL);
    if (r >= 0)
        r = mount = mnt_clone(place, "", AT_EMPTY_PATH | AT_RECURSIVE);
    if (r >= 0)
        r = mnt_set(mount, &attr, AT_EMPTY_PATH | AT_RECURSIVE);
    if (r >= 0)
        *ret = take_fd(&mount);
    return r;
}

/* Opens the workspace by path again: a descriptor from outside this mount namespace cannot be
 * mounted. -ESTALE if it is no longer the same directory. */
static int box_keep_workspace(struct box *b)
{
    const struct box_plan *p = b->plan;
    struct stat wanted, found;
    int r = box_keep(b, p->real, PATH_REAL, PLAIN | (p->mode == BOX_RO ? MOUNT_ATTR_RDONLY : 0U),
                     &b->workspace);

    if (r < 0)
        return r;
    if (fstat(p->place, &wanted) < 0 || fstat(b->workspace, &found) < 0)
        return -errno;
    return wanted.st_dev == found.st_dev && wanted.st_ino == found.st_ino ? 0 : -ESTALE;
}

/* Clones what must stay writable, and devices, before box_protect(). Devices may be absent. */
static int box_keep_all(struct box *b)
{
    const struct box_plan *p = b->plan;
    int r;

    for (size_t i = 0; i < ARRAY_LEN(device_paths); i++) {
        r = box_keep(b, device_paths[i], PATH_BY_NAME, DEVICE, &b->devices[i]);
        if (r < 0)
            b->devices[i] = r;
    }
    r = box_keep_workspace(b);
    if (r >= 0 && p->upper)
        r = box_keep(b, p->upper, PATH_BY_NAME, PLAIN, &b->upper);
    for (size_t i = 0; r >= 0 && i < p->writable_count; i++)
        r = box_keep(b, p->writable[i], PATH_REAL, PLAIN, &b->writable[i]);
    return r;
}

/* Makes the tree read-only and disables device files everywhere, for example disks of a privileged
 * container: root in the box has no capability, but owns them. */
static int box_protect(struct box *b)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | PLAIN};
    auto_fd root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

    *b->step = (struct proc_step){"write-protect", "/"};
    return root < 0 ? -errno : mnt_set(root, &attr, AT_EMPTY_PATH | AT_RECURSIVE);
}

/* A mount point that a tmpfs of the box covers no longer exists and is created again. */
static int box_attach(const char *path, int mount)
{
    auto_fd place = open_place(path);

    if (place == -ENOENT && tree_make(path, DIR_MODE) == 0)
        place = open_place(path);
    return place < 0 ? place : mnt_attach(mount, place);
}

/* --- file systems of the box --- */

struct box_mount {
    const char *type, *path;
    unsigned attributes;
    const char *options[4][2]; /* key, value; with a NULL value it is a flag */
};

/* In the order of the API's contract. Skips mount points that the image does not have. */
static const struct box_mount box_tmp = {
    "tmpfs", "/tmp", PLAIN, {{"mode", "1777"}, {"size", "512m"}, {"nr_inodes", "131072"}}
};
static const struct box_mount box_mounts[] = {
    {"tmpfs",  "/run",        PLAIN,                                 {{"mode", "0755"}, {"size", "64m"}, {"nr_inodes", "16384"}} },
    {"tmpfs",  "/dev/shm",    QUIET,                                 {{"mode", "1777"}, {"size", "64m"}, {"nr_inodes", "131072"}}},
    {"devpts",
     "/dev/pts",              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
     {{"newinstance", NULL}, {"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "256"}}                                             },
    {"mqueue", "/dev/mqueue", QUIET,                                 {{NULL}}                                                    },
    {"proc",   "/proc",       QUIET,                                 {{NULL}}                                                    },
};

static int box_make(const struct box_mount *m)
{
    auto_fd fs = mnt_fs_open(m->type);
    int r = fs;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(m->options) && m->options[i][0]; i++)
        r = m->options[i][1] ? mnt_fs_set(fs, m->options[i][0], m->options[i][1])
                             : mnt_fs_flag(fs, m->options[i][0]);
    if (r >= 0)
        r = mnt_fs_create(fs);
    return r < 0 ? r : mnt_fs_mount(fs, m->attributes);
}

static int box_mount(struct box *b, const struct box_mount *m)
{
    auto_fd place = open(m->path, O_PATH | O_DIRECTORY | O_CLOEXEC), mount = -EBADF;

    *b->step = (struct proc_step){"mount", m->path};
    if (place < 0)
        return errno == ENOENT && strcmp(m->type, "proc") != 0 ? 0 : -errno;
    mount = box_make(m);
    return mount < 0 ? mount : mnt_attach(mount, place);
}

/* --- devices --- */

static const struct box_mount box_dev = {
    "tmpfs", "/dev", QUIET, {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "64"}}
};
static const char *const device_dirs[] = {"mqueue", "pts", "shm"};
static const char *const device_links[][2] = {
    {"fd",     "/proc/self/fd"  },
    {"ptmx",   "pts/ptmx"       },
    {"stderr", "/proc/self/fd/2"},
    {"stdin",  "/proc/self/fd/0"},
    {"stdout", "/proc/self/fd/1"},
};

static int device_attach(const char *path, int device)
{
    auto_fd place = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0);

    return place < 0 ? -errno : mnt_attach(device, place);
}

/* Skips devices that do not exist. */
static int devices_fill(const struct box *b, int dev)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(device_dirs); i++)
        r = mkdirat(dev, device_dirs[i], DIR_MODE) < 0 ? -errno : 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(device_links); i++)
        r = symlinkat(device_links[i][1], dev, device_links[i][0]) < 0 ? -errno : 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(device_paths); i++)
        if (b->devices[i] != -ENOENT)
            r = b->devices[i] < 0 ? b->devices[i] : device_attach(device_paths[i], b->devices[i]);
    return r;
}

static int box_devices(struct box *b)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    auto_fd place = open(box_dev.path, O_PATH | O_DIRECTORY | O_CLOEXEC), mount = -EBADF;
    int r;

    *b->step = (struct proc_step){"mount", box_dev.path};
    if (place < 0)
        return errno == ENOENT ? 0 : -errno;
    mount = box_make(&box_dev);
    r = mount < 0 ? mount : mnt_attach(mount, place);
    if (r >= 0)
        r = devices_fill(b, mount);
    return r < 0 ? r : mnt_set(mount, &attr, AT_EMPTY_PATH);
}

static int box_mount_all(struct box *b)
{
    int r = b->plan->own_tmp ? box_mount(b, &box_tmp) : 0;

    if (r >= 0)
        r = box_devices(b);
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(box_mounts); i++)
        r = box_mount(b, &box_mounts[i]);
    return r;
}

/* Same list as for the sandbox (src/sandbox/mounts.c); absent paths are fine. */
static const char *const masked_paths[] = {
    "/proc/kcore",         "/proc/keys",       "/proc/timer_list",    "/proc/sched_debug",
    "/proc/latency_stats", "/proc/kpagecount", "/proc/kallsyms",      "/proc/acpi",
    "/proc/scsi",          "/proc/asound",     "/proc/sysrq-trigger",
};
static const char *const read_only_paths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"};

static int mask_path(const char *path)
{
    static const struct box_mount empty = {
        "tmpfs", "", QUIET | MOUNT_ATTR_RDONLY, {{"size", "4k"}, {"nr_inodes", "2"}}
    };
    auto_fd place = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), mount = -EBADF;
    struct stat st;

    if (place < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(place, &st) < 0)
        return -errno;
    mount = S_ISDIR(st.st_mode) ? box_make(&empty) : mnt_clone(AT_FDCWD, "/dev/null", 0);
    return mount < 0 ? mount : mnt_attach(mount, place);
}

static int protect_path(const char *path)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | QUIET};
    auto_fd place = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), mount = -EBADF;
    int r;

    if (place < 0)
        return errno == ENOENT ? 0 : -errno;
    mount = mnt_clone(place, "", AT_EMPTY_PATH);
    r = mount < 0 ? mount : mnt_set(mount, &attr, AT_EMPTY_PATH);
    return r < 0 ? r : mnt_attach(mount, place);
}

static int box_mask(struct box *b)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(masked_paths); i++) {
        *b->step = (struct proc_step){"mask", masked_paths[i]};
        r = mask_path(masked_paths[i]);
    }
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(read_only_paths); i++) {
        *b->step = (struct proc_step){"write-protect", read_only_paths[i]};
        r = protect_path(read_only_paths[i]);
    }
    return r;
}

/* --- the workspace --- */

/* Mounts a file system for the upper layer over the workspace's path. */
static int upper_mount(struct box *b)
{
    char size[OPTION_MAX];
    struct box_mount store = {
        "tmpfs", "", PLAIN, {{"mode", "0755"}, {"size", size}}
    };
    auto_fd mount = -EBADF;

    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)b->plan->upper_bytes);
    mount = b->upper >= 0 ? take_fd(&b->upper) : box_make(&store);
    return mount < 0 ? mount : box_attach(b->plan->workspace, mount);
}

/* Creates an upper directory with the owner and mode of the directory it covers. */
static int upper_make(const char *name, const struct stat *like)
{
    if (mkdir(name, DIR_MODE) < 0)
        return errno == EEXIST ? 0 : -errno;
    return chown(name, like->st_uid, like->st_gid) < 0 || chmod(name, like->st_mode & 07777) < 0
               ? -errno
               : 0;
}

/* True if overlay can use trusted.* attributes, which need CAP_SYS_ADMIN in the initial user
 * namespace; otherwise it uses user.* attributes. */
static bool marks_are_ours(void)
{
    return setxattr("upper", "trusted.overlay.test", "y", 1, 0) == 0 &&
           removexattr("upper", "trusted.overlay.test") == 0;
}

/* The working directory contains lower, upper and work. */
static int overlay_make(void)
{
    auto_fd fs = mnt_fs_open("overlay");
    int r = fs;

    if (r >= 0)
        r = mnt_fs_set(fs, "lowerdir", "lower");
    if (r >= 0)
        r = mnt_fs_set(fs, "upperdir", "upper");
    if (r >= 0)
        r = mnt_fs_set(fs, "workdir", "work");
    if (r >= 0 && !marks_are_ours())
        r = mnt_fs_flag(fs, "userxattr"); /* also disables redirect_dir and metacopy */
    else if (r >= 0)
        r = mnt_fs_set(fs, "redirect_dir", "off") < 0 ? 0 : mnt_fs_set(fs, "metacopy", "off");
    if (r >= 0)
        r = mnt_fs_create(fs);
    return r < 0 ? r : mnt_fs_mount(fs, PLAIN);
}

/* Mounts the store over the workspace, and over the store the overlay made from it. */
static int box_overlay(struct box *b)
{
    auto_fd lower = -EBADF, here = -EBADF, overlay = -EBADF;
    struct stat st;
    int r = fstat(b->workspace, &st) < 0 ? -errno : upper_mount(b);

    if (r >= 0)
        r = child_enter(b->plan->workspace);
    if (r >= 0)
        r = upper_make("upper", &st);
    if (r >= 0 && ((mkdir("work", DIR_MODE) < 0 && errno != EEXIST) ||
                   (mkdir("lower", DIR_MODE) < 0 && errno != EEXIST)))
        r = -errno;
    if (r < 0)
        return r;
    lower = open("lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
    here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    b->upper_dir = open("upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lower < 0 || here < 0 || b->upper_dir < 0)
        return -errno;
    r = mnt_attach(b->workspace, lower);
    if (r >= 0)
        r = overlay = overlay_make();
    return r < 0 ? r : mnt_attach(overlay, here);
}

static int box_workspace(struct box *b)
{
    const struct box_plan *p = b->plan;
    int r;

    *b->step = (struct proc_step){"mount the workspace", p->workspace};
    r = p->mode == BOX_OVERLAY ? box_overlay(b) : box_attach(p->workspace, b->workspace);
    for (size_t i = 0; r >= 0 && i < p->writable_count; i++) {
        *b->step = (struct proc_step){"mount", p->writable[i]};
        r = box_attach(p->writable[i], b->writable[i]);
    }
    return r;
}

/* Last mount: the session's own layer may be in that directory and is already mounted. */
static int box_hide(struct box *b)
{
    *b->step = (struct proc_step){"hide", b->plan->hidden};
    return b->plan->hidden ? mask_path(b->plan->hidden) : 0;
}

/* --- the rest of the first process --- */

static int box_network(struct box *b)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    auto_fd sock = -EBADF;

    *b->step = (struct proc_step){"bring up", "lo"};
    if (b->plan->share_net)
        return 0;
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo) < 0 ? -errno : 0;
}

/* Sends one message: a byte per descriptor says which one it is. */
static int box_hand_over(struct box *b)
{
    static const char *const names[] = {
        [BOX_FD_PID] = "/proc/self/ns/pid", [BOX_FD_IPC] = "/proc/self/ns/ipc",
        [BOX_FD_UTS] = "/proc/self/ns/uts", [BOX_FD_NET] = "/proc/self/ns/net",
        [BOX_FD_MNT] = "/proc/self/ns/mnt",
    };
    uint8_t which[BOX_FDS];
    int fds[BOX_FDS];
    size_t n = 0;

    *b->step = (struct proc_step){"hand over", "namespaces"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (i == BOX_FD_NET && b->plan->share_net)
            continue;
        which[n] = (uint8_t)i;
        fds[n] = open(names[i], O_RDONLY | O_CLOEXEC);
        if (fds[n++] < 0)
            return -errno;
    }
    if (b->upper_dir >= 0) {
        which[n] = BOX_FD_UPPER;
        fds[n++] = b->upper_dir;
    }
    return fd_send(b->plan->channel, which, n, fds, n);
}

static int give_up_rights(struct proc_step *step)
{
    int r = caps_bound(0);

    *step = (struct proc_step){"give up", "capabilities"};
    if (r >= 0)
        r = caps_limit(0);
    if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = -errno;
    if (r < 0)
        return r;
    *step = (struct proc_step){"give up", "system calls"};
    return isolated_filter_install();
}

/* The kernel reaps orphans of the box, because SIGCHLD is ignored. Closing the other end of the
 * channel ends this process. */
static NORETURN void box_wait(int channel)
{
    char ignored;

    (void)signal(SIGCHLD, SIG_IGN);
    (void)dup2(channel, 0);
    (void)syscall(SYS_close_range, 1, ~0U, 0); /* also closes the report: the parent continues */
    while (read(0, &ignored, 1) != 0 && errno == EINTR)
        ;
    _exit(0);
}

int box_become(void *plan, struct proc_step *ret_step)
{
    static int (*const steps[])(struct box *) = {
        box_separate,  box_keep_all, box_protect, box_mount_all, box_mask,
        box_workspace, box_hide,     box_network, box_hand_over,
    };
    struct box b = {
        .plan = plan, .workspace = -EBADF, .upper = -EBADF, .upper_dir = -EBADF, .step = ret_step};
    int r = 0;

    (void)prctl(PR_SET_NAME, "session");
    for (size_t i = 0; r >= 0 && i < ARRAY_LEN(steps); i++)
        r = steps[i](&b);
    if (r >= 0)
        r = give_up_rights(ret_step);
    if (r >= 0)
        box_wait(b.plan->channel);
    return r;
}

/* --- entering a box --- */

static int box_join(const int *fds, enum box_fd first)
{
    for (int i = (int)first; i <= BOX_FD_MNT; i++)
        if (fds[i] >= 0 && setns(fds[i], 0) < 0)
            return -errno;
    return 0;
}

/* Ends with the exit status or the signal in `how`. */
static NORETURN void end_as(const siginfo_t *how)
{
    struct rlimit no_core = {0, 0};
    sigset_t all;

    if (how->si_code == CLD_EXITED)
        _exit(how->si_status);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)sigfillset(&all);
    (void)signal(how->si_status, SIG_DFL);
    (void)kill(getpid(), how->si_status);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    _exit(128 + how->si_status);
}

static void pass_on(pid_t group, int signo)
{
    if (signo > 0 && signo != SIGCHLD)
        (void)kill(-group, signo == CHILD_KILL_GROUP ? SIGKILL : signo);
}

/* Runs outside the box, as the child that execd waits for. Forwards signals to the group inside. */
static NORETURN void box_stand_in(pid_t child)
{
    static const struct timespec look = {.tv_nsec = LOOK_NS};
    siginfo_t how = {0};
    sigset_t all;
    bool asked = false;
    int signo;

    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)setpgid(child, child); /* the child does it, too: either may be first */
    (void)syscall(SYS_close_range, 0, ~0U, 0);
    if (caps_limit(UINT64_C(1) << CAP_KILL) < 0) /* the child may be another user */
        (void)caps_limit(0);
    while (waitid(P_PID, (id_t)child, &how, WEXITED | WNOHANG) < 0 || how.si_pid == 0) {
        signo = sigwaitinfo(&all, NULL);
        asked |= signo == SIGTERM;
        pass_on(child, signo);
    }
    while (asked && kill(-child, 0) == 0) /* the sender of SIGTERM decides when to kill the rest */
        pass_on(child, sigtimedwait(&all, NULL, &look));
    end_as(&how);
}

static int become_last(const struct child_user *user, const char *cwd, const char *name,
                       struct proc_step *ret_step)
{
    int r;

    *ret_step = (struct proc_step){"change to the user of", name};
    r = caps_bound(0);
    if (r >= 0)
        r = child_become(user);
    if (r >= 0)
        r = give_up_rights(ret_step);
    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"change directory to", cwd};
    return cwd ? child_enter(cwd) : 0;
}

int box_enter(const struct child_place *place, const struct child_user *user, const char *cwd,
              const char *name, struct proc_step *ret_step)
{
    pid_t pid;
    int r;

    *ret_step = (struct proc_step){"enter", "the session"};
    r = box_join(place->box->fds, BOX_FD_PID);
    if (r < 0)
        return r;
    pid = fork();
    if (pid < 0)
        return -errno;
    if (pid > 0)
        box_stand_in(pid);
    (void)setpgid(0, 0); /* our group has no id in there, which breaks shells */
    r = become_last(user->change ? user : &place->box->user, cwd, name, ret_step);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* without its stand-in its end would go unnoticed */
    return r;
}

int box_enter_view(const struct child_place *place, struct proc_step *ret_step)
{
    *ret_step = (struct proc_step){"enter", "the session"};
    return box_join(place->box->fds, BOX_FD_MNT);
}
