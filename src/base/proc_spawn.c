/* proc_spawn.c - starts a program from a proc_spec.
 *
 * Uses fork, not vfork: the child changes descriptors and signals first, and must not do so on the
 * parent's stack. Between fork and exec it makes only calls that are safe in the child of a
 * threaded process: no malloc, no lock, no log. A failed step fills a struct err and writes it into
 * a CLOEXEC pipe. Exec closes the pipe, and the parent then reads end of file instead of an error.
 *
 * All signals are blocked during fork, so that none of our handlers runs in the child. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/memfd.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/time.h"

enum {
    FIRST_FREE_FD = 3,
    EXIT_SPAWN_FAILED = 127,
    SIGNAL_COUNT = 64,
    CLOSE_BY_HAND_MAX = 1 << 16,
};

struct spawn_step {
    const char *what;
    int (*run)(const struct proc_spec *spec, pid_t parent);
};

static int step_session(const struct proc_spec *spec, pid_t parent)
{
    if (spec->flags & PROC_NEW_SESSION)
        return setsid() < 0 ? -errno : 0;
    if (spec->flags & PROC_NEW_GROUP)
        return setpgid(0, 0) < 0 ? -errno : 0;
    return 0;
}

static int step_parent(const struct proc_spec *spec, pid_t parent)
{
    if (!(spec->flags & PROC_DIE_WITH_US))
        return 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    /* The parent may have ended before prctl. */
    return getppid() == parent ? 0 : -ESRCH;
}

static int step_directory(const struct proc_spec *spec, pid_t parent)
{
    return spec->cwd_fd >= 0 && fchdir(spec->cwd_fd) < 0 ? -errno : 0;
}

/* The first descriptor number that the program does not get. */
static int first_free_fd(const struct proc_spec *spec)
{
    return FIRST_FREE_FD + (int)spec->more_count;
}

/* Without /dev/null in the root file system: a sealed memfd, which reads as empty and refuses
 * writes. */
static int open_null(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = (int)syscall(SYS_memfd_create, "null", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0)
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL);
    return fd;
}

/* First moves all descriptors to high numbers: one may have the number that another must get. */
static int step_stdio(const struct proc_spec *spec, pid_t parent)
{
    int high[FIRST_FREE_FD + PROC_MORE_MAX];

    for (int i = 0; i < first_free_fd(spec); i++) {
        int from = i < FIRST_FREE_FD ? spec->stdio[i] : spec->more[i - FIRST_FREE_FD];

        if (from < 0)
            from = open_null();
        high[i] = from < 0 ? -1 : fcntl(from, F_DUPFD_CLOEXEC, first_free_fd(spec));
        if (high[i] < 0)
            return -errno;
    }
    for (int i = 0; i < first_free_fd(spec); i++)
        if (dup2(high[i], i) < 0)
            return -errno;
    return 0;
}

/* Marks all other descriptors CLOEXEC. Uses a slow loop where the kernel or a seccomp filter
 * refuses close_range. */
static int step_descriptors(const struct proc_spec *spec, pid_t parent)
{
    long limit;

    if (!fault_hit(FAULT_SYSCALL) &&
        syscall(SYS_close_range, first_free_fd(spec), ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return 0;
    limit = sysconf(_SC_OPEN_MAX);
    if (limit < 0 || limit > CLOSE_BY_HAND_MAX)
        limit = CLOSE_BY_HAND_MAX; /* all our descriptors above are CLOEXEC already */
    for (long fd = first_free_fd(spec); fd < limit; fd++)
        (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC); /* most are not open */
    return 0;
}

/* Exec inherits ignored signals and the mask, and resets handlers. Uses the raw system call:
 * libc's wrapper refuses the two signals it reserves for threads, which our parent may have
 * ignored, too. */
static int step_signals(const struct proc_spec *spec, pid_t parent)
{
    static const unsigned long dfl[8]; /* the kernel's struct sigaction: all zero is SIG_DFL */
    sigset_t none;

    for (int sig = 1; sig <= SIGNAL_COUNT; sig++)
        (void)syscall(SYS_rt_sigaction, sig, dfl, NULL, SIGNAL_COUNT / 8); /* not KILL, STOP */
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* Returns only on failure; success closes the pipe. */
static int spawn_exec(const struct proc_spec *spec)
{
    static const char *const empty[] = {NULL};
    const char *const *env = spec->env ? spec->env : empty;

    execve(spec->path, (char *const *)spec->argv, (char *const *)env); /* reads them only */
    return -errno;
}

/* Joins all groups, without the first if the child was created in it. */
static int enter_groups(const struct proc_groups *g, bool born_inside)
{
    for (uint32_t i = born_inside; g && i < g->count; i++)
        if (write(g->first_fd + (int)i, "0", 1) < 0)
            return -errno;
    return 0;
}

static const struct spawn_step spawn_steps[] = {
    {"start a session",        step_session    },
    {"follow the parent",      step_parent     },
    {"change directory",       step_directory  },
    {"connect standard files", step_stdio      },
    {"close the rest",         step_descriptors},
    {"reset signals",          step_signals    },
};

/* Appends what fits of `more`, leaving room for a NUL. Returns the new length. */
static size_t text_add(char *text, size_t n, size_t size, const char *more)
{
    while (*more && n < size - 1)
        text[n++] = *more++;
    return n;
}

/* Writes only the name of the step: the parent adds the error text, because strerror may lock. */
static NORETURN void spawn_fail(int report, int r, struct proc_step step)
{
    struct err e = {.code = -r};
    const char *const parts[] = {step.what, " '", step.name, "'"};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        n = text_add(e.msg, n, sizeof(e.msg), parts[i]);
    (void)!write(report, &e, sizeof(e)); /* below PIPE_BUF: written whole or not at all */
    _exit(EXIT_SPAWN_FAILED);
}

static NORETURN void spawn_child(const struct proc_spec *spec, pid_t parent, int report,
                                 bool born_inside)
{
    int safe = fcntl(report, F_DUPFD_CLOEXEC, first_free_fd(spec)); /* above its descriptors */
    struct proc_step step = {"keep a descriptor", spec->path};
    int r;

    if (safe < 0)
        spawn_fail(report, -errno, step);
    step.what = "enter the control groups of";
    r = enter_groups(spec->groups, born_inside);
    if (r < 0)
        spawn_fail(safe, r, step);
    for (size_t i = 0; i < ARRAY_LEN(spawn_steps); i++) {
        step.what = spawn_steps[i].what;
        r = spawn_steps[i].run(spec, parent);
        if (r < 0)
            spawn_fail(safe, r, step);
    }
    r = spec->prepare ? spec->prepare(spec->user, &step) : 0;
    if (r < 0)
        spawn_fail(safe, r, step);
    spawn_fail(safe, spawn_exec(spec), (struct proc_step){"exec", spec->path});
}

/* fork() takes no flags. The raw clone without a new stack does the same, but skips libc's work in
 * the child: libc keeps the parent's thread id there until exec. */
static pid_t fork_into(unsigned long namespaces)
{
    return namespaces ? (pid_t)syscall(SYS_clone, namespaces | SIGCHLD, NULL, NULL, NULL, NULL)
                      : fork();
}

/* The same, created in the cgroup. Only clone3 has CLONE_INTO_CGROUP. */
static pid_t fork_in_group(unsigned long namespaces, int group)
{
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP | namespaces,
        .exit_signal = SIGCHLD,
        .cgroup = (uint64_t)group,
    };

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Forks with all signals blocked in both processes; the parent's mask is restored. */
static pid_t spawn_fork(const struct proc_spec *spec, int report)
{
    pid_t parent = getpid(), pid;
    sigset_t all, before;
    bool born_inside = spec->groups && spec->groups->count > 0 && spec->groups->dir_fd >= 0;
    int saved;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = born_inside ? fork_in_group(spec->namespaces, spec->groups->dir_fd) : -1;
    born_inside = pid >= 0;
    /* The reason does not matter: the kernel or a seccomp filter refuses clone3, or the group is at
     * its pids limit, which a move ignores. */
    if (!born_inside)
        pid = fork_into(spec->namespaces);
    if (pid == 0)
        spawn_child(spec, parent, report, born_inside);
    saved = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return pid;
}

/* Reads the child's report: end of file when the program runs. */
int proc_spawn_result(int report, const char *path, struct err *e)
{
    struct err child;
    size_t n = 0;
    int r = io_read_full(report, &child, sizeof(child), DEADLINE_NEVER, &n);

    if (r < 0)
        return err_sys(e, -r, "spawn '%s': read the child's report", path);
    if (n == 0)
        return 0;
    if (n != sizeof(child) || child.code <= 0)
        return err_set(e, EPROTO, "spawn '%s': the child's report is broken", path);
    child.msg[sizeof(child.msg) - 1] = '\0';
    return err_sys(e, child.code, "%s", child.msg);
}

/* Kills and reaps a child that is not returned to the caller. It is unreaped, so its pid is still
 * valid. */
static void spawn_abandon(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int proc_spawn_start(const struct proc_spec *spec, pid_t *ret_pid, int *ret_report, struct err *e)
{
    auto_fd report = -EBADF;
    int fds[2], r;
    pid_t pid;

    assert(spec->more_count <= PROC_MORE_MAX);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, errno, "spawn '%s': pipe", spec->path);
    report = fds[0];
    pid = spawn_fork(spec, fds[1]);
    r = pid < 0 ? -errno : 0;
    fd_close(fds[1]);
    if (r < 0)
        return err_sys(e, -r, "spawn '%s': fork", spec->path);
    /* The child does the same; whichever runs first, the group can be signalled from now on. */
    if (spec->flags & PROC_NEW_GROUP)
        (void)setpgid(pid, pid);
    *ret_pid = pid;
    *ret_report = take_fd(&report);
    return 0;
}

int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *e)
{
    auto_fd report = -EBADF;
    auto_proc child = PROC_NONE;
    pid_t pid;
    int r = proc_spawn_start(spec, &pid, &report, e);

    if (r < 0)
        return r;
    r = proc_open(pid, &child); /* an unreaped child: its pid cannot have been reused */
    if (r < 0)
        (void)err_sys(e, -r, "spawn '%s': pidfd_open", spec->path);
    else
        r = proc_spawn_result(report, spec->path, e);
    if (r < 0) {
        spawn_abandon(pid);
        return r;
    }
    *ret = child;
    child = PROC_NONE;
    return 0;
}
