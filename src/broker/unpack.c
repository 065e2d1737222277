/* unpack.c - a process between a caller and the program that unpacks a layer for it.
 *
 * Unpacking takes long, and a worker serves many. So a worker forks a process that starts the
 * program, marks directories as opaque for it (only real root may), ends it at the deadline or when
 * the caller is gone, and passes on its report. It reads nothing but structs of fixed size. */
#include "broker/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "broker/jobs.h"
#include "sandbox/layer_ids.h"
#include "sandbox/unpack_start.h"

enum {
    REAP_MS = 10 * 1000,
};

struct watch {
    struct proc proc;
    int sock;   /* of the program */
    int client; /* of the caller */
    dev_t device;
    bool reported;
    struct unpack_report report;
};

/* --- checks --- */

static int check_blob(int fd, struct err *e)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (flags & O_PATH) ||
        (flags & O_ACCMODE) == O_WRONLY)
        return err_set(e, EINVAL, "expected a file that is open for reading, and a directory");
    return 0;
}

/* --- the process --- */

/* The directory is in the only mount that the program has; checked all the same. */
static int mark_opaque(const struct watch *w, int dir, struct err *e)
{
    struct stat st;

    if (fstat(dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_dev != w->device ||
        st.st_uid - LAYER_UID_FIRST >= LAYER_UID_COUNT)
        return err_set(e, EPROTO, "the program sent something else than a directory");
    if (fsetxattr(dir, "trusted.overlay.opaque", "y", 1, 0) < 0)
        return err_sys(e, errno, "mark a directory as opaque");
    return send(w->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1
               ? err_set(e, EPROTO, "the program does not hear that a directory is marked")
               : 0;
}

/* Takes a message of the program; 0 at its end. */
static int watch_take(struct watch *w, struct err *e)
{
    struct unpack_message message;
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r = fd_recv(w->sock, &message, sizeof(message), &n, fds, &count);

    if (r < 0 || n == 0)
        return r < 0 ? err_sys(e, -r, "hear of the program") : 0;
    if (n == sizeof(message) && message.said == UNPACK_OPAQUE && count == 1) {
        r = mark_opaque(w, fds[0], e);
    } else if (n == sizeof(message) && message.said == UNPACK_DONE && count == 0) {
        message.report.err.msg[sizeof(message.report.err.msg) - 1] = '\0';
        w->report = message.report;
        w->reported = true;
    } else {
        r = err_set(e, EPROTO, "the program said something else");
    }
    while (count > 0)
        fd_close(fds[--count]);
    return r < 0 ? r : 1;
}

static int watch_turn(struct watch *w, uint64_t deadline, struct err *e)
{
    struct pollfd polls[] = {
        {.fd = w->sock,   .events = POLLIN},
        {.fd = w->client, .events = POLLIN},
    };
    int r = poll(polls, ARRAY_LEN(polls), deadline_left_ms(deadline));

    if (r < 0)
        return errno == EINTR ? 1 : err_sys(e, errno, "wait");
    if (r == 0)
        return err_set(e, ETIMEDOUT, "unpacking takes longer than allowed");
    if (polls[1].revents)
        return err_set(e, ECANCELED, "the caller is gone");
    return watch_take(w, e);
}

/* Why it ended without a report. */
static int watch_explain(struct watch *w, struct err *e)
{
    struct proc_exit exit = {0};
    int r = proc_wait(w->proc.pidfd, deadline_in_ms(REAP_MS), &exit);

    if (r == 0 && exit.by_signal)
        return err_set(e, EIO, "the program that unpacks was killed by signal %d", exit.code);
    return err_set(e, EIO, "the program that unpacks ended without a word");
}

static void watch_run(struct watch *w, const struct unpack_start *start, struct err *e)
{
    uint64_t deadline = deadline_in_ms(start->limits.time_ms);
    int r = unpack_start(start, &w->proc, &w->sock, e);

    if (r < 0) {
        (void)err_wrap(e, r, "start the program that unpacks");
        return;
    }
    do
        r = watch_turn(w, deadline, e);
    while (r > 0);
    if (r == 0 && !w->reported) {
        (void)watch_explain(w, e);
        return;
    }
    (void)kill(w->proc.pid, SIGKILL); /* not reaped yet */
    /* Once it is reaped its files are closed, and the caller may erase the directory. */
    r = proc_wait(w->proc.pidfd, deadline_in_ms(REAP_MS), &(struct proc_exit){0});
    if (r == -ETIMEDOUT && !e->code)
        (void)err_set(e, ETIMEDOUT, "the program that unpacks does not end");
}

static int watch_main(void *user, int client)
{
    const struct unpack_start *start = user;
    struct watch w = {.proc = PROC_NONE, .sock = -EBADF, .client = client};
    struct stat st;
    struct err e = {0};

    if (fstat(start->target, &st) == 0) {
        w.device = st.st_dev;
        watch_run(&w, start, &e);
    } else {
        (void)err_sys(&e, errno, "find the directory");
    }
    if (e.code)
        w.report = (struct unpack_report){.result = -e.code, .err = e};
    return fd_send(client, &w.report, sizeof(w.report), NULL, 0) < 0;
}

/* --- the worker --- */

int unpack_watch(struct broker *b, uid_t caller, const struct unpack_job *job, struct err *e)
{
    struct unpack_start start = {.host = &b->host, .program = b->unpack, .limits = job->limits};
    auto_fd target = -EBADF;
    int r = unpack_limits_check(&job->limits, e);

    if (r == 0)
        r = check_blob(job->blob, e);
    if (r == 0 && b->unpack < 0)
        r = err_set(e, ENOTSUP,
                    "this broker has no program to unpack layers with: start it with "
                    "--unpack PATH");
    if (r < 0)
        return r;
    r = target = allow_open_dir(b, caller, job->target, true, e);
    if (r < 0)
        return r;
    start.blob = job->blob;
    start.target = target;
    return job_start(b,
                     &(struct job){
                         .name = "unpack watch",
                         .fds = (int[]){start.blob, start.target, start.program},
                         .fd_count = 3,
                         .run = watch_main,
                         .user = &start,
    },
                     e);
}
