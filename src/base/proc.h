/* proc.h - processes held by pidfd: unlike a pid, a pidfd never refers to another process.
 *
 * The caller must not ignore SIGCHLD (nor set SA_NOCLDWAIT): the exit status would be lost. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct proc {
    pid_t pid;
    int pidfd; /* CLOEXEC; -EBADF when unset */
};
#define PROC_NONE ((struct proc){0, -EBADF})

struct proc_exit {
    bool by_signal; /* killed by signal `code`; otherwise exited with status `code` */
    bool core_dumped;
    int code;
};

/* Opens a process that the caller did not spawn. -ESRCH when there is none. */
int proc_open(pid_t pid, struct proc *ret) MUST_USE;
void proc_close(struct proc *p); /* closes the descriptor; neither kills nor reaps */

/* -ESRCH once the process was reaped; a zombie accepts signals without effect. Signal 0 only
 * tests. */
int proc_signal(int pidfd, int sig) MUST_USE;

/* Waits for a child and reaps it. -ETIMEDOUT at the deadline (0 polls once), -ECHILD for a process
 * that is not our child or was reaped. */
int proc_wait(int pidfd, uint64_t deadline, struct proc_exit *ret) MUST_USE;

/* Start time in clock ticks since boot. With the pid it identifies a process uniquely, also across
 * our own restart. -ESRCH when there is no such process, or it is a zombie. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks) MUST_USE;
/* Finds the start time in the text of /proc/PID/stat. -EINVAL when the text is malformed. */
int proc_parse_start_time(struct str stat, uint64_t *ret_ticks) MUST_USE;

enum proc_flags {
    PROC_NEW_SESSION = 1 << 0, /* setsid(): also leads a new process group */
    PROC_NEW_GROUP = 1 << 1,   /* a process group of its own in our session */
    PROC_DIE_WITH_US = 1 << 2, /* SIGKILL when the thread that spawned it ends (PR_SET_PDEATHSIG) */
};

enum { PROC_MORE_MAX = 4 };

/* Control groups that the child joins first. The files (cgroup.procs or tasks) are `count`
 * consecutive descriptors from first_fd; the child writes "0" to each. With dir_fd, a directory of
 * cgroup v2, the child is created there (CLONE_INTO_CGROUP) and skips the first file. */
struct proc_groups {
    int dir_fd; /* -EBADF: none */
    int first_fd;
    uint32_t count;
};

/* A step in the child, for the error message: "change directory to '/x'". */
struct proc_step {
    const char *what, *name;
};

/* What to run. Pointers are borrowed for the call. */
struct proc_spec {
    const char *path;        /* the file to execute; PATH is not searched */
    const char *const *argv; /* NULL-terminated, argv[0] included */
    const char *const *env;  /* NULL-terminated; NULL means an empty environment */
    int cwd_fd;              /* working directory; -EBADF keeps ours */
    int stdio[3]; /* become 0, 1, 2; -EBADF means /dev/null, or if missing an empty memfd. May be
                     any of ours */
    /* Become 3, 4 and so on; at most PROC_MORE_MAX. */
    const int *more;
    size_t more_count;
    enum proc_flags flags; /* PROC_* flags */
    /* CLONE_NEW* flags of namespaces that the child is created in. Needs the privilege to create
     * them. 0: the child stays in ours. */
    unsigned long namespaces;
    /* NULL: the child stays in ours. CLONE_INTO_CGROUP is free; where the kernel refuses it, the
     * child is moved, which waits for all CPUs and takes milliseconds. */
    const struct proc_groups *groups;
    /* The child's last step before exec, or NULL; for example to change ids. Our other descriptors
     * are still open; exec closes them. Only async-signal-safe calls. May call exec itself; else
     * returns 0, or -errno with *ret_step filled in.
     *
     * If it continues without exec, use neither namespaces nor groups.dir_fd, so that the child is
     * made by fork(). Otherwise it is made by a raw clone system call: libc then still has the
     * parent's thread id in the child, and abort(), raise() and locks that record their owner
     * misbehave. */
    int (*prepare)(void *user, struct proc_step *ret_step);
    void *user;
};
#define PROC_SPEC(file, args)                                                                      \
    {                                                                                              \
        .path = (file), .argv = (args), .cwd_fd = -EBADF, .stdio = { -EBADF, -EBADF, -EBADF }      \
    }

/* Starts the program with an empty signal mask, default dispositions and only the descriptors
 * named. Returns once exec succeeded. A failure before that, also in the child, returns an error
 * that names the step ("exec '/bin/x': No such file or directory"), and no child is left. Blocks
 * until the kernel has done the exec. Thread-safe. */
int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *e) MUST_USE;

/* The same in two steps, for a caller that must not block and reaps its children by pid.
 * proc_spawn_start returns before the exec; the spec may then be freed. *ret_report becomes
 * readable when the program runs or failed to start; the caller closes it. */
int proc_spawn_start(const struct proc_spec *spec, pid_t *ret_pid, int *ret_report,
                     struct err *e) MUST_USE;
/* Reads the report, blocking until it is there: 0 when the program runs, else an error as of
 * proc_spawn; the child then exits by itself and the caller reaps it. */
int proc_spawn_result(int report, const char *path, struct err *e) MUST_USE;

static inline void proc_closep(struct proc *p)
{
    proc_close(p);
}
#define auto_proc __attribute__((cleanup(proc_closep))) struct proc
