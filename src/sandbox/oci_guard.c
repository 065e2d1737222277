/* oci_guard.c - PID 1 of a sandbox behind an OCI runtime. It has no privilege once the runtime
 * runs, and reads nothing of the sandbox but single bytes. No allocation, lock or log. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fd.h"
#include "base/time.h"
#include "sandbox/oci.h"

enum {
    WORDS_MAX = 160, /* of a runtime that failed, in the error */
    FD_PARK = 32,
    CONTROL_BACKLOG = 4,
    STATUS_LOST = 125,
};

#define CONTROL_PATH "/run/guard" /* in the world */

struct guard {
    const struct oci_child *c;
    int listener;
    int channel; /* to execd */
    int signals;
    int control; /* listens for snapshots */
    int asking;  /* a snapshot that wants no connections; -EBADF = none */
    int pending; /* a connection that did not fit into the channel; -EBADF = none */
    pid_t runtime;
    int status; /* of the runtime, once it ended */
    bool ended;
};

/* --- the runtime's process --- */

static const char *net_arg(const struct plan *p)
{
    return p->net == PLAN_NET_BRIDGE ? "--network=sandbox" : "--network=none";
}

static void build_argv(const struct oci_child *c, const char **argv)
{
    const struct oci_runtime *rt = c->runtime;
    size_t n = 0;

    argv[n++] = rt->kind->program[0] ? rt->kind->program : rt->name;
    for (size_t i = 0; i < ARRAY_LEN(rt->kind->args) && rt->kind->args[i]; i++)
        argv[n++] = strcmp(rt->kind->args[i], "%net") == 0 ? net_arg(c->plan) : rt->kind->args[i];
    for (size_t i = 1; i < rt->arg_count; i++)
        argv[n++] = rt->args[i];
    argv[n++] = "--root";
    argv[n++] = "/run/oci";
    argv[n++] = c->memory >= 0 ? "restore" : "run";
    argv[n++] = "--bundle";
    argv[n++] = "/bundle";
    if (c->memory >= 0) {
        argv[n++] = "--image-path";
        argv[n++] = "/memory";
    }
    argv[n++] = c->plan->id;
    argv[n] = NULL;
}

/* The first words of the log become the error. */
static NORETURN void runtime_failed(const char *what)
{
    char text[WORDS_MAX];
    int n = snprintf(text, sizeof(text), "%s: errno %d\n", what, errno);

    (void)!write(STDERR_FILENO, text, n > 0 ? (size_t)n : 0);
    _exit(STATUS_LOST);
}

static NORETURN void runtime_main(const struct oci_child *c, int channel)
{
    static const char *argv[OCI_ARGS_MAX + 24];
    static const char *const env[] = {"PATH=/", "HOME=/run", "TMPDIR=/tmp", NULL};
    int from[] = {channel, c->exit_file, c->log_file};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    build_argv(c, argv);
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_PARK);
    for (int i = 0; i < (int)ARRAY_LEN(from); i++)
        if (dup2(from[i], i) < 0)
            _exit(STATUS_LOST);
    for (size_t i = 0; i < c->cgroup->work_count; i++)
        if (write(c->cgroup->work_procs[i], "0", 1) < 0)
            runtime_failed("enter the workload's control groups");
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    (void)setsid();
    (void)syscall(SYS_execve, "/program", argv, env);
    runtime_failed("execute it");
}

/* --- messages --- */

static int say(const struct guard *g, const void *note, size_t n, int fd)
{
    return fd_send(g->channel, note, n, &fd, fd >= 0);
}

static void say_note(const struct guard *g, enum oci_note note)
{
    const uint8_t byte = note;

    (void)!say(g, &byte, sizeof(byte), -EBADF);
}

/* What execd says: 0 = nothing. */
static uint8_t hear(struct guard *g)
{
    uint8_t notes[16];
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r = fd_recv(g->channel, notes, sizeof(notes), &n, fds, &count);

    while (count > 0)
        fd_close(fds[--count]);
    if (r == -EAGAIN)
        return 0;
    if (r < 0 || n == 0)
        fd_close(take_fd(&g->channel));
    return r < 0 || n == 0 ? 0 : notes[0];
}

/* --- events --- */

static void on_signals(struct guard *g)
{
    struct signalfd_siginfo info;
    uint8_t note[2] = {OCI_SIGNAL};
    int status;

    while (read(g->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        note[1] = (uint8_t)info.ssi_signo;
        if (info.ssi_signo != SIGCHLD && g->channel >= 0)
            (void)!say(g, note, sizeof(note), -EBADF);
    }
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != g->runtime)
            continue;
        g->ended = true;
        g->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static void pass_on(struct guard *g, int fd)
{
    const uint8_t note = OCI_CONNECT;
    int r = say(g, &note, sizeof(note), fd);

    if (r == -EAGAIN)
        g->pending = fd;
    else
        fd_close(fd);
}

static void on_connection(struct guard *g)
{
    int fd = accept4(g->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        pass_on(g, fd);
}

static void on_control(struct guard *g)
{
    g->asking = accept4(g->control, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (g->asking >= 0)
        say_note(g, OCI_QUIET);
}

static void on_note(struct guard *g)
{
    const uint8_t note = OCI_QUIET;

    if (hear(g) == OCI_QUIET && g->asking >= 0)
        (void)!fd_send(g->asking, &note, sizeof(note), NULL, 0);
}

/* The other side says nothing; it is done when it closes. */
static void on_asking(struct guard *g)
{
    char ignored;

    if (recv(g->asking, &ignored, 1, MSG_DONTWAIT) <= 0)
        fd_close(take_fd(&g->asking));
}

static void guard_turn(struct guard *g, int timeout_ms)
{
    bool open = g->channel >= 0 && g->asking < 0 && g->pending < 0;
    struct pollfd polls[] = {
        {.fd = g->signals,                      .events = POLLIN                                           },
        {.fd = open ? g->listener : -1,         .events = POLLIN                                           },
        {.fd = g->asking < 0 ? g->control : -1, .events = POLLIN                                           },
        {.fd = g->asking,                       .events = POLLIN                                           },
        {.fd = g->channel,                      .events = (short)(POLLIN | (g->pending >= 0 ? POLLOUT : 0))},
    };

    if (poll(polls, ARRAY_LEN(polls), timeout_ms) <= 0)
        return;
    if (polls[0].revents)
        on_signals(g);
    if (polls[1].revents)
        on_connection(g);
    if (polls[2].revents)
        on_control(g);
    if (polls[3].revents)
        on_asking(g);
    if (polls[4].revents & (POLLIN | POLLHUP | POLLERR))
        on_note(g);
    if (polls[4].revents & POLLOUT && g->pending >= 0)
        pass_on(g, take_fd(&g->pending));
}

/* --- start --- */

static int open_signals(struct guard *g, struct err *e)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD};
    sigset_t set;

    (void)signal(SIGCHLD, SIG_DFL); /* the broker ignores it, and the kernel would reap for us */
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(handled); i++)
        (void)sigaddset(&set, handled[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    g->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return g->signals < 0 ? err_sys(e, errno, "watch for signals") : 0;
}

static int open_control(struct guard *g, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = CONTROL_PATH};

    g->control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (g->control < 0 || bind(g->control, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        listen(g->control, CONTROL_BACKLOG) < 0)
        return err_sys(e, errno, "listen at %s", CONTROL_PATH);
    return 0;
}

/* What it wrote to its standard error, on one line. */
static int runtime_words(const struct guard *g, struct err *e)
{
    char text[WORDS_MAX];
    ssize_t n = pread(g->c->log_file, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            *p = ' ';
    (void)!ftruncate(g->c->log_file, 0);
    return err_set(e, EIO, "%s ended with status %d before the sandbox began: %s",
                   g->c->runtime->name, g->status, text);
}

static bool execd_reported(const struct guard *g)
{
    struct stat st;

    return fstat(g->c->exit_file, &st) == 0 && st.st_size > 0;
}

/* Waits for execd to answer. An entrypoint that ends at once takes execd along. */
static int await_execd(struct guard *g, struct err *e)
{
    uint64_t deadline = deadline_in_ms(OCI_START_MS_MAX);

    say_note(g, OCI_HELLO);
    while (!g->ended && !deadline_passed(deadline)) {
        struct pollfd polls[] = {
            {.fd = g->signals, .events = POLLIN},
            {.fd = g->channel, .events = POLLIN},
        };

        if (poll(polls, ARRAY_LEN(polls), deadline_left_ms(deadline)) <= 0)
            continue;
        if (polls[1].revents && hear(g) == OCI_HELLO)
            return 0;
        if (polls[0].revents)
            on_signals(g);
    }
    if (!g->ended)
        return err_set(e, ETIMEDOUT, "%s has not started the sandbox within %d s",
                       g->c->runtime->name, OCI_START_MS_MAX / 1000);
    return execd_reported(g) ? 0 : runtime_words(g, e);
}

static int start_runtime(struct guard *g, struct err *e)
{
    int pair[2];
    long pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_sys(e, errno, "make a channel");
    g->channel = pair[0];
    pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        (void)close(pair[0]);
        runtime_main(g->c, pair[1]);
    }
    fd_close(pair[1]);
    if (pid < 0)
        return err_sys(e, errno, "clone");
    g->runtime = (pid_t)pid;
    return 0;
}

/* Closes what belongs to the broker and the slot. */
static void keep_few(struct guard *g)
{
    int *const kept[] = {&g->channel, &g->signals, &g->control, &g->listener};
    int at[ARRAY_LEN(kept)];

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        at[i] = *kept[i] < 0 ? -EBADF : fcntl(*kept[i], F_DUPFD_CLOEXEC, FD_PARK);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        *kept[i] = at[i] < 0 ? -EBADF : dup2(at[i], STDERR_FILENO + 1 + (int)i);
    (void)syscall(SYS_close_range, STDERR_FILENO + 1 + (unsigned)ARRAY_LEN(kept), ~0U, 0);
}

int oci_guard_run(const struct oci_child *c, struct err *e)
{
    struct guard g = {.c = c,
                      .listener = c->listener,
                      .channel = -EBADF,
                      .signals = -EBADF,
                      .control = -EBADF,
                      .asking = -EBADF,
                      .pending = -EBADF};
    int r = open_signals(&g, e);

    if (r == 0)
        r = open_control(&g, e);
    if (r == 0)
        r = start_runtime(&g, e);
    if (r == 0)
        r = await_execd(&g, e);
    if (r == 0)
        r = caps_limit(0);
    if (r < 0)
        return e->code ? r : err_sys(e, -r, "drop capabilities");
    keep_few(&g); /* the broker goes on, as its channel is closed */
    while (!g.ended)
        guard_turn(&g, -1);
    _exit(g.status);
}
