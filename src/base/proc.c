/* proc.c - pidfds: opening, signalling, waiting, and identifying a process by its start time. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

#ifndef P_PIDFD
#define P_PIDFD 3 /* not in every libc; the same number on all architectures */
#endif

enum {
    STAT_BYTES_MAX = 4096,
    STAT_FIELD_STATE = 3,      /* the first field after the command's name */
    STAT_FIELD_STARTTIME = 22, /* proc_pid_stat(5) */
};

int proc_open(pid_t pid, struct proc *ret)
{
    long fd;

    if (pid <= 0)
        return -ESRCH;
    fd = syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return -errno;
    *ret = (struct proc){pid, (int)fd};
    return 0;
}

void proc_close(struct proc *p)
{
    fd_close(p->pidfd);
    *p = PROC_NONE;
}

int proc_signal(int pidfd, int sig)
{
    return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

/* A pidfd becomes readable when its process has ended. */
static int proc_wait_readable(int pidfd, uint64_t deadline)
{
    for (;;) {
        struct pollfd p = {.fd = pidfd, .events = POLLIN};
        int r = poll(&p, 1, deadline_left_ms(deadline));

        if (r > 0)
            return p.revents & POLLNVAL ? -EBADF : 0;
        if (r < 0 && errno != EINTR)
            return -errno;
        if (r == 0 && deadline_passed(deadline))
            return -ETIMEDOUT;
    }
}

int proc_wait(int pidfd, uint64_t deadline, struct proc_exit *ret)
{
    siginfo_t info = {0};
    int r;

    if (pidfd < 0)
        return -EBADF;
    r = proc_wait_readable(pidfd, deadline);
    if (r < 0)
        return r;
    do
        r = waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    *ret = (struct proc_exit){
        .by_signal = info.si_code != CLD_EXITED,
        .core_dumped = info.si_code == CLD_DUMPED,
        .code = info.si_status,
    };
    return 0;
}

/* "42 (name) S 1 ...": the name may contain spaces and parentheses, so the last ')' ends it.
 * Returns the text after it, from the state on; empty when the text is malformed. */
static struct str stat_after_name(struct str stat)
{
    const char *end = stat.n ? memrchr(stat.p, ')', stat.n) : NULL;

    if (!end || stat.p + stat.n - end < 2 || end[1] != ' ')
        return STR("");
    return str_skip(stat, (size_t)(end + 2 - stat.p));
}

static char stat_state(struct str stat)
{
    struct str rest = stat_after_name(stat);

    return rest.n ? rest.p[0] : '\0';
}

int proc_parse_start_time(struct str stat, uint64_t *ret_ticks)
{
    struct str rest = stat_after_name(stat), field;

    for (int i = STAT_FIELD_STATE; str_cut(&rest, ' ', &field); i++)
        if (i == STAT_FIELD_STARTTIME)
            return str_to_u64(field, ret_ticks) < 0 ? -EINVAL : 0;
    return -EINVAL;
}

int proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
    AUTO_BUF(stat, STAT_BYTES_MAX);
    char path[32];
    int r;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    r = io_read_file(AT_FDCWD, path, STAT_BYTES_MAX, &stat, NULL);
    if (r == -ENOENT)
        return -ESRCH;
    if (r < 0)
        return r;
    if (stat_state(buf_str(&stat)) == 'Z')
        return -ESRCH; /* a zombie: it has ended */
    return proc_parse_start_time(buf_str(&stat), ret_ticks);
}
