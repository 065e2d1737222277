/* main.c - opensandbox-broker: starts workers, which serve requests, and restarts those that die.
 *
 * The first process prepares the host and listens; workers inherit both. It is a subreaper, so that
 * a sandbox whose worker died leaves no zombie. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
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
#include "sandbox/objects.h"
#include "sandbox/oci.h"
#include "sandbox/program.h"
#include "version.h"

enum {
    WORKERS_MAX = 16,
    RESTART_PAUSE_MS = 200, /* after a worker died */
    END_MS_MAX = 5000,      /* for what the cleaner had still to do */
    END_POLL_MS = 2,
};

enum {
    SWEEPER, /* removes ready and half-made slots of a dead worker */
    REMOVER, /* removes slots with any number of files */
    ERASER,  /* empties the trash: a volume with millions of files must not delay slots */
    CLEANER, /* removes what is left of ended sandboxes */
    LAST,    /* does so when the broker ends */
    TIDIER_COUNT,
};

struct options {
    const char *state, *socket, *execd, *unpack;
    const char *allowed[BROKER_ALLOWED_MAX];
    size_t allowed_count;
    const char *runtimes[OCI_RUNTIMES_MAX];
    size_t runtime_count;
    int until_eof; /* end at end of file of this pipe; -EBADF = none */
    unsigned workers;
    uid_t caller; /* uid that may connect, beside root */
    bool sweep_only;
};

/* --- the first process --- */

static int listen_at(const char *path, uid_t caller, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
        return err_set(e, ENAMETOOLONG, "socket path '%s' is too long", path);
    (void)unlink(path); /* host_serve made sure that no other broker uses it */
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0600) < 0 ||
        chown(path, caller, (gid_t)-1) < 0 || listen(fd, BROKER_CONNECTIONS_MAX) < 0)
        return err_sys(e, errno, "listen at '%s'", path);
    return take_fd(&fd);
}

/* A process beside the workers that cleans up, and exits when done. */
struct tidier {
    pid_t pid; /* 0 = not running */
    bool due;  /* there is work that a running one may have missed */
};

/* State of the first process. */
struct supervisor {
    struct broker *broker;
    const struct options *options;
    int listener;
    int signals; /* signalfd for SIGTERM, SIGINT and SIGCHLD, which are blocked */
    pid_t workers[WORKERS_MAX];
    struct tidier tidiers[TIDIER_COUNT];
};

static pid_t start_worker(struct supervisor *s, unsigned index)
{
    pid_t pid = fork();

    if (pid == 0) {
        fd_close(s->signals);
        fd_close(s->options->until_eof);
        worker_main(s->broker, index, s->listener, s->options->caller);
    }
    return pid;
}

static int sweeper_run(struct broker *b, struct err *e)
{
    return broker_sweep_all(b, false, e);
}

static int (*const tidier_runs[TIDIER_COUNT])(struct broker *b, struct err *e) = {
    [SWEEPER] = sweeper_run, [REMOVER] = remover_run,     [ERASER] = eraser_run,
    [CLEANER] = cleaner_run, [LAST] = broker_sweep_slots,
};

static NORETURN void tidier_main(const struct supervisor *s, unsigned which)
{
    struct broker *b = s->broker;
    struct err e = {0};
    int r;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->self.pid)
        exit(1); /* the parent died before PR_SET_PDEATHSIG */
    fd_close(s->signals);
    fd_close(s->options->until_eof);
    fd_close(s->listener);
    host_serve_end(&b->host);
    fd_close(b->host.lock);
    r = b->host.lock = host_open_lock(&b->host, &e);
    if (r >= 0)
        r = tidier_runs[which](b, &e);
    if (r < 0)
        log_event(LOG_ERROR, "cannot remove all leftovers", LOG_STR("error", e.msg));
    exit(r < 0);
}

static bool start_tidier(struct supervisor *s, unsigned which)
{
    struct tidier *t = &s->tidiers[which];

    if (!t->due || t->pid)
        return true;
    t->pid = fork();
    if (t->pid == 0)
        tidier_main(s, which);
    t->due = t->pid < 0;
    if (t->due)
        t->pid = 0;
    return !t->due;
}

/* Starts missing processes; false when fork fails. Workers come first: a sweep waits for locks of
 * other processes, and must not delay requests. */
static bool start_missing(struct supervisor *s)
{
    bool complete = true;

    for (unsigned i = 0; i < s->options->workers; i++) {
        if (s->workers[i] == 0)
            s->workers[i] = start_worker(s, i);
        if (s->workers[i] < 0) {
            log_event(LOG_ERROR, "cannot start a worker, trying again");
            s->workers[i] = 0;
            return false;
        }
    }
    for (unsigned i = 0; i < TIDIER_COUNT; i++)
        complete = start_tidier(s, i) && complete;
    return complete;
}

/* Reaps workers, tidiers, and orphans of workers: sandboxes and jobs. A job that was killed may
 * have left a sandbox frozen, which a sweep thaws. */
static void reap(struct supervisor *s)
{
    struct timespec pause = {.tv_nsec = RESTART_PAUSE_MS * 1000000L};
    bool lost = false;
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (WIFSIGNALED(status))
            s->tidiers[SWEEPER].due = true;
        for (unsigned i = 0; i < TIDIER_COUNT; i++) {
            if (s->tidiers[i].pid != pid)
                continue;
            s->tidiers[i].pid = 0;
            if (WIFSIGNALED(status)) /* it was killed before it was done */
                lost = s->tidiers[i].due = true;
        }
        for (unsigned i = 0; i < s->options->workers; i++) {
            if (s->workers[i] != pid)
                continue;
            log_event(LOG_ERROR, "a worker died, starting another", LOG_I64("pid", pid),
                      LOG_I64("status", status));
            s->workers[i] = 0;
            lost = s->tidiers[SWEEPER].due = true;
        }
    }
    if (lost)
        (void)nanosleep(&pause, NULL); /* a worker that dies at once must not keep us busy */
}

/* True at the end of the pipe from the process that started us. Ignores data in it. */
static bool is_at_end(int pipe)
{
    char ignored[256];
    ssize_t n = read(pipe, ignored, sizeof(ignored));

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Waits for an event; false when it is time to end. */
static bool supervise_turn(struct supervisor *s, int timeout_ms)
{
    struct pollfd polls[] = {
        {.fd = s->signals,                                             .events = POLLIN},
        {.fd = s->options->until_eof,                                  .events = POLLIN},
        {.fd = s->broker->remover,                                     .events = POLLIN},
 /* The cleaner reads it while it runs. */
        {.fd = s->tidiers[CLEANER].pid ? -1 : s->broker->leftovers[0], .events = POLLIN},
    };
    struct signalfd_siginfo info;

    if (poll(polls, ARRAY_LEN(polls), timeout_ms) <= 0)
        return true;
    if (polls[1].revents && is_at_end(s->options->until_eof)) {
        log_event(LOG_INFO, "the process that started the broker is gone, ending");
        return false;
    }
    if (polls[2].revents && remover_is_wanted(s->broker))
        s->tidiers[REMOVER].due = s->tidiers[ERASER].due = true;
    if (polls[3].revents)
        s->tidiers[CLEANER].due = true;
    if (!polls[0].revents || read(s->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return true;
    if (info.ssi_signo == SIGCHLD)
        reap(s);
    return info.ssi_signo == SIGCHLD;
}

/* Another process does what the cleaner had still to do, and gets little time: it may have to wait
 * for locks. The next broker continues its work. */
static void end_cleaner(struct supervisor *s)
{
    const struct timespec pause = {.tv_nsec = END_POLL_MS * 1000000L};
    struct tidier *last = &s->tidiers[LAST];
    uint64_t deadline = deadline_in_ms(END_MS_MAX);

    if (s->tidiers[CLEANER].pid > 0)
        (void)waitpid(s->tidiers[CLEANER].pid, NULL, 0);
    last->due = true;
    if (!start_tidier(s, LAST))
        return;
    while (waitpid(last->pid, NULL, WNOHANG) == 0) {
        if (deadline_passed(deadline)) {
            (void)kill(last->pid, SIGKILL);
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
}

/* Restarts workers that die, until told to stop. */
static void supervise(struct supervisor *s)
{
    bool complete;

    do
        complete = start_missing(s);
    while (supervise_turn(s, complete ? -1 : RESTART_PAUSE_MS));
    for (unsigned i = 0; i < s->options->workers; i++)
        if (s->workers[i] > 0)
            (void)kill(s->workers[i], SIGTERM);
    for (unsigned i = 0; i < TIDIER_COUNT; i++)
        if (s->tidiers[i].pid > 0)
            (void)kill(s->tidiers[i].pid, SIGKILL); /* the next broker continues its work */
    for (unsigned i = 0; i < s->options->workers; i++)
        if (s->workers[i] > 0)
            (void)waitpid(s->workers[i], NULL, 0);
    /* Do not wait for the others: unlink() of a large file takes long, uninterruptibly. */
    if (s->tidiers[SWEEPER].pid > 0)
        (void)waitpid(s->tidiers[SWEEPER].pid, NULL, 0);
    end_cleaner(s);
}

/* --- options --- */

static const char help[] =
    "usage: opensandbox-broker [--state DIR] [--socket PATH] [--execd PATH] [--unpack PATH]\n"
    "                          [--workers N] [--caller UID] [--allow DIR]... [--until-eof FD]\n"
    "                          [--runtime NAME=PATH]... [--sweep] [--version] [--help]\n"
    "Makes and ends sandboxes for an unprivileged caller. Needs root.\n"
    "\n"
    "  --state DIR    where sandboxes live (default /var/lib/opensandbox)\n"
    "  --socket PATH  where to listen (default DIR/broker.sock)\n"
    "  --execd PATH   the static program every sandbox begins with\n"
    "  --unpack PATH  the static program that unpacks layers (default: opensandbox-unpack beside\n"
    "                 execd)\n"
    "  --workers N    processes that serve, 1 to 16 (default 2); the sandboxes that a caller wants "
    "to\n"
    "                 have ready ahead are divided among them\n"
    "  --caller UID   uid that may connect, beside root (default 0)\n"
    "  --allow DIR    where that caller may take layers and volumes from, and have snapshots put;\n"
    "                 all of DIR is then the caller's to read and write. Up to 64 times\n"
    "  --runtime NAME=PATH\n"
    "                 an OCI runtime that plans may name, with further arguments after the path:\n"
    "                 'gvisor=/usr/local/bin/runsc'. Up to 8 times\n"
    "  --until-eof FD end when this inherited pipe reports end of file\n"
    "  --sweep        remove what dead sandboxes and brokers left behind, say how much, and exit\n";

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    if (str_to_u64_range(str_of(text), min, max, ret) == 0)
        return 0;
    fprintf(stderr, "opensandbox-broker: '%s' is not a number from %llu to %llu\n", text,
            (unsigned long long)min, (unsigned long long)max);
    return -EINVAL;
}

static int add_allowed(struct options *o, const char *path)
{
    if (o->allowed_count == BROKER_ALLOWED_MAX) {
        fprintf(stderr, "opensandbox-broker: at most %d directories can be allowed\n",
                BROKER_ALLOWED_MAX);
        return -1;
    }
    o->allowed[o->allowed_count++] = path;
    return 0;
}

static int add_runtime(struct options *o, const char *text)
{
    if (o->runtime_count == OCI_RUNTIMES_MAX) {
        fprintf(stderr, "opensandbox-broker: at most %d runtimes\n", OCI_RUNTIMES_MAX);
        return -1;
    }
    o->runtimes[o->runtime_count++] = text;
    return 0;
}

/* Refuses a file: it is at its end at once, and can signal nothing. */
static int set_until_eof(struct options *o, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode)) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fd_set_nonblock(fd, true) < 0) {
        fprintf(stderr, "opensandbox-broker: descriptor %d is not an inherited pipe\n", fd);
        return -1;
    }
    o->until_eof = fd;
    return 0;
}

/* Parses options with a numeric value. */
static int parse_numeric(struct options *o, int option, const char *text)
{
    uint64_t max = option == 'w' ? WORKERS_MAX : option == 'u' ? INT_MAX : UINT32_MAX - 1, n = 0;

    if (parse_number(text, option == 'w', max, &n) < 0)
        return -1;
    if (option == 'u')
        return set_until_eof(o, (int)n);
    if (option == 'w')
        o->workers = (unsigned)n;
    else
        o->caller = (uid_t)n;
    return 0;
}

/* 0 = continue, 1 = done, -1 = wrong usage. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option long_options[] = {
        {"state",     required_argument, NULL, 's'},
        {"socket",    required_argument, NULL, 'l'},
        {"execd",     required_argument, NULL, 'e'},
        {"unpack",    required_argument, NULL, 'p'},
        {"workers",   required_argument, NULL, 'w'},
        {"caller",    required_argument, NULL, 'c'},
        {"allow",     required_argument, NULL, 'a'},
        {"runtime",   required_argument, NULL, 'r'},
        {"until-eof", required_argument, NULL, 'u'},
        {"sweep",     no_argument,       NULL, 'S'},
        {"version",   no_argument,       NULL, 'V'},
        {"help",      no_argument,       NULL, 'h'},
        {NULL,        0,                 NULL, 0  },
    };
    int c, r = 0;

    while (r == 0 && (c = getopt_long(argc, argv, "h", long_options, NULL)) >= 0) {
        if (c == 's')
            o->state = optarg;
        else if (c == 'l')
            o->socket = optarg;
        else if (c == 'e')
            o->execd = optarg;
        else if (c == 'p')
            o->unpack = optarg;
        else if (c == 'S')
            o->sweep_only = true;
        else if (c == 'V')
            return printf("opensandbox-broker " OPENSANDBOX_VERSION "\n") < 0 ? -1 : 1;
        else if (c == 'h')
            return fputs(help, stdout) < 0 ? -1 : 1;
        else if (c == 'a')
            r = add_allowed(o, optarg);
        else if (c == 'r')
            r = add_runtime(o, optarg);
        else
            r = c == '?' ? -1 : parse_numeric(o, c, optarg);
    }
    if (r == 0 && optind < argc) {
        fprintf(stderr, "opensandbox-broker: unexpected argument '%s'\n", argv[optind]);
        r = -1;
    }
    if (r < 0)
        fputs("opensandbox-broker --help lists the options\n", stderr);
    return r;
}

/* --sweep: removes leftovers and prints how many. */
static int sweep_once(struct broker *b, struct err *e)
{
    int r = broker_sweep_all(b, true, e);

    if (r >= 0)
        printf("%d leftovers removed\n", r);
    /* No broker serves and nothing is left: remove our cgroups and our bridge as well. */
    if (r >= 0 && host_serve(&b->host, 0, NULL) == 0 &&
        cgroup_host_remove(b->host.cgroups, NULL) == 0)
        r = netns_host_remove(&b->host.net, e);
    return r;
}

/* Blocks the signals that we handle, and returns a signalfd for them. */
static int signals_open(struct err *e)
{
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? err_sys(e, errno, "watch for signals") : fd;
}

/* Logs a failure once. Workers inherit b->blocked and do not repeat it. */
static void try_userns(struct broker *b)
{
    struct err e = {0};
    auto_fd fd = ready_userns(b, 0, &e);

    if (fd < 0)
        (void)log_err(&e, "no sandbox can start");
}

/* Without the program all but images works. By default it lies beside execd. */
static int open_unpack(struct broker *b, const struct options *o, struct err *e)
{
    const char *slash = strrchr(o->execd, '/');
    char beside[PATH_MAX];
    int n;

    if (o->unpack) {
        b->unpack = program_copy(o->unpack, e);
        return b->unpack < 0 ? b->unpack : 0;
    }
    n = snprintf(beside, sizeof(beside), "%.*sopensandbox-unpack",
                 slash ? (int)(slash + 1 - o->execd) : 0, o->execd);
    if (n > 0 && (size_t)n < sizeof(beside))
        b->unpack = program_copy(beside, NULL);
    return 0;
}

static int open_runtimes(struct broker *b, const struct options *o, struct err *e)
{
    int r = 0;

    b->host.oci = mem_new_array(struct oci_runtime, OCI_RUNTIMES_MAX);
    for (size_t i = 0; r == 0 && i < o->runtime_count; i++) {
        r = oci_runtime_parse(o->runtimes[i], &b->host.oci[i], e);
        b->host.oci_count += r == 0;
    }
    return r;
}

static int run(struct broker *b, const struct options *o, struct err *e)
{
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    auto_fd listener = -EBADF, signals = -EBADF;
    int r = 0;

    for (size_t i = 0; r == 0 && i < o->allowed_count; i++)
        r = allow_add(b, o->allowed[i], e);
    if (r < 0)
        return r;
    r = open_unpack(b, o, e);
    if (r == 0)
        r = open_runtimes(b, o, e);
    if (r < 0)
        return r;
    (void)snprintf(socket_path, sizeof(socket_path), "%s/broker.sock", o->state);
    listener = listen_at(o->socket ? o->socket : socket_path, o->caller, e);
    if (listener < 0)
        return listener;
    r = broker_confine(e);
    if (r < 0)
        return r;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    try_userns(b);
    signals = signals_open(e);
    if (signals < 0)
        return signals;
    r = remover_open(b, e); /* callers may be waiting: do not remove large trees here */
    if (r < 0)
        return r;
    r = broker_sweep_all(b, false, e);
    if (r > 0)
        log_event(LOG_INFO, "removed leftovers", LOG_I64("count", r));
    if (r < 0)
        (void)log_err(e, "sweep at start failed, going on"); /* other slots are not affected */
    host_forget_roots(&b->host);
    log_event(LOG_INFO, "ready", LOG_STR("cgroups", cgroup_host_describe(b->host.cgroups)),
              LOG_STR("disk", disk_host_describe(&b->host.disk)), LOG_U64("workers", o->workers));
    supervise(&(struct supervisor){b, o, listener, signals, {0}, {{0}}});
    (void)cgroup_host_remove(b->host.cgroups, NULL); /* fails while there are sandboxes */
    return 0;
}

int main(int argc, char **argv)
{
    static struct broker b = {
        .unpack = -EBADF, .remover = -EBADF, .leftovers = {-EBADF, -EBADF}
    };
    struct options o = {
        .state = HOST_STATE_DEFAULT, .execd = OPENSANDBOX_EXECD, .until_eof = -EBADF, .workers = 2};
    struct err e = {0};
    int r;

    if (objects_is_fusermount(argv[0]))
        return objects_fusermount_main();
    r = parse_options(argc, argv, &o);

    if (r)
        return r < 0 ? 2 : 0;
    log_init(&(struct log_conf){.area = "broker", .fd = STDERR_FILENO, .level = LOG_INFO});
    (void)signal(SIGPIPE, SIG_IGN);
    fd_raise_limit(); /* slots made ahead take a dozen each, a request up to FD_SEND_MAX */
    (void)umask(022); /* files get exactly the modes we pass */
    b.tied = o.until_eof >= 0;
    b.workers = o.workers;
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
