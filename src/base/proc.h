/* proc.h - processes held by pidfd: a number can be reused by a stranger, a descriptor cannot.
 *
 * The caller's SIGCHLD must not be ignored (nor SA_NOCLDWAIT), or exits are lost to everyone. */
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

/* Opens a process of another owner's making. -ESRCH when there is none. */
int proc_open(pid_t pid, struct proc *ret) MUST_USE;
void proc_close(struct proc *p); /* closes the descriptor; neither kills nor reaps */

/* -ESRCH once the process was reaped; a zombie takes signals silently. Signal 0 only asks. */
int proc_signal(int pidfd, int sig) MUST_USE;

/* Waits for a child and reaps it. -ETIMEDOUT at the deadline (0 looks once), -ECHILD for a process
 * that is not our child or was reaped. */
int proc_wait(int pidfd, uint64_t deadline, struct proc_exit *ret) MUST_USE;

/* When the process started, in clock ticks since boot: with the pid it names a process for good,
 * also across our own restart. -ESRCH when there is no such process, or only a zombie of it. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks) MUST_USE;
/* Finds that field in the text of /proc/PID/stat. -EINVAL when the text is not of that form. */
int proc_parse_start_time(struct str stat, uint64_t *ret_ticks) MUST_USE;

enum proc_flags {
    PROC_NEW_SESSION = 1 << 0, /* setsid(): also leads a new process group */
    PROC_NEW_GROUP = 1 << 1,   /* a process group of its own in our session */
    PROC_DIE_WITH_US = 1 << 2, /* SIGKILL when the thread that spawned it ends */
};

enum { PROC_MORE_MAX = 4 };

/* Control groups to be in before anything else: by birth in one of version 2, where its directory
 * is at hand, and by writing "0" to a file of each of the others. Without a directory the first
 * file does for that group, too. The files are descriptors in a row. */
struct proc_groups {
    int dir_fd; /* -EBADF: there is none */
    int first_fd;
    uint32_t count;
};

/* What a step in the child was doing, to what: becomes "change directory to '/x'". */
struct proc_step {
    const char *what, *name;
};

/* What to run. Pointers are borrowed for the call. */
struct proc_spec {
    const char *path;        /* the file to run; no search in PATH */
    const char *const *argv; /* NULL-terminated, argv[0] included */
    const char *const *env;  /* NULL-terminated; NULL is an empty environment */
    int cwd_fd;              /* its working directory; -EBADF keeps ours */
    int stdio[3]; /* become 0, 1, 2; -EBADF is /dev/null, or the like. May be any of ours */
    /* Become 3, 4 and so on, in place of whatever we have there; PROC_MORE_MAX at most. */
    const int *more;
    size_t more_count;
    enum proc_flags flags; /* PROC_*, or-ed */
    /* CLONE_NEW* flags: namespaces that it is the first process of. Needs the privilege to make
     * them. 0: stays in ours. */
    unsigned long namespaces;
    /* NULL: stays in ours. Being born in one costs nothing; moving there, which is done where
     * that is refused, waits for all of the machine's processors: milliseconds. */
    const struct proc_groups *groups;
    /* The child's last step before exec, or NULL: changing ids, say. Our other descriptors are
     * still open in it, and will be closed by exec. Only what is safe after fork. May exec by
     * itself; else 0, or -errno with *ret_step filled in.
     *
     * It may also live on without exec. Then it is by fork() that it should be made, with neither
     * namespaces nor a group to be born in: others are no more than a system call, past libc, which
     * takes such a child for its parent wherever it goes by the number of a thread, as in abort(),
     * raise(), and locks that know who holds them. */
    int (*prepare)(void *user, struct proc_step *ret_step);
    void *user;
};
#define PROC_SPEC(file, args)                                                                      \
    {                                                                                              \
        .path = (file), .argv = (args), .cwd_fd = -EBADF, .stdio = { -EBADF, -EBADF, -EBADF }      \
    }

/* Starts it with an empty signal mask, default dispositions and no descriptor but those named.
 * Returns once the program runs; a failure before that, in the child too, comes back as a sentence
 * that names the step ("exec '/bin/x': No such file or directory"), and then no child is left.
 * Blocks for as long as the kernel takes to exec. Thread-safe. */
int proc_spawn(const struct proc_spec *spec, struct proc *ret, struct err *e) MUST_USE;

/* The same in two halves, for whoever must not wait, and reaps all children by number. The first
 * returns while the child is still on its way; the spec is not needed any more, and *ret_report
 * (the caller's to close) turns readable when the program runs or cannot. */
int proc_spawn_start(const struct proc_spec *spec, pid_t *ret_pid, int *ret_report,
                     struct err *e) MUST_USE;
/* Reads the report, waiting for it if need be: 0 when the program runs, else as proc_spawn fails;
 * the child then ends by itself and must be reaped. */
int proc_spawn_result(int report, const char *path, struct err *e) MUST_USE;

static inline void proc_closep(struct proc *p)
{
    proc_close(p);
}
#define auto_proc __attribute__((cleanup(proc_closep))) struct proc
