/* main.c - execd, the daemon inside a sandbox and its first process. A single static program: it
 * runs in any image, also in one without a C library. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "execd/init.h"
#include "execd/options.h"
#include "execd/routes.h"
#include "net/sock.h"
#include "version.h"

enum {
    EXIT_USAGE = 2,
    LISTEN_BACKLOG = 128,
    FILE_MODE = 0600,
    ROUTES_TEXT_MAX = 64 << 10,
};

/* What the broker leaves us, by number. */
enum { FD_LISTENER = 3, FD_EXIT_REPORT, FD_ENTRY_LOG, FD_WORK };

/* Prints and makes sure it arrived: `execd --version >/dev/full` must not succeed. */
static int execd_say(const char *text)
{
    return fputs(text, stdout) == EOF || fflush(stdout) == EOF ? 1 : 0;
}

static int execd_print_routes(void)
{
    AUTO_BUF(text, ROUTES_TEXT_MAX);

    if (routes_print(execd_routes, execd_route_count, &text) < 0)
        return 1;
    return execd_say(text.p);
}

/* Nothing of ours is for the workload. A kernel without the call knows at least our own. */
static void execd_close_on_exec(uint32_t more_fds)
{
    if (syscall(SYS_close_range, FD_LISTENER, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = FD_LISTENER; fd < FD_WORK + (int)more_fds; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static struct entry_conf execd_entry(const struct execd_options *o)
{
    return (struct entry_conf){
        .argv = o->entry_argv,
        .cwd = o->cwd,
        .uid = o->uid,
        .gid = o->gid,
        .place = {FD_WORK, o->work_fds, o->mode == EXECD_INIT},
    };
}

static struct metrics_source execd_metrics(const struct execd_options *o)
{
    return (struct metrics_source){
        .first_fd = o->stat_fds ? FD_WORK + (int)o->work_fds : -EBADF,
        .memory_bytes = (uint64_t)o->memory_mib << 20,
        .cpu_millis = o->cpu_millis,
    };
}

static int execd_init(const struct execd_options *o)
{
    struct init_conf conf = {
        .listen_fd = FD_LISTENER,
        .exit_fd = FD_EXIT_REPORT,
        .log_fd = FD_ENTRY_LOG,
        .grace_ms = o->grace_ms,
        .access_token = o->access_token,
        .metrics = execd_metrics(o),
        .entry = execd_entry(o),
    };

    return init_run(&conf);
}

/* -EBADF without an error when there is no name. */
static int execd_open(const char *name, struct err *e)
{
    return name ? fd_open_at(AT_FDCWD, name, O_RDWR | O_CREAT, FILE_MODE, PATH_FREE, e) : -EBADF;
}

static int execd_open_listener(const char *address, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    struct sock_addr addr;
    int fd, r = sock_addr_parse(str_of(address), &addr, e);

    if (r < 0)
        return r;
    fd = sock_listen(&addr, LISTEN_BACKLOG, e);
    if (fd >= 0 && sock_local_addr(fd, &addr) >= 0) {
        sock_addr_format(&addr, text);
        log_event(LOG_INFO, "listening", LOG_STR("address", text));
    }
    return fd;
}

static int execd_listen(const struct execd_options *o)
{
    struct err e = {0};
    auto_fd exit_fd = execd_open(o->exit_file, &e);
    auto_fd log_fd = execd_open(o->log_file, &e);
    int listen_fd = e.code ? -EBADF : execd_open_listener(o->listen, &e);
    struct init_conf conf = {
        .listen_fd = listen_fd,
        .exit_fd = exit_fd,
        .log_fd = log_fd,
        .grace_ms = o->grace_ms,
        .access_token = o->access_token,
        .metrics = execd_metrics(o),
        .entry = execd_entry(o),
    };

    if (e.code) {
        (void)log_err(&e, "start");
        return 1;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans are then ours to reap, as for PID 1 */
    return init_run(&conf);
}

/* From the option or the environment, which then forgets it: it is for no child of ours. */
static void execd_take_token(struct execd_options *o)
{
    const char *token = getenv("EXECD_ACCESS_TOKEN");

    if (!o->access_token && token)
        o->access_token = mem_strdup(token);
    (void)unsetenv("EXECD_ACCESS_TOKEN");
}

int main(int argc UNUSED, char **argv)
{
    struct execd_options o;
    struct err e = {0};

    (void)prctl(PR_SET_NAME, "execd"); /* the broker runs us from a copy with another name */
    (void)prctl(PR_SET_DUMPABLE, 0);   /* before anything of the sandbox can attach to us */
    log_init(&(struct log_conf){LOG_INFO, LOG_TEXT, STDERR_FILENO, "execd"});
    if (execd_options_parse((const char *const *)argv, &o, &e) < 0) {
        (void)fprintf(stderr, "execd: %s; see --help\n", e.msg);
        return EXIT_USAGE;
    }
    execd_take_token(&o);
    execd_close_on_exec(o.work_fds + o.stat_fds);
    switch (o.mode) {
    case EXECD_INIT:
        return execd_init(&o);
    case EXECD_LISTEN:
        return execd_listen(&o);
    case EXECD_ROUTES:
        return execd_print_routes();
    case EXECD_VERSION:
        return execd_say("execd " OPENSANDBOX_VERSION "\n");
    default:
        return execd_say(execd_help);
    }
}
