/* worker.c - a process that serves connections, and makes slots ahead when there is no request. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/jobs.h"

enum {
    FILL_MS = 1,          /* no request for this long: make slots ahead */
    SPAWNED_FILL_MS = 20, /* the same after a sandbox was started, unless few slots are left */
    FILL_RETRY_MS = 1000, /* pause after a failure to make a slot; doubled each time up to */
    FILL_RETRY_MS_MAX = 32 * 1000,
    YIELD_US = 100, /* per connection: how long to let another worker accept first */
};

enum { POLL_LISTENER, POLL_JOBS, POLL_FIRST }; /* the connections follow */

struct worker {
    struct broker broker;
    struct pollfd polls[POLL_FIRST + BROKER_CONNECTIONS_MAX];
    struct broker_peer peers[POLL_FIRST + BROKER_CONNECTIONS_MAX];
    size_t count;
    uid_t caller;
    pid_t parent;
    uint64_t fill_after; /* time to make a slot; 0 = at once */
    uint32_t retry_ms;   /* current pause; 0 = the last slot was made */
    struct err said;     /* last logged reason for a failure */
    bool spawned;        /* the last of spawn and remove was a spawn */
};

static void worker_drop(struct worker *w, size_t i)
{
    struct broker *b = &w->broker;

    (void)shutdown(w->polls[i].fd,
                   SHUT_RDWR); /* parked children have copies: close() alone does not disconnect */
    fd_close(w->polls[i].fd);
    w->polls[i] = w->polls[--w->count];
    w->peers[i] = w->peers[w->count];
    b->ready_total[PLAN_NET_NONE] = b->ready_total[PLAN_NET_BRIDGE] = 0;
    for (size_t k = POLL_FIRST; k < w->count; k++)
        ready_want(b, &w->peers[k].config);
}

static void worker_accept(struct worker *w)
{
    /* All workers woke up: that with fewest connections goes first, to spread the callers. */
    const struct timespec yield = {.tv_nsec = (long)(w->count - POLL_FIRST) * YIELD_US * 1000};
    struct ucred peer;
    socklen_t size = sizeof(peer);
    auto_fd fd = -EBADF;

    (void)nanosleep(&yield, NULL);
    /* A caller that does not read its replies must not stop us. */
    fd = accept4(w->polls[POLL_LISTENER].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return; /* another worker was faster */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != 0 && peer.uid != w->caller)) {
        log_event(LOG_WARN, "refused a caller", LOG_U64("uid", peer.uid));
        return;
    }
    if (w->count == POLL_FIRST + BROKER_CONNECTIONS_MAX) {
        log_event(LOG_WARN, "too many callers, refusing one");
        return;
    }
    w->peers[w->count] = (struct broker_peer){.uid = peer.uid};
    w->polls[w->count++] = (struct pollfd){.fd = take_fd(&fd), .events = POLLIN};
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fd_close(fds[i]);
}

/* Its request can still be read after it has closed the connection. */
static bool caller_is_gone(int sock)
{
    struct pollfd p = {.fd = sock};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

/* Serves one request; false when the connection has ended. A caller that closed it before its turn
 * takes the request for failed and may repeat it, so drop the request. */
static bool worker_serve(struct worker *w, int sock, struct broker_peer *peer)
{
    static union broker_message request; /* too large for the stack; single-threaded */
    static struct broker_reply reply;
    int fds[FD_SEND_MAX], files[BROKER_FILE_COUNT];
    size_t n = 0, count = 0, file_count;
    uint64_t begin_ns;
    int r = fd_recv(sock, &request, sizeof(request), &n, fds, &count);

    if (r < 0 || n == 0)
        return r == -EAGAIN;
    if (caller_is_gone(sock)) {
        close_all(fds, count);
        log_event(LOG_WARN, "request dropped, its caller is gone", LOG_U64("op", request.op));
        return false;
    }
    begin_ns = time_mono_ns();
    file_count = broker_answer(&w->broker, peer, &request, n, fds, count, &reply, files);
    reply.timing = (struct broker_timing){begin_ns, time_mono_ns()};
    close_all(fds, count);
    if (reply.result < 0 && reply.result != -ENOENT)
        log_event(LOG_WARN, "request failed", LOG_U64("op", request.op),
                  LOG_STR("error", reply.err.msg));
    r = fd_send(sock, &reply, sizeof(reply), files, file_count);
    w->spawned = request.op == BROKER_SPAWN || (w->spawned && request.op != BROKER_REMOVE);
    close_all(files, file_count);
    return r == 0;
}

/* Whether, for either network mode, fewer than 1/share of the wanted slots are ready. */
static bool worker_lacks_slots(const struct broker *b, uint32_t share)
{
    for (enum plan_net net = PLAN_NET_NONE; net <= PLAN_NET_BRIDGE; net++)
        if (b->ready_count[net] * share < ready_share(b, net))
            return true;
    return false;
}

/* There is no request: makes one slot. */
static void worker_idle(struct worker *w)
{
    const uint32_t wanted[] = {ready_share(&w->broker, PLAN_NET_NONE),
                               ready_share(&w->broker, PLAN_NET_BRIDGE)};
    struct err e = {0};

    w->spawned = false;
    if (ready_fill_one(&w->broker, wanted, &e) >= 0) {
        if (w->retry_ms)
            log_event(LOG_INFO, "slots can be made ahead again");
        w->fill_after = w->retry_ms = 0;
        w->said = (struct err){0};
        return;
    }
    if (strcmp(e.msg, w->said.msg) != 0)
        log_event(LOG_ERROR, "cannot make slots ahead, trying again", LOG_STR("error", e.msg));
    w->said = e;
    w->retry_ms =
        w->retry_ms ? (uint32_t)min_size(w->retry_ms * 2, FILL_RETRY_MS_MAX) : FILL_RETRY_MS;
    w->fill_after = deadline_in_ms(w->retry_ms);
}

/* After a spawn the caller uses its new sandbox, and making a slot would compete for the processor.
 * Unless few slots are left, wait a while, or until a removal. */
static int worker_timeout(const struct worker *w)
{
    if (!worker_lacks_slots(&w->broker, 1))
        return -1;
    if (w->fill_after && !deadline_passed(w->fill_after))
        return (int)deadline_left_ms(w->fill_after);
    return w->spawned && !worker_lacks_slots(&w->broker, 2) ? SPAWNED_FILL_MS : FILL_MS;
}

static volatile sig_atomic_t worker_stopping;

static void worker_on_signal(int signo UNUSED)
{
    worker_stopping = 1;
}

/* Signals are unblocked only while ppoll() waits. */
static void worker_run(struct worker *w)
{
    sigset_t none;

    (void)sigemptyset(&none);
    /* PR_SET_PDEATHSIG is off while a user namespace is made, so check the parent. */
    while (!worker_stopping && getppid() == w->parent) {
        struct timespec timeout;
        int ms = worker_timeout(w);
        int r;

        timeout = (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
        r = ppoll(w->polls, w->count, ms < 0 ? NULL : &timeout, &none);
        if (r == 0)
            worker_idle(w);
        if (r <= 0)
            continue;
        if (w->polls[POLL_JOBS].revents)
            jobs_tend(&w->broker);
        for (size_t i = w->count; i-- > POLL_FIRST;)
            if (w->polls[i].revents && !worker_serve(w, w->polls[i].fd, &w->peers[i]))
                worker_drop(w, i);
        if (w->polls[POLL_LISTENER].revents)
            worker_accept(w);
    }
}

void worker_main(struct broker *shared, uint32_t index, int listener, uid_t caller)
{
    static struct worker w;
    struct sigaction stop = {.sa_handler = worker_on_signal};
    struct err e = {0};
    int jobs;

    /* Sandboxes report by file, so no exit status is needed: the kernel reaps our children. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != shared->self.pid)
        exit(1); /* the parent died before PR_SET_PDEATHSIG */
    host_serve_end(
        &shared->host); /* only the first process holds it, so its successor need not wait for us */
    fd_close(shared->host.lock);
    w.broker = *shared;
    w.broker.worker = index;
    w.caller = caller;
    w.parent = shared->self.pid;
    for (size_t i = 0; i < ARRAY_LEN(w.broker.ready); i++)
        list_init(&w.broker.ready[i]);
    w.broker.host.lock = host_open_lock(&w.broker.host, &e);
    jobs = jobs_open(&w.broker, listener, &e);
    w.polls[POLL_LISTENER] = (struct pollfd){.fd = listener, .events = POLLIN};
    w.polls[POLL_JOBS] = (struct pollfd){.fd = jobs, .events = POLLIN};
    w.count = POLL_FIRST;
    if (w.broker.host.lock < 0 || jobs < 0 || slot_owner_of(getpid(), &w.broker.self) < 0)
        exit(1);
    if (w.broker.blocked.code) { /* logged by the first process */
        w.said = w.broker.blocked;
        (void)err_wrap(&w.said, -w.said.code, "make a slot");
    }
    worker_run(&w);
    ready_free_all(&w.broker);
    exit(0);
}
