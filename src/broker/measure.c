/* measure.c - counts the files of a directory and their bytes on disk.
 *
 * A volume may have millions of files, and belongs to users that the caller cannot read as. So a
 * worker forks a process, which ends with it, at its deadline, or when the caller closes the
 * socket. A tree that is too large or too deep is not counted in part: the answer is -E2BIG. */
#include "broker/measure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/proc.h"
#include "base/time.h"

enum {
    DEPTH_MAX = 256,
    JOBS_MAX = 16,     /* of one worker at a time */
    LOOK_EVERY = 1024, /* entries, between looks at clock and caller */
    BLOCK_BYTES = 512, /* of st_blocks */
};

struct measure {
    DIR *levels[DEPTH_MAX];
    size_t depth;
    uint64_t deadline;
    int caller;
    struct broker_copied *ret;
};

static int enter(struct measure *m, int parent, const char *name)
{
    auto_fd fd = -EBADF;

    if (m->depth == DEPTH_MAX)
        return err_set(&m->ret->err, E2BIG, "directories are nested more than %d deep", DEPTH_MAX);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    m->levels[m->depth] = fd < 0 ? NULL : fdopendir(fd);
    if (!m->levels[m->depth]) /* it was removed meanwhile */
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                   ? 0
                   : err_sys(&m->ret->err, errno, "enter a directory");
    (void)take_fd(&fd);
    m->depth++;
    return 0;
}

/* A file of several names counts in parts, which add up when all of them are here. */
static int count(struct measure *m, const char *name)
{
    int parent = dirfd(m->levels[m->depth - 1]);
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    m->ret->entries++;
    if (S_ISDIR(st.st_mode)) {
        m->ret->bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
        return enter(m, parent, name);
    }
    m->ret->bytes +=
        (uint64_t)st.st_blocks * BLOCK_BYTES / (st.st_nlink ? (uint64_t)st.st_nlink : 1);
    return 0;
}

static int look_up(const struct measure *m)
{
    if (deadline_passed(m->deadline))
        return err_set(&m->ret->err, E2BIG, "there are too many files to count them in %d s",
                       BROKER_MEASURE_MS_MAX / 1000);
    return poll(&(struct pollfd){.fd = m->caller, .events = POLLIN}, 1, 0) > 0 ? -ECANCELED : 0;
}

static int measure(struct measure *m, int dir)
{
    int r = enter(m, dir, ".");

    for (uint32_t turn = 0; r == 0 && m->depth > 0; turn++) {
        struct dirent *d = readdir(m->levels[m->depth - 1]);

        if (turn % LOOK_EVERY == LOOK_EVERY - 1)
            r = look_up(m);
        if (r < 0)
            break;
        if (d)
            r = count(m, d->d_name);
        else
            closedir(m->levels[--m->depth]);
    }
    return r; /* the process ends: what is open goes with it */
}

static NORETURN void measure_main(int dir, int caller, pid_t parent)
{
    static struct broker_copied copied;
    static struct measure m;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    (void)prctl(PR_SET_NAME, "volume count");
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    m = (struct measure){
        .deadline = deadline_in_ms(BROKER_MEASURE_MS_MAX), .caller = caller, .ret = &copied};
    copied.result = measure(&m, dir);
    _exit(fd_send(caller, &copied, sizeof(copied), NULL, 0) < 0);
}

/* --- the worker --- */

/* Processes that count, by pidfd. */
static int jobs[JOBS_MAX];
static size_t job_count;

static bool jobs_are_full(void)
{
    for (size_t i = job_count; i-- > 0;) {
        if (poll(&(struct pollfd){.fd = jobs[i], .events = POLLIN}, 1, 0) <= 0)
            continue;
        fd_close(jobs[i]);
        jobs[i] = jobs[--job_count];
    }
    return job_count == JOBS_MAX;
}

int measure_start(int dir, struct err *e)
{
    pid_t self = getpid(), pid;
    struct proc proc;
    int socks[2];

    if (jobs_are_full())
        return err_set(e, EBUSY, "%d directories are being counted already", JOBS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    pid = fork();
    if (pid == 0) {
        fd_close(socks[1]); /* else we would never see it closed */
        measure_main(dir, socks[0], self);
    }
    fd_close(socks[0]);
    if (pid < 0) {
        fd_close(socks[1]);
        return err_sys(e, errno, "make a process");
    }
    if (proc_open(pid, &proc) == 0) /* else it has ended already */
        jobs[job_count++] = proc.pidfd;
    return socks[1];
}
