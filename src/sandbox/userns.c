#include "sandbox/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

/* Namespaces that must not be made inside, by any call: a seccomp filter cannot read the flags of
 * clone3, which PID 1 may call. A missing file means that the kernel lacks the type. */
static const char *const forbidden[] = {
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/user/max_cgroup_namespaces",
    "/proc/sys/user/max_time_namespaces",
};

enum { MAP_BYTES_MAX = 64 };

static pid_t userns_fork(uint64_t flags)
{
    struct clone_args args = {.flags = flags}; /* no exit signal, as SIGCHLD may be ignored */
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    return pid < 0 ? -errno : (pid_t)pid;
}

/* The child holds a new user namespace until it is killed or we die (PR_SET_PDEATHSIG): otherwise
 * it would keep all our descriptors open. */
static pid_t userns_clone(void)
{
    pid_t parent = getpid(), pid = userns_fork(CLONE_NEWUSER);

    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
            _exit(ESRCH);
        for (;;)
            (void)pause();
    }
    return pid;
}

/* The kernel also charges objects counted per user (inotify, for one) to the maker of the
 * namespace. So each is made under its own id, not root's. If only root may make them, root
 * does. */
static pid_t userns_hold(uint32_t owner)
{
    int death_signal = 0; /* reset by the kernel when ids change */
    int asked = prctl(PR_GET_PDEATHSIG, &death_signal);
    bool as_owner = syscall(SYS_setresuid, -1, owner, -1) == 0;
    pid_t pid = userns_clone();

    if (as_owner && syscall(SYS_setresuid, -1, 0, -1) < 0)
        abort(); /* continuing with mixed ids is not safe */
    if (asked == 0 && death_signal)
        (void)prctl(PR_SET_PDEATHSIG, death_signal);
    return as_owner && (pid == -EPERM || pid == -EACCES) ? userns_clone() : pid;
}

/* In a child: exits with an errno. */
static NORETURN void userns_close_from_inside(int userns)
{
    if (setns(userns, CLONE_NEWUSER) < 0)
        _exit(errno);
    for (size_t i = 0; i < ARRAY_LEN(forbidden); i++) {
        int fd = open(forbidden[i], O_WRONLY | O_CLOEXEC);

        if ((fd < 0 && errno != ENOENT) || (fd >= 0 && write(fd, "0", 1) < 0))
            _exit(errno);
        fd_close(fd);
    }
    _exit(0);
}

/* Only a process inside sees the limits, and the holder may lack the right to write them: a
 * security module such as Ubuntu's takes capabilities from namespaces not made by root. A process
 * that enters as root has all of them. */
static int userns_forbid(int userns, struct err *e)
{
    pid_t pid = userns_fork(0);
    int status = 0;

    if (pid == 0)
        userns_close_from_inside(userns);
    while (pid > 0 && waitpid(pid, &status, __WALL) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "wait for a child");
    if (pid > 0 && status == 0)
        return 0;
    return err_sys(e,
                   pid < 0             ? -pid
                   : WIFEXITED(status) ? WEXITSTATUS(status)
                                       : EINTR,
                   "set limits in /proc/sys/user to 0 in a user namespace");
}

static int userns_write_map(pid_t pid, const char *file, const char *map, struct err *e)
{
    char path[64];
    auto_fd fd = -EBADF;
    int r;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    fd = fd_open_at(AT_FDCWD, path, O_WRONLY, 0, PATH_FREE, e);
    if (fd < 0)
        return fd;
    r = io_write_full(fd, str_of(map), DEADLINE_NEVER);
    return r < 0 ? err_sys(e, -r, "write %s", path) : 0;
}

/* How to fix a kernel that refuses user namespaces; "" when not known. */
static const char *userns_remedy(int code)
{
    if (code == EPERM || code == EACCES)
        return ". The kernel allows none in a chroot, nor may most containers make any: run the "
               "broker outside, or in a container with --privileged";
    if (code == ENOSPC || code == EUSERS)
        return ". Their number is limited: raise sysctl user.max_user_namespaces";
    if (code == EINVAL || code == ENOSYS)
        return ". The kernel is built without them (CONFIG_USER_NS)";
    return "";
}

/* `inside`: processes will enter it. */
static int userns_open(uint32_t owner, const char *map, bool inside, struct err *e)
{
    char path[64];
    pid_t pid = userns_hold(owner);
    auto_fd fd = -EBADF;
    int r;

    if (pid < 0)
        return err_set(e, -pid, "make a user namespace: %s%s", strerror(-pid), userns_remedy(-pid));
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    r = fd = fd_open_at(AT_FDCWD, path, O_RDONLY, 0, PATH_FREE, e);
    if (r >= 0 && inside)
        r = userns_forbid(fd, e);
    if (r >= 0)
        r = userns_write_map(pid, "uid_map", map, e);
    if (r >= 0)
        r = userns_write_map(pid, "gid_map", map, e);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return r < 0 ? r : take_fd(&fd);
}

int userns_make(uint32_t first, uint32_t count, struct err *e)
{
    char map[MAP_BYTES_MAX];

    (void)snprintf(map, sizeof(map), "0 %u %u\n", first, count);
    return userns_open(first, map, true, e);
}

int userns_make_map(uint32_t from, uint32_t first, uint32_t count, struct err *e)
{
    char map[MAP_BYTES_MAX];

    (void)snprintf(map, sizeof(map), "%u %u %u\n%u 0 1\n", from, first, count, from + count);
    return userns_open(first, map, false, e);
}
