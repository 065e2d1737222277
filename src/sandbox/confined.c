#include "sandbox/confined.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"

enum { REPORT_FD_FIRST = 64 }; /* above the descriptors that a program is given */

/* --- parts of steps --- */

int confined_open_place(const struct host *host, struct err *e)
{
    char path[sizeof(host->state_path) + sizeof("/mnt")];

    if (syscall(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(e, errno, "make mounts private");
    (void)snprintf(path, sizeof(path), "%s/mnt", host->state_path);
    return fd_open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, PATH_FREE, e);
}

/* pivot_root(2) stacks the old root on the new one, from where it is detached. */
int confined_pivot(int root, struct err *e)
{
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        syscall(SYS_umount2, ".", MNT_DETACH) < 0 || chdir("/") < 0)
        return err_sys(e, errno, "pivot");
    return 0;
}

int confined_limit(const struct confined_limit *limits, size_t count, struct err *e)
{
    for (size_t i = 0; i < count; i++)
        if (syscall(SYS_prlimit64, 0, limits[i].which,
                    &(struct rlimit){limits[i].value, limits[i].value}, NULL) < 0)
            return err_sys(e, errno, "set limits");
    return 0;
}

int confined_enter_user(int userns, uint64_t keep, struct err *e)
{
    int r;

    if (setns(userns, CLONE_NEWUSER) < 0)
        return err_sys(e, errno, "enter");
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, 0, 0, 0) < 0 ||
        syscall(SYS_setresuid, 0, 0, 0) < 0)
        return err_sys(e, errno, "become root inside");
    r = caps_limit(keep);
    if (r < 0)
        return err_sys(e, -r, "limit capabilities");
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? err_sys(e, errno, "no_new_privs") : 0;
}

/* --- the child --- */

static NORETURN void child_main(const struct confined *c, int report)
{
    int high = fcntl(report, F_DUPFD_CLOEXEC, REPORT_FD_FIRST);
    struct err e = {0};
    sigset_t none;

    if (high >= 0)
        report = high;
    (void)setsid();
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < c->step_count; i++) {
        int r = c->steps[i].run(c->user, &e);

        if (r < 0) {
            (void)err_wrap(&e, r, "%s", c->steps[i].name);
            (void)!write(report, &e, sizeof(e));
            break;
        }
    }
    _exit(1);
}

/* --- the parent --- */

/* Waits until the child runs the program: then the pipe ends, else it has an error. */
static int start_result(int report, int ms_max, struct err *e)
{
    struct pollfd p = {.fd = report, .events = POLLIN};
    struct err said;
    ssize_t n;

    if (poll(&p, 1, ms_max) <= 0)
        return err_set(e, ETIMEDOUT, "the steps take longer than %d s", ms_max / 1000);
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

int confined_start(const struct confined *c, struct proc *ret, struct err *e)
{
    int pidfd = -EBADF, ends[2];
    struct clone_args args = {
        .flags = c->namespaces | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_NEWCGROUP | CLONE_PIDFD | CLONE_CLEAR_SIGHAND,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid;
    int r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make a pipe");
    pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        child_main(c, ends[1]);
    r = pid < 0 ? err_sys(e, errno, "make namespaces") : 0;
    fd_close(ends[1]);
    if (r == 0)
        r = start_result(ends[0], c->steps_ms_max, e);
    fd_close(ends[0]);
    if (r == 0) {
        *ret = (struct proc){(pid_t)pid, pidfd};
    } else if (pid > 0) {
        (void)kill((pid_t)pid, SIGKILL); /* it is not reaped yet */
        (void)waitpid((pid_t)pid, NULL, 0);
        fd_close(pidfd);
    }
    return r;
}
