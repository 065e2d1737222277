#include "broker/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"

enum { KEPT_MAX = JOBS_HOST_FDS_MAX + JOBS_FDS_MAX + 1 };

int jobs_open(struct broker *b, int listener, struct err *e)
{
    struct jobs *jobs = &b->jobs;

    for (int fd = STDERR_FILENO + 1; fd < JOBS_HOST_FD_LAST; fd++) {
        if (fd == listener || fcntl(fd, F_GETFD) < 0)
            continue;
        if (jobs->host_fd_count == JOBS_HOST_FDS_MAX)
            return err_set(e, EMFILE, "more than %d descriptors of the host", JOBS_HOST_FDS_MAX);
        jobs->host_fds[jobs->host_fd_count++] = fd;
    }
    jobs->ended = epoll_create1(EPOLL_CLOEXEC);
    return jobs->ended < 0 ? err_sys(e, errno, "watch for the end of jobs") : jobs->ended;
}

/* --- the process --- */

static int fd_compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes what the worker has: connections, slots made ahead, locks of other jobs. */
static void close_others(const struct broker *b, const struct job *j, int client)
{
    int kept[KEPT_MAX];
    size_t count = 0;
    unsigned from = STDERR_FILENO + 1;

    for (size_t i = 0; j->needs_host && i < b->jobs.host_fd_count; i++)
        kept[count++] = b->jobs.host_fds[i];
    for (size_t i = 0; i < j->fd_count; i++)
        kept[count++] = j->fds[i];
    kept[count++] = client;
    qsort(kept, count, sizeof(kept[0]), fd_compare);
    for (size_t i = 0; i < count; i++) {
        unsigned fd = (unsigned)kept[i];

        if (fd > from)
            (void)syscall(SYS_close_range, from, fd - 1, 0);
        from = fd >= from ? fd + 1 : from;
    }
    (void)syscall(SYS_close_range, from, ~0U, 0);
}

static NORETURN void job_main(const struct broker *b, const struct job *j, int client, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)prctl(PR_SET_NAME, j->name);
    close_others(b, j, client);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    _exit(j->run(j->user, client));
}

/* --- the worker --- */

/* What a job froze that was killed would stay so until the next look at that sandbox. */
static void heal(const struct broker *b, const char *id)
{
    struct slot_record record;
    auto_fd dir = -EBADF;

    if (id[0] && life_find(b, id, &record, &dir, NULL) == 0)
        pause_heal(b, &record, dir);
}

void jobs_tend(struct broker *b)
{
    struct jobs *jobs = &b->jobs;

    for (size_t i = jobs->count; i-- > 0;) {
        struct job_note *note = &jobs->notes[i];

        if (poll(&(struct pollfd){.fd = note->pidfd, .events = POLLIN}, 1, 0) <= 0)
            continue;
        fd_close(note->pidfd); /* leaves the epoll set, too */
        heal(b, note->freezes);
        *note = jobs->notes[--jobs->count];
    }
}

/* Must be called while a descriptor is free, else the job would run on without being counted. */
static int job_note(struct broker *b, const struct job *j, pid_t pid, struct err *e)
{
    struct jobs *jobs = &b->jobs;
    struct job_note *note = &jobs->notes[jobs->count];
    struct proc proc;
    int r;

    *note = (struct job_note){.pidfd = -EBADF, .counts = j->counts};
    if (j->freezes)
        (void)!str_copy(note->freezes, sizeof(note->freezes), str_of(j->freezes));
    r = proc_open(pid, &proc);
    if (r == -ESRCH) { /* it has ended already */
        heal(b, note->freezes);
        return 0;
    }
    if (r < 0)
        return err_sys(e, -r, "watch a process"); /* it ends when its caller's socket closes */
    note->pidfd = proc.pidfd;
    jobs->count++;
    if (epoll_ctl(jobs->ended, EPOLL_CTL_ADD, proc.pidfd,
                  &(struct epoll_event){.events = EPOLLIN}) < 0)
        log_event(LOG_WARN, "the end of a job will be noticed late");
    return 0;
}

static int check_room(const struct jobs *jobs, bool counts, struct err *e)
{
    size_t same = 0;

    for (size_t i = 0; i < jobs->count; i++)
        same += jobs->notes[i].counts == counts;
    if (counts && same == JOBS_COUNTS_MAX)
        return err_set(e, EBUSY, "%d volumes are being counted already: try again when one is done",
                       JOBS_COUNTS_MAX);
    if (!counts && same == JOBS_MAX)
        return err_set(e, EBUSY,
                       "%d layers and volumes are being copied, merged, unpacked or started "
                       "already: try again when one is done",
                       JOBS_MAX);
    return 0;
}

int job_start(struct broker *b, const struct job *j, struct err *e)
{
    auto_fd ours = -EBADF, theirs = -EBADF;
    pid_t self = getpid(), pid;
    int socks[2], r;

    jobs_tend(b);
    r = check_room(&b->jobs, j->counts, e);
    if (r < 0)
        return r;
    if (j->fd_count > JOBS_FDS_MAX)
        return err_set(e, EMFILE, "more than %d descriptors for one job", JOBS_FDS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    ours = socks[0];
    theirs = socks[1];
    pid = fork();
    if (pid == 0)
        job_main(b, j, ours, self); /* closes the caller's end, else it would never see it closed */
    if (pid < 0)
        return err_sys(e, errno, "make a process");
    fd_close(take_fd(&ours)); /* a free descriptor for job_note() */
    r = job_note(b, j, pid, e);
    return r < 0 ? r : take_fd(&theirs);
}
