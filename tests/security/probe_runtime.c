/* probe_runtime.c - ways back through what the runtime left: descriptors, links, mounts, roots. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Which mount a file was found through; -1 when it cannot be told. */
static int mount_of(const char *path)
{
    char name[64], line[128];
    int id = -1, fd = open(path, O_PATH | O_CLOEXEC);
    FILE *f;

    (void)snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", fd);
    f = fd < 0 ? NULL : fopen(name, "re");
    while (f && id < 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "mnt_id: %d", &id) != 1)
            id = -1;
    if (f)
        (void)fclose(f);
    if (fd >= 0)
        (void)close(fd);
    return id;
}

/* A program of the sandbox's own root file system: a write goes to a copy. By its mount:
 * an overlay shows files of its layers with device numbers of theirs. */
static bool is_of_root(const char *link)
{
    int id = mount_of(link);

    return id >= 0 && id == mount_of("/");
}

/* ETXTBSY comes after the permission check: it means that writing is allowed once the program
 * ended. */
static struct result try_exe(const struct context *c, const struct probe *p)
{
    int fd = open(p->path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 && errno != ETXTBSY)
        return blocked("open for writing");
    if (init_is_us() || is_of_root(p->path))
        return verdict(CONTAINED, "writable, and a file of the sandbox's own");
    return verdict(OPEN, "writable once it has ended");
}

static struct result try_read_exe(const struct context *c, const struct probe *p)
{
    if (open(p->path, O_RDONLY | O_CLOEXEC) < 0)
        return blocked("open");
    if (init_is_us() || is_of_root(p->path))
        return verdict(CONTAINED, "a file of the sandbox's own");
    return verdict(OPEN, "readable");
}

static struct result try_mapped_exe(const struct context *c, const struct probe *p)
{
    struct dirent *d;
    DIR *dir = opendir("/proc/1/map_files");

    if (!dir)
        return blocked("opendir");
    while ((d = readdir(dir)))
        if (d->d_name[0] != '.' && openat(dirfd(dir), d->d_name, O_RDWR | O_CLOEXEC) >= 0)
            return init_is_us() ? verdict(CONTAINED, "a file of the sandbox's own")
                                : verdict(OPEN, "%s opens for writing", d->d_name);
    return verdict(BLOCKED, "none opens for writing");
}

static struct result try_inherited_fds(const struct context *c, const struct probe *p)
{
    if (c->inherited_fds)
        return verdict(OPEN, "%d descriptors were left to us", c->inherited_fds);
    return verdict(BLOCKED, "none above 2");
}

static struct result try_cwd(const struct context *c, const struct probe *p)
{
    char path[64], cwd[4096];

    if (c->cwd_unreachable)
        return verdict(OPEN, "started in a directory outside the root");
    for (int fd = 0; fd < 64; fd++) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (chdir(path) == 0 && (!getcwd(cwd, sizeof(cwd)) || cwd[0] != '/'))
            return verdict(OPEN, "%s leads outside the root", path);
    }
    return verdict(BLOCKED, "no directory outside the root within reach");
}

/* Walks into each descriptor of PID 1 that is a directory. */
static struct result try_init_fds(const struct context *c, const struct probe *p)
{
    struct stat st, root;
    struct dirent *d;
    DIR *dir = opendir("/proc/1/fd");

    if (!dir)
        return blocked("opendir");
    while ((d = readdir(dir))) {
        int fd = openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (d->d_name[0] == '.' || fd < 0 || fd == dirfd(dir))
            continue;
        if (fstat(fd, &st) == 0 && stat("/", &root) == 0 && st.st_dev != root.st_dev)
            return verdict(OPEN, "descriptor %s of init is a directory elsewhere", d->d_name);
    }
    return verdict(CONTAINED, "visible, and no directory among them");
}

static struct result judge_secret(const char *path)
{
    char text[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return blocked("open");
    return read(fd, text, sizeof(text)) < 0 ? blocked("read") : verdict(OPEN, "readable");
}

/* The host's file, through a prefix that might lead out. */
static struct result try_secret(const struct context *c, const struct probe *p)
{
    char path[4096];

    if (!c->secret_path)
        return verdict(NA, "no --secret-path");
    (void)snprintf(path, sizeof(path), "%s%s", p->path, c->secret_path);
    return judge_secret(path);
}

static struct result try_init_root(const struct context *c, const struct probe *p)
{
    struct stat st, root;
    int fd = open("/proc/1/root/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return blocked("open");
    if (fstat(fd, &st) == 0 && stat("/", &root) == 0 && same_file(&st, &root))
        return verdict(CONTAINED, "it is our own");
    return verdict(OPEN, "it is another than ours");
}

static int escape_chroot(const struct context *c)
{
    struct stat before, after;
    int fd;

    if (stat("/", &before) < 0 || mkdir("/probe-root", 0755) < 0)
        if (errno != EEXIST)
            return 3;
    fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (chroot("/probe-root") < 0)
        return 1;
    if (fd < 0 || fchdir(fd) < 0)
        return 3;
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            break;
    if (chroot(".") < 0 || stat("/", &after) < 0)
        return 3;
    return same_file(&before, &after) ? 2 : 0;
}

static struct result try_chroot(const struct context *c, const struct probe *p)
{
    int r = in_child(escape_chroot, c);

    (void)rmdir("/probe-root");
    switch (r) {
    case 0:
        return verdict(OPEN, "reached a directory above the root");
    case 1:
        errno = EPERM;
        return blocked("chroot");
    case 2:
        return verdict(CONTAINED, "chroot works and ends at the sandbox's own root");
    }
    return verdict(NA, "the attempt itself failed");
}

static struct result try_mount(const struct context *c, const struct probe *p)
{
    (void)mkdir("/tmp", 01777);
    if (strcmp(p->path, "tmpfs") == 0 || strcmp(p->path, "proc") == 0)
        return judge_call("mount", mount("none", "/tmp", p->path, MS_RDONLY, NULL));
    if (strcmp(p->path, "bind") == 0)
        return judge_call("bind mount", mount("/proc", "/tmp", NULL, MS_BIND, NULL));
    return judge_call("remount", mount(NULL, p->path, NULL, MS_REMOUNT | MS_BIND, NULL));
}

static struct result try_umount(const struct context *c, const struct probe *p)
{
    return judge_call("umount", umount2(p->path, MNT_DETACH));
}

static struct result try_call(const struct context *c, const struct probe *p)
{
    return judge_call(
        p->name, syscall(p->call[0], p->call[1], p->call[2], p->call[3], p->call[4], p->call[5]));
}

/* A user namespace makes root of us; the mounts below would be ours to undo. */
static int unmask_in_userns(const struct context *c)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return 1;
    if (umount2("/proc/sys", MNT_DETACH) == 0 || umount2("/proc/kcore", MNT_DETACH) == 0)
        return 0;
    if (mount("proc", "/proc", "proc", 0, NULL) == 0)
        return 0;
    return 2;
}

static struct result try_unmask(const struct context *c, const struct probe *p)
{
    switch (in_child(unmask_in_userns, c)) {
    case 0:
        return verdict(OPEN, "a namespace of our own shows what was masked");
    case 1:
        return verdict(BLOCKED, "no user namespace to be had");
    }
    return verdict(BLOCKED, "mounts are locked inside a user namespace");
}

/* Copies a path such as upperdir= out of our own mount table and tries it. */
static struct result try_upper(const struct context *c, const struct probe *p)
{
    char line[8192], *at;
    FILE *f = fopen("/proc/self/mountinfo", "re");

    if (!f)
        return blocked("open mountinfo");
    while (fgets(line, sizeof(line), f)) {
        at = strstr(line, "upperdir=");
        if (!at)
            continue;
        at += strlen("upperdir=");
        at[strcspn(at, ",\n ")] = '\0';
        if (open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0)
            return blocked("open upperdir");
        return verdict(OPEN, "%s opens", at);
    }
    return verdict(BLOCKED, "the mount table names no upper directory");
}

static struct result make_and_open(mode_t kind, dev_t device)
{
    static const char path[] = "/probe-device";
    int fd;

    if (mknod(path, kind | 0600, device) < 0)
        return blocked("mknod");
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    (void)unlink(path);
    if (fd < 0)
        return verdict(BLOCKED, "can be made, but open says %s", strerror(errno));
    return verdict(OPEN, "made and opened");
}

/* The first disk the kernel lists, which it does inside a container, too. */
static struct result try_disk(const struct context *c, const struct probe *p)
{
    unsigned device_major = 254, device_minor = 0;
    char line[256];
    FILE *f = fopen("/proc/partitions", "re");

    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%u %u", &device_major, &device_minor) == 2)
            break;
    if (f)
        (void)fclose(f);
    return make_and_open(S_IFBLK, makedev(device_major, device_minor));
}

static struct result try_mknod(const struct context *c, const struct probe *p)
{
    return make_and_open(S_IFCHR, makedev(p->call[0], p->call[1]));
}

/* The handle of inode 2, the root directory of an ext4 file system. */
static struct result try_handle(const struct context *c, const struct probe *p)
{
    union {
        struct file_handle h;
        char room[sizeof(struct file_handle) + 8];
    } u = {
        .h = {.handle_bytes = 8, .handle_type = 1}
    };
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    u.room[sizeof(struct file_handle)] = 2;
    return judge_call("open_by_handle_at", syscall(SYS_open_by_handle_at, fd, &u.h, O_RDONLY));
}

static bool copy_self(const char *to)
{
    char block[65536];
    ssize_t n;
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

    if (in < 0 || out < 0)
        return false;
    while ((n = read(in, block, sizeof(block))) > 0)
        if (write(out, block, (size_t)n) != n)
            return false;
    return close(out) == 0 && n == 0;
}

static int exec_as_nobody(const char *program)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(99);
        (void)execl(program, program, "--privileged", NULL);
        _exit(98);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 97;
    return WEXITSTATUS(status);
}

static struct result try_setuid(const struct context *c, const struct probe *p)
{
    static const char path[] = "/probe-setuid";
    /* As setcap would write it: version 2, effective, CHOWN and DAC_OVERRIDE permitted. */
    static const uint32_t caps[5] = {0x02000001, 0x3, 0, 0, 0};
    int r;

    if (!copy_self(path))
        return verdict(NA, "cannot write a program: %s", strerror(errno));
    if (p->call[0])
        r = setxattr(path, "security.capability", caps, sizeof(caps), 0);
    else
        r = chmod(path, 04755);
    if (r == 0)
        r = exec_as_nobody(path);
    (void)unlink(path);
    switch (r) {
    case 42:
        return verdict(OPEN, "an ordinary user gained privilege");
    case 0:
        return verdict(BLOCKED, "the program runs, without privilege");
    case 97:
    case 98:
        return verdict(BLOCKED, "the program does not run");
    }
    return r < 0 ? blocked("mark the program") : verdict(NA, "cannot become nobody");
}

static struct result try_ptmx(const struct context *c, const struct probe *p)
{
    unsigned number;
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd < 0)
        return blocked("open /dev/ptmx");
    if (ioctl(fd, TIOCGPTN, &number) < 0)
        return blocked("TIOCGPTN");
    for (unsigned i = 0; i < 64; i++) {
        char path[32];

        (void)snprintf(path, sizeof(path), "/dev/pts/%u", i);
        if (i != number && access(path, F_OK) == 0)
            return verdict(OPEN, "/dev/pts/%u is someone's terminal", i);
    }
    return verdict(CONTAINED, "a devpts of our own");
}

static struct result try_unlink(const struct context *c, const struct probe *p)
{
    return unlink(p->path) < 0 ? blocked("unlink") : verdict(OPEN, "removed");
}

#define P (long)
static const struct probe probes[] = {
    PROBE("exe-self", try_exe, "overwriting a program of the host runs our code there",
          .path = "/proc/self/exe"),
    PROBE("exe-pid1", try_exe, "the same through init, which the runtime started",
          .path = "/proc/1/exe"),
    PROBE("exe-pid1-read", try_read_exe, "a copy of it, to find what can be done to it",
          .path = "/proc/1/exe"),
    PROBE("exe-pid1-mapped", try_mapped_exe, "the same through its mappings"),
    PROBE("fds-inherited", try_inherited_fds, "a forgotten descriptor is a way out"),
    PROBE("fds-pid1", try_init_fds, "descriptors of init are openable through /proc"),
    PROBE("cwd-outside", try_cwd, "a working directory outside the root leads to all files"),
    PROBE("secret-direct", try_secret, "a file of the host by its own name", .path = ""),
    PROBE("secret-dotdot", try_secret, "the root has no parent",
          .path = "/../../../../../../../.."),
    PROBE("secret-proc1-root", try_secret, "init's root must be ours", .path = "/proc/1/root"),
    PROBE("secret-proc1-cwd", try_secret, "init's directory must be inside",
          .path = "/proc/1/cwd/../../../../.."),
    PROBE("root-pid1", try_init_root, "init's root as a directory to work from"),
    PROBE("secret-self-root", try_secret, "a magic link knows no bounds",
          .path = "/proc/self/root/.."),
    PROBE("upper-by-path", try_upper, "the layer below the overlay, past its checks"),
    PROBE("chroot-twice", try_chroot, "a second chroot frees what a first one holds"),
    PROBE("pivot-root", try_call, "changes what the root is",
          .call = {SYS_pivot_root, P "/", P "/"}),
    PROBE("mount-tmpfs", try_mount, "mounting is a large interface of the kernel", .path = "tmpfs"),
    PROBE("mount-proc", try_mount, "a fresh proc has nothing masked", .path = "proc"),
    PROBE("mount-bind", try_mount, "moves paths under checks made by name", .path = "bind"),
    PROBE("remount-proc-sys", try_mount, "read-only must stay so", .path = "/proc/sys"),
    PROBE("umount-proc-sys", try_umount, "what covers settings must stay", .path = "/proc/sys"),
    PROBE("umount-kcore", try_umount, "what masks a file must stay", .path = "/proc/kcore"),
    PROBE("unlink-mask", try_unlink, "the same by removal", .path = "/proc/kcore"),
    PROBE("unmask-in-userns", try_unmask, "root of a namespace may mount"),
    PROBE("fsopen", try_call, "the new mount API is the same door",
          .call = {SYS_fsopen, P "tmpfs", 0}),
    PROBE("fspick", try_call, "reconfigures a mount", .call = {SYS_fspick, AT_FDCWD, P "/proc", 0}),
    PROBE("open-tree", try_call, "clones mounts", .call = {SYS_open_tree, AT_FDCWD, P "/", 1}),
    PROBE("move-mount", try_call, "moves what masks",
          .call = {SYS_move_mount, AT_FDCWD, P "/proc/sys", AT_FDCWD, P "/tmp"}),
    PROBE("mount-setattr", try_call, "lifts read-only",
          .call = {SYS_mount_setattr, AT_FDCWD, P "/proc/sys", 0, 0}),
    PROBE("mknod-disk", try_disk, "a disk of the host is all files of the host"),
    PROBE("mknod-mem", try_mknod, "physical memory", .call = {1, 1}),
    PROBE("mknod-kmsg", try_mknod, "the kernel's log", .call = {1, 11}),
    PROBE("handle-of-root", try_handle, "a file handle ignores roots and mounts"),
    PROBE("setuid-program", try_setuid, "no user inside may become root by a file"),
    PROBE("capable-program", try_setuid, "nor gain capabilities by one", .call = {1}),
    PROBE("terminals", try_ptmx, "terminals of others can be read and typed into"),
};
const struct probe_group group_runtime = {"runtime", probes, ARRAY_LEN(probes)};
