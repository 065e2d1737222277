#include "sandbox/unpack_start.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/mount_api.h"
#include "sandbox/layer_ids.h"
#include "sandbox/userns.h"

enum {
    MEMORY_BYTES = 1 << 30, /* zstd's largest window, the queue, the times of directories */
    OPEN_FILES = 64,
    FD_PARK = 64,
    STEP_SECONDS = 30,
};

int unpack_limits_check(const struct unpack_limits *l, struct err *e)
{
    const struct {
        const char *name;
        uint64_t value, max;
    } rows[] = {
        {"entries",     l->entries,     UNPACK_ENTRIES_MAX    },
        {"bytes",       l->bytes,       UNPACK_BYTES_MAX      },
        {"depth",       l->depth,       UNPACK_DEPTH_MAX      },
        {"xattr_bytes", l->xattr_bytes, UNPACK_XATTR_BYTES_MAX},
        {"ratio",       l->ratio,       UNPACK_RATIO_MAX      },
        {"time_ms",     l->time_ms,     UNPACK_TIME_MS_MAX    },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].value == 0 || rows[i].value > rows[i].max)
            return err_set(e, EINVAL, "the limit %s must be from 1 to %llu", rows[i].name,
                           (unsigned long long)rows[i].max);
    return 0;
}

/* --- the child: system calls only --- */

struct child {
    const struct unpack_start *start;
    int userns, mount, sock, limits, report;
    int parent_sock; /* to be closed: the parent alone has it */
};

static int step_die(const struct child *c, struct err *e)
{
    fd_close(c->parent_sock);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return err_sys(e, errno, "die with the parent");
    /* A pid namespace hides whether the parent has died before. */
    return poll(&(struct pollfd){.fd = c->sock}, 1, 0) > 0 ? err_set(e, ESRCH, "the parent died")
                                                           : 0;
}

/* The directory becomes the root; the old root is stacked on it and then detached. */
static int step_root(const struct child *c, struct err *e)
{
    char path[sizeof(c->start->host->state_path) + sizeof("/mnt")];
    auto_fd place = -EBADF;
    int r;

    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(e, errno, "make mounts private");
    (void)snprintf(path, sizeof(path), "%s/mnt", c->start->host->state_path);
    place = fd_open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
    if (place < 0)
        return place;
    r = mnt_attach(c->mount, place);
    if (r < 0)
        return err_sys(e, -r, "mount the directory");
    if (fchdir(c->mount) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        syscall(SYS_umount2, ".", MNT_DETACH) < 0 || chdir("/") < 0)
        return err_sys(e, errno, "pivot");
    return 0;
}

static int step_limits(const struct child *c, struct err *e)
{
    const struct unpack_limits *l = &c->start->limits;
    uint64_t seconds = l->time_ms / 1000 * 2 + 1; /* two threads */
    const struct {
        int which;
        rlim_t value;
    } rows[] = {
        {RLIMIT_AS,       MEMORY_BYTES},
        {RLIMIT_CORE,     0           },
        {RLIMIT_CPU,      seconds     },
        {RLIMIT_FSIZE,    l->bytes    },
        {RLIMIT_MSGQUEUE, 0           },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (syscall(SYS_prlimit64, 0, rows[i].which, &(struct rlimit){rows[i].value, rows[i].value},
                    NULL) < 0)
            return err_sys(e, errno, "set limits");
    return 0;
}

/* Afterwards root only inside. Changing ids resets PR_SET_PDEATHSIG. */
static int step_user(const struct child *c, struct err *e)
{
    const uint64_t keep = UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE |
                          UINT64_C(1) << CAP_FOWNER | UINT64_C(1) << CAP_FSETID |
                          UINT64_C(1) << CAP_SETFCAP;
    int r;

    if (setns(c->userns, CLONE_NEWUSER) < 0)
        return err_sys(e, errno, "enter");
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        return err_sys(e, errno, "become root inside");
    r = caps_limit(keep);
    if (r < 0)
        return err_sys(e, -r, "limit capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(e, errno, "no_new_privs");
    return prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? err_sys(e, errno, "die with the parent") : 0;
}

/* In two passes, so that none is overwritten. The standard files are closed: there is no /dev. */
static int step_exec(const struct child *c, struct err *e)
{
    int from[] = {c->start->blob, c->sock, c->limits, c->start->program, c->report};
    const char *const argv[] = {"opensandbox-unpack", NULL}, *const env[] = {NULL};

    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_PARK / 2);
        if (from[i] < 0)
            return err_sys(e, errno, "park descriptors");
    }
    for (int i = 0; i < 3; i++)
        if (dup2(from[i], UNPACK_FD_BLOB + i) < 0)
            return err_sys(e, errno, "place descriptors");
    if (syscall(SYS_close_range, 0, UNPACK_FD_BLOB - 1, 0) < 0 ||
        syscall(SYS_close_range, UNPACK_FD_LIMITS + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return err_sys(e, errno, "close the others");
    /* Only now: above, all descriptors of a busy broker are still open. */
    if (syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &(struct rlimit){OPEN_FILES, OPEN_FILES}, NULL) <
        0)
        return err_sys(e, errno, "limit descriptors");
    (void)syscall(SYS_execveat, from[3], "", argv, env, AT_EMPTY_PATH);
    return err_sys(e, errno, "exec");
}

static NORETURN void child_main(const struct child *c)
{
    static const struct {
        const char *name;
        int (*run)(const struct child *c, struct err *e);
    } steps[] = {
        {"tie to the broker",    step_die   },
        {"mount root",           step_root  }, /* as real root ... */
        {"set limits",           step_limits},
        {"enter user namespace", step_user  }, /* ... to here */
        {"start",                step_exec  },
    };
    struct err e = {0};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = steps[i].run(c, &e);

        if (r < 0) {
            (void)err_wrap(&e, r, "%s", steps[i].name);
            (void)write(c->report, &e, sizeof(e));
            _exit(1);
        }
    }
    _exit(1);
}

/* --- the parent --- */

/* A detached copy of the directory's mount, without what a layer must not have. */
static int target_clone(int target, struct err *e)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
                                          MOUNT_ATTR_NOSYMFOLLOW};
    auto_fd mount = mnt_clone(target, "", AT_EMPTY_PATH);
    int r = mount < 0 ? mount : mnt_set(mount, &attr, AT_EMPTY_PATH);

    return r < 0 ? err_sys(e, -r, "clone the directory") : take_fd(&mount);
}

static int limits_send(const struct unpack_limits *limits, int *ret_read, struct err *e)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    if (write(ends[1], limits, sizeof(*limits)) != (ssize_t)sizeof(*limits)) {
        fd_close(ends[0]);
        fd_close(ends[1]);
        return err_set(e, EIO, "write the limits");
    }
    fd_close(ends[1]);
    *ret_read = ends[0];
    return 0;
}

/* Waits until the child runs the program: then the pipe ends, else it has an error. */
static int start_result(int report, struct err *e)
{
    struct pollfd p = {.fd = report, .events = POLLIN};
    struct err said;
    ssize_t n;

    if (poll(&p, 1, STEP_SECONDS * 1000) <= 0)
        return err_set(e, ETIMEDOUT, "no step may take longer than %d s", STEP_SECONDS);
    n = read(report, &said, sizeof(said));
    if (n == 0)
        return 0;
    if (n != (ssize_t)sizeof(said) || said.code <= 0)
        return err_set(e, EIO, "the child ended");
    said.msg[sizeof(said.msg) - 1] = '\0';
    if (e)
        *e = said;
    return -said.code;
}

static int child_start(struct child *c, struct proc *ret, struct err *e)
{
    int pidfd = -EBADF, ends[2];
    struct clone_args args = {
        .flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_NEWCGROUP | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid;
    int r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    c->report = ends[1];
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        child_main(c);
    r = pid < 0 ? err_sys(e, errno, "make namespaces") : 0;
    fd_close(ends[1]);
    if (r == 0) {
        *ret = (struct proc){(pid_t)pid, pidfd};
        r = start_result(ends[0], e);
    }
    fd_close(ends[0]);
    if (r < 0 && pid > 0) {
        (void)kill((pid_t)pid, SIGKILL); /* it is not reaped yet */
        (void)waitpid((pid_t)pid, NULL, 0);
        proc_close(ret);
    }
    return r;
}

int unpack_start(const struct unpack_start *s, struct proc *ret_proc, int *ret_sock, struct err *e)
{
    auto_fd userns = -EBADF, mount = -EBADF, limits = -EBADF;
    struct child c = {.start = s};
    int socks[2], r;

    if (fchown(s->target, LAYER_UID_FIRST, LAYER_UID_FIRST) < 0 || fchmod(s->target, 0755) < 0)
        return err_sys(e, errno, "give the directory away");
    r = userns = userns_make(LAYER_UID_FIRST, LAYER_UID_COUNT, e);
    if (r >= 0)
        r = mount = target_clone(s->target, e);
    if (r >= 0)
        r = limits_send(&s->limits, &limits, e);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    c.userns = userns;
    c.mount = mount;
    c.limits = limits;
    c.sock = socks[1];
    c.parent_sock = socks[0];
    r = child_start(&c, ret_proc, e);
    fd_close(socks[1]);
    if (r < 0)
        fd_close(socks[0]);
    else
        *ret_sock = socks[0];
    return r;
}
