/* objects.c - the process between a caller and a program for object storage, until a sandbox has
 * it; see sandbox/objects.h. It ends the program when its caller is gone, when its broker is gone,
 * and at its deadlines. */
#include "broker/objects.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "broker/jobs.h"

enum { OUTPUT_BYTES_MAX = 2048 };

struct watch {
    struct proc proc;
    int sock;   /* of the program */
    int output; /* what it prints */
    int client; /* of the caller, then of the worker that makes the sandbox */
    char text[OUTPUT_BYTES_MAX];
    size_t text_bytes;
};

/* What it printed last says why it ended: an earlier line is dropped when there is no room. */
static bool take_output(struct watch *w)
{
    ssize_t n;

    if (w->text_bytes > sizeof(w->text) / 2) {
        memmove(w->text, w->text + sizeof(w->text) / 2, w->text_bytes - sizeof(w->text) / 2);
        w->text_bytes -= sizeof(w->text) / 2;
    }
    n = read(w->output, w->text + w->text_bytes, sizeof(w->text) - 1 - w->text_bytes);
    if (n > 0)
        w->text_bytes += (size_t)n;
    return n > 0;
}

/* The end of what it printed, on one line of printable characters. */
static int explain(struct watch *w, struct err *e)
{
    uint64_t deadline = deadline_in_ms(OBJECTS_STEP_MS_MAX);
    struct pollfd p = {.fd = w->output, .events = POLLIN};
    size_t from = 0;

    /* It prints the reason last, when it has closed the rest. */
    while (poll(&p, 1, deadline_left_ms(deadline)) > 0 && take_output(w))
        ;
    w->text[w->text_bytes] = '\0';
    for (size_t i = 0; i < w->text_bytes; i++)
        if (w->text[i] < ' ' || w->text[i] > '~')
            w->text[i] = ' ';
    if (w->text_bytes > sizeof(e->msg) - 1)
        from = w->text_bytes - (sizeof(e->msg) - 1);
    return err_set(e, EIO, "%s",
                   w->text_bytes ? w->text + from : "the program ended without a word");
}

/* Waits for a message of the program at `fd`, or its end. */
static int await(struct watch *w, int fd, uint64_t deadline, struct err *e)
{
    for (;;) {
        struct pollfd polls[] = {
            {.fd = fd,            .events = POLLIN},
            {.fd = w->client,     .events = POLLIN},
            {.fd = w->output,     .events = POLLIN},
            {.fd = w->proc.pidfd, .events = POLLIN},
        };
        int r = poll(polls, ARRAY_LEN(polls), deadline_left_ms(deadline));

        if (r < 0 && errno != EINTR)
            return err_sys(e, errno, "wait");
        if (r == 0)
            return err_set(e, ETIMEDOUT, "the endpoint does not answer within %d s",
                           OBJECTS_READY_MS_MAX / 1000);
        if (polls[1].revents)
            return err_set(e, ECANCELED, "the caller is gone");
        if (polls[2].revents & POLLIN)
            (void)take_output(w);
        if (polls[0].revents & POLLIN)
            return 0;
        if (polls[3].revents || polls[0].revents)
            return explain(w, e);
    }
}

/* The program has asked "fusermount" for its mount. */
static int await_asking(struct watch *w, uint64_t deadline, struct err *e)
{
    int ignored[FD_SEND_MAX], r = await(w, w->sock, deadline, e);
    size_t n = 0, count = 0;
    char byte;

    if (r == 0)
        r = fd_recv(w->sock, &byte, sizeof(byte), &n, ignored, &count);
    return r < 0 || n == 1 ? r : explain(w, e);
}

/* --- does it see the bucket? --- */

static void watch_kill(struct watch *w)
{
    if (w->proc.pidfd >= 0)
        (void)!proc_signal(w->proc.pidfd, SIGKILL);
    proc_close(&w->proc);
    w->proc = PROC_NONE;
    fd_close(take_fd(&w->sock));
    fd_close(take_fd(&w->output));
}

/* Sends a request as the kernel does, and waits for any answer to it. */
static int fuse_ask(struct watch *w, int fuse, const void *request, size_t bytes, uint64_t deadline,
                    struct err *e)
{
    char answer[4096];
    int r;

    if (send(fuse, request, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        return explain(w, e);
    r = await(w, fuse, deadline, e);
    if (r == 0 && recv(fuse, answer, sizeof(answer), MSG_DONTWAIT) <= 0)
        r = explain(w, e);
    return r;
}

/* The program looks at the bucket when its file system begins, and ends when that fails. So one is
 * begun for it, over a socket: the first request makes it look, the second is answered only by one
 * that goes on. */
static int try_bucket(struct watch *w, uint64_t deadline, struct err *e)
{
    const struct {
        struct fuse_in_header head;
        struct {
            uint32_t major, minor, max_readahead, flags;
        } body;
    } init = {
        {.len = sizeof(init), .opcode = FUSE_INIT, .unique = 2},
        { 7,                 19,               65536,           0}
    };
    const struct {
        struct fuse_in_header head;
        struct fuse_getattr_in body;
    } look = {
        {.len = sizeof(look), .opcode = FUSE_GETATTR, .unique = 4, .nodeid = FUSE_ROOT_ID},
        {0       }
    };
    auto_fd ours = -EBADF, theirs = -EBADF;
    int socks[2], r = await_asking(w, deadline, e);

    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(e, errno, "make sockets");
    ours = socks[0];
    theirs = socks[1];
    r = objects_pass(w->sock, theirs, e);
    fd_close(take_fd(&theirs));
    if (r == 0)
        r = fuse_ask(w, ours, &init, sizeof(init), deadline, e);
    return r < 0 ? r : fuse_ask(w, ours, &look, sizeof(look), deadline, e);
}

/* --- handing it over --- */

static int client_hear(struct watch *w, int timeout_ms, enum objects_said said, int *ret_fd,
                       struct err *e)
{
    struct pollfd polls[] = {
        {.fd = w->client,     .events = POLLIN},
        {.fd = w->proc.pidfd, .events = POLLIN},
    };
    struct objects_message message;
    int fds[FD_SEND_MAX], r;
    size_t n = 0, count = 0;

    do
        r = poll(polls, ARRAY_LEN(polls), timeout_ms);
    while (r < 0 && errno == EINTR);
    if (r <= 0 || !polls[0].revents)
        return err_set(e, ETIMEDOUT, "no sandbox took the program");
    r = fd_recv(w->client, &message, sizeof(message), &n, fds, &count);
    if (r == 0 && n == sizeof(message) && message.said == said && count == (ret_fd ? 1U : 0U)) {
        if (ret_fd)
            *ret_fd = fds[0];
        return 0;
    }
    while (count > 0)
        fd_close(fds[--count]);
    return err_set(e, ECANCELED, "the caller is gone");
}

static int hand_over(struct watch *w, struct err *e)
{
    struct objects_message message = {.said = OBJECTS_READY};
    auto_fd fuse = -EBADF;
    int r;

    if (fd_send(w->client, &message, sizeof(message), NULL, 0) < 0)
        return err_set(e, ECANCELED, "the caller is gone");
    r = client_hear(w, OBJECTS_TAKE_MS_MAX, OBJECTS_MOUNT, &fuse, e);
    if (r < 0)
        return r;
    message.said = OBJECTS_HELPER;
    if (slot_owner_of(w->proc.pid, &message.helper) < 0 ||
        fd_send(w->client, &message, sizeof(message), NULL, 0) < 0)
        return err_set(e, ECANCELED, "the caller is gone");
    r = client_hear(w, OBJECTS_STEP_MS_MAX, OBJECTS_GO, NULL, e);
    return r < 0 ? r : objects_pass(w->sock, fuse, e);
}

struct watch_job {
    const struct host *host;
    const struct objects_spec *spec;
};

static int watch_main(void *user, int client)
{
    static struct watch w;
    const struct watch_job *job = user;
    struct objects_message message = {.said = OBJECTS_FAILED};
    uint64_t deadline = deadline_in_ms(OBJECTS_READY_MS_MAX);
    struct err e = {0};
    int r;

    w = (struct watch){.proc = PROC_NONE, .sock = -EBADF, .output = -EBADF, .client = client};
    r = objects_start(job->host, job->spec, &w.proc, &w.sock, &w.output, &e);
    if (r >= 0)
        r = try_bucket(&w, deadline, &e);
    watch_kill(&w);
    if (r >= 0)
        r = objects_start(job->host, job->spec, &w.proc, &w.sock, &w.output, &e);
    if (r >= 0)
        r = await_asking(&w, deadline, &e);
    if (r >= 0)
        r = hand_over(&w, &e);
    if (r >= 0)
        return 0;
    watch_kill(&w);
    message.err = e;
    return fd_send(client, &message, sizeof(message), NULL, 0) < 0;
}

int objects_watch(struct broker *b, const struct objects_spec *spec, struct err *e)
{
    struct watch_job job = {&b->host, spec};
    int r = objects_spec_check(spec, e);

    if (r < 0)
        return r;
    if (!objects_program_path((enum objects_program)spec->program))
        return err_set(e, ENOTSUP, "no program for object storage is installed on the server");
    return job_start(b,
                     &(struct job){
                         .name = "objects watch",
                         .needs_host = true,
                         .run = watch_main,
                         .user = &job,
                     },
                     e);
}
