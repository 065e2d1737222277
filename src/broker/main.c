/* main.c - opensandbox-broker: starts workers, keeps them going, and lets them serve.
 *
 * The first process prepares the host and listens; workers inherit both. It reaps whatever loses
 * its parent, so that a sandbox whose worker died leaves no zombie. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "broker/broker.h"
#include "broker/confine.h"
#include "version.h"

enum {
    WORKERS_MAX = 16,
    CONNECTIONS_MAX = 64,
    IDLE_FILL_MS = 1,       /* nobody asked for so long: make slots ahead */
    RESTART_PAUSE_MS = 200, /* of a worker that died */
    FILL_RETRY_MS = 1000,   /* after making a slot failed */
};

struct options {
    const char *state, *socket, *execd;
    unsigned workers;
    uid_t caller; /* who may connect, beside root */
    bool sweep_only;
};

/* --- a worker --- */

struct worker {
    struct broker broker;
    struct pollfd polls[1 + CONNECTIONS_MAX]; /* the listener first */
    struct broker_peer peers[1 + CONNECTIONS_MAX];
    size_t count;
    uid_t caller;
    pid_t parent;
    uint64_t fill_after; /* deadline */
};

static void worker_drop(struct worker *w, size_t i)
{
    struct broker *b = &w->broker;

    (void)shutdown(w->polls[i].fd,
                   SHUT_RDWR); /* parked children have copies, closing alone is mute */
    fd_close(w->polls[i].fd);
    w->polls[i] = w->polls[--w->count];
    w->peers[i] = w->peers[w->count];
    b->ready_wanted[PLAN_NET_NONE] = b->ready_wanted[PLAN_NET_BRIDGE] = 0;
    for (size_t k = 1; k < w->count; k++)
        ready_want(b, &w->peers[k].config);
}

static void worker_accept(struct worker *w)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    /* A caller that does not read its replies must not stop us. */
    auto_fd fd = accept4(w->polls[0].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return; /* another worker was faster */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        (peer.uid != 0 && peer.uid != w->caller)) {
        log_event(LOG_WARN, "refused a caller", LOG_U64("uid", peer.uid));
        return;
    }
    if (w->count == 1 + CONNECTIONS_MAX) {
        log_event(LOG_WARN, "too many callers, refusing one");
        return;
    }
    w->peers[w->count] = (struct broker_peer){.uid = peer.uid};
    w->polls[w->count++] = (struct pollfd){.fd = take_fd(&fd), .events = POLLIN};
}

/* One request of one connection; false when that is over. */
static bool worker_serve(struct worker *w, int sock, struct broker_peer *peer)
{
    static struct broker_request request; /* too large for the stack; single-threaded */
    static struct broker_reply reply;
    int fds[FD_SEND_MAX], files[BROKER_FILE_COUNT];
    size_t n = 0, count = 0;
    bool has_files;
    int r = fd_recv(sock, &request, sizeof(request), &n, fds, &count);

    if (r < 0 || n == 0)
        return r == -EAGAIN;
    has_files = broker_answer(&w->broker, peer, &request, n, fds, count, &reply, files);
    while (count > 0)
        fd_close(fds[--count]);
    if (reply.result < 0 && reply.result != -ENOENT)
        log_event(LOG_WARN, "request failed", LOG_U64("op", request.op),
                  LOG_STR("error", reply.err.msg));
    r = fd_send(sock, &reply, sizeof(reply), files, has_files ? BROKER_FILE_COUNT : 0);
    for (size_t i = 0; has_files && i < BROKER_FILE_COUNT; i++)
        fd_close(files[i]);
    return r == 0;
}

static bool worker_wants_slots(const struct broker *b)
{
    return b->ready_count[0] < b->ready_wanted[0] || b->ready_count[1] < b->ready_wanted[1];
}

/* Nobody asks: make one slot. */
static void worker_idle(struct worker *w)
{
    struct err e = {0};

    if (ready_fill_one(&w->broker, &e) < 0) {
        log_event(LOG_ERROR, "cannot make slots ahead, trying again", LOG_STR("error", e.msg));
        w->fill_after = deadline_in_ms(FILL_RETRY_MS);
    }
}

static int worker_timeout(const struct worker *w)
{
    if (!worker_wants_slots(&w->broker))
        return -1;
    return w->fill_after && !deadline_passed(w->fill_after) ? FILL_RETRY_MS : IDLE_FILL_MS;
}

static volatile sig_atomic_t worker_stopping;

static void worker_on_signal(int signo UNUSED)
{
    worker_stopping = 1;
}

/* Signals are let in while we wait, and only then. */
static void worker_run(struct worker *w)
{
    sigset_t none;

    (void)sigemptyset(&none);
    /* The signal that tells of our parent's death is off while a user namespace is made. */
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
        for (size_t i = w->count; i-- > 1;)
            if (w->polls[i].revents && !worker_serve(w, w->polls[i].fd, &w->peers[i]))
                worker_drop(w, i);
        if (w->polls[0].revents)
            worker_accept(w);
    }
}

static NORETURN void worker_main(struct broker *shared, int listener, const struct options *o)
{
    static struct worker w;
    struct sigaction stop = {.sa_handler = worker_on_signal};
    struct err e = {0};

    /* Sandboxes report by file, so nobody waits for our children: the kernel reaps them. */
    (void)signal(SIGCHLD, SIG_IGN);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGINT, &stop, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != shared->self.pid)
        exit(1); /* it died before we asked to be told */
    host_serve_end(
        &shared->host); /* the first process alone holds it: its successor need not wait for us */
    fd_close(shared->host.lock);
    w.broker = *shared;
    w.caller = o->caller;
    w.parent = shared->self.pid;
    for (size_t i = 0; i < ARRAY_LEN(w.broker.ready); i++)
        list_init(&w.broker.ready[i]);
    w.polls[w.count++] = (struct pollfd){.fd = listener, .events = POLLIN};
    w.broker.host.lock = host_open_lock(&w.broker.host, &e);
    if (w.broker.host.lock < 0 || slot_owner_of(getpid(), &w.broker.self) < 0)
        exit(1);
    worker_run(&w);
    ready_free_all(&w.broker);
    exit(0);
}

/* --- the first process --- */

static int listen_at(const char *path, uid_t caller, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
        return err_set(e, ENAMETOOLONG, "socket path '%s' is too long", path);
    (void)unlink(path); /* host_serve says that no other broker uses it */
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0600) < 0 ||
        chown(path, caller, (gid_t)-1) < 0 || listen(fd, CONNECTIONS_MAX) < 0)
        return err_sys(e, errno, "listen at '%s'", path);
    return take_fd(&fd);
}

static pid_t start_worker(struct broker *shared, int listener, const struct options *o)
{
    pid_t pid = fork();

    if (pid == 0)
        worker_main(shared, listener, o);
    return pid;
}

/* Starts those that are missing; false when the kernel refuses one. */
static bool start_missing(pid_t *workers, struct broker *shared, int listener,
                          const struct options *o)
{
    for (unsigned i = 0; i < o->workers; i++) {
        if (workers[i] == 0)
            workers[i] = start_worker(shared, listener, o);
        if (workers[i] < 0) {
            log_event(LOG_ERROR, "cannot start a worker, trying again");
            workers[i] = 0;
            return false;
        }
    }
    return true;
}

/* Workers, and orphaned sandboxes that ended. True when a worker was among them. */
static bool reap(pid_t *workers, unsigned count)
{
    bool lost = false;
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (unsigned i = 0; i < count; i++) {
            if (workers[i] != pid)
                continue;
            log_event(LOG_ERROR, "a worker died, starting another", LOG_I64("pid", pid),
                      LOG_I64("status", status));
            workers[i] = 0;
            lost = true;
        }
    }
    return lost;
}

/* What a dead worker had made ahead, and what it was about to make. */
static void sweep_after(struct broker *shared)
{
    struct err e = {0};

    if (broker_sweep_all(shared, false, &e) < 0)
        log_event(LOG_ERROR, "cannot remove all a worker left", LOG_STR("error", e.msg));
}

/* Restarts workers that die, until told to stop. The signals in `set` are blocked. */
static void supervise(struct broker *shared, int listener, const struct options *o,
                      const sigset_t *set)
{
    pid_t workers[WORKERS_MAX] = {0};
    struct timespec pause = {.tv_nsec = RESTART_PAUSE_MS * 1000000L};
    int signo;

    do {
        bool complete = start_missing(workers, shared, listener, o);

        signo = sigtimedwait(set, NULL, complete ? NULL : &pause);
        if (signo == SIGCHLD && reap(workers, o->workers)) {
            sweep_after(shared);
            (void)nanosleep(&pause, NULL);
        }
    } while (signo != SIGTERM && signo != SIGINT);
    for (unsigned i = 0; i < o->workers; i++)
        if (workers[i] > 0)
            (void)kill(workers[i], SIGTERM);
    for (unsigned i = 0; i < o->workers; i++)
        if (workers[i] > 0)
            (void)waitpid(workers[i], NULL, 0);
}

/* --- options --- */

static const char help[] =
    "usage: opensandbox-broker [--state DIR] [--socket PATH] [--execd PATH]\n"
    "                          [--workers N] [--caller UID] [--sweep] [--version] [--help]\n"
    "Makes and ends sandboxes for an unprivileged caller. Needs root.\n"
    "\n"
    "  --state DIR    where sandboxes live (default /var/lib/opensandbox)\n"
    "  --socket PATH  where to listen (default DIR/broker.sock)\n"
    "  --execd PATH   the static program every sandbox begins with\n"
    "  --workers N    processes that serve, 1 to 16 (default 2)\n"
    "  --caller UID   who may connect, beside root (default 0)\n"
    "  --sweep        remove what dead sandboxes and brokers left behind, say how much, and exit\n";

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    if (str_to_u64_range(str_of(text), min, max, ret) == 0)
        return 0;
    fprintf(stderr, "opensandbox-broker: '%s' is not a number from %llu to %llu\n", text,
            (unsigned long long)min, (unsigned long long)max);
    return -EINVAL;
}

/* 0 = go on, 1 = done, -1 = wrong usage. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option long_options[] = {
        {"state",   required_argument, NULL, 's'},
        {"socket",  required_argument, NULL, 'l'},
        {"execd",   required_argument, NULL, 'e'},
        {"workers", required_argument, NULL, 'w'},
        {"caller",  required_argument, NULL, 'c'},
        {"sweep",   no_argument,       NULL, 'S'},
        {"version", no_argument,       NULL, 'V'},
        {"help",    no_argument,       NULL, 'h'},
        {NULL,      0,                 NULL, 0  },
    };
    uint64_t n = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
        if (c == 's')
            o->state = optarg;
        else if (c == 'l')
            o->socket = optarg;
        else if (c == 'e')
            o->execd = optarg;
        else if (c == 'S')
            o->sweep_only = true;
        else if (c == 'V')
            return printf("opensandbox-broker " OPENSANDBOX_VERSION "\n") < 0 ? -1 : 1;
        else if (c == 'h')
            return fputs(help, stdout) < 0 ? -1 : 1;
        else if (c == '?' ||
                 parse_number(optarg, c == 'w', c == 'w' ? WORKERS_MAX : UINT32_MAX - 1, &n) < 0)
            return -1;
        else if (c == 'w')
            o->workers = (unsigned)n;
        else
            o->caller = (uid_t)n;
    }
    if (optind < argc)
        fprintf(stderr, "opensandbox-broker: unexpected argument '%s'\n", argv[optind]);
    return optind < argc ? -1 : 0;
}

/* --sweep: counts, removes, says so. */
static int sweep_once(struct broker *b, struct err *e)
{
    int r = broker_sweep_all(b, true, e);

    if (r >= 0)
        printf("%d leftovers removed\n", r);
    /* Nobody serves and nothing is left: then neither are our groups and our bridge needed. */
    if (r >= 0 && host_serve(&b->host, 0, NULL) == 0 &&
        cgroup_host_remove(b->host.cgroups, NULL) == 0)
        r = netns_host_remove(&b->host.net, e);
    return r;
}

static int run(struct broker *b, const struct options *o, struct err *e)
{
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    sigset_t set;
    auto_fd listener = -EBADF;
    int r;

    (void)snprintf(socket_path, sizeof(socket_path), "%s/broker.sock", o->state);
    listener = listen_at(o->socket ? o->socket : socket_path, o->caller, e);
    if (listener < 0)
        return listener;
    r = broker_confine(e);
    if (r < 0)
        return r;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    r = broker_sweep_all(b, false, e);
    if (r > 0)
        log_event(LOG_INFO, "removed leftovers", LOG_I64("count", r));
    if (r < 0)
        (void)log_err(e, "sweep at start, going on"); /* the rest of the slots is as good as ever */
    log_event(LOG_INFO, "ready", LOG_STR("cgroups", cgroup_host_describe(b->host.cgroups)),
              LOG_STR("disk", disk_host_describe(&b->host.disk)), LOG_U64("workers", o->workers));
    supervise(b, listener, o, &set);
    (void)cgroup_host_remove(b->host.cgroups, NULL); /* stays while there are sandboxes */
    return 0;
}

int main(int argc, char **argv)
{
    static struct broker b;
    struct options o = {.state = HOST_STATE_DEFAULT, .execd = OPENSANDBOX_EXECD, .workers = 2};
    struct err e = {0};
    int r = parse_options(argc, argv, &o);

    if (r)
        return r < 0 ? 2 : 0;
    log_init(&(struct log_conf){.area = "broker", .fd = STDERR_FILENO, .level = LOG_INFO});
    (void)signal(SIGPIPE, SIG_IGN);
    r = broker_check_privileges(&e);
    if (r == 0)
        r = host_open(&b.host, o.state, o.execd, !o.sweep_only, &e);
    if (r == 0)
        r = slot_owner_of(getpid(), &b.self) < 0
                ? err_set(&e, ESRCH, "cannot read our own start time from /proc")
            : o.sweep_only ? sweep_once(&b, &e)
                           : run(&b, &o, &e);
    if (r < 0)
        fprintf(stderr, "opensandbox-broker: %s\n", e.msg);
    host_close(&b.host);
    return r < 0;
}
