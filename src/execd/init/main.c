/* main.c - execd, the daemon inside a sandbox and its first process. It is a single static program,
 * so it runs in any image, even one without a C library. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "commit.h"
#include "execd/core/clone3_compat.h"
#include "execd/core/envs.h"
#include "execd/core/routes.h"
#include "execd/core/users.h"
#include "execd/init/bootstrap.h"
#include "execd/init/certificates.h"
#include "execd/init/init.h"
#include "execd/init/options.h"
#include "execd/metrics/metrics_group.h"
#include "execd/tree/fs.h"
#include "net/sock.h"
#include "version.h"

enum {
    EXIT_USAGE = 2,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
    LISTEN_BACKLOG = 128,
    FILE_MODE = 0600,
    ROUTES_TEXT_MAX = 64 << 10,
};

/* Descriptor numbers at which the broker passes its files. */
enum { FD_LISTENER = 3, FD_EXIT_REPORT, FD_ENTRY_LOG, FD_WORK };

static const struct log_conf log_at_start = {LOG_INFO, LOG_TEXT, STDERR_FILENO, "execd"};

/* Prints and checks that the output arrived: `execd --version >/dev/full` must fail. */
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

/* Our descriptors must not reach the workload. Without close_range() (Linux 5.11), marks at least
 * those that the broker passed. */
static void execd_close_on_exec(uint32_t more_fds)
{
    if (syscall(SYS_close_range, FD_LISTENER, ~0U, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    for (int fd = FD_LISTENER; fd < FD_WORK + (int)more_fds; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static struct proc_groups execd_groups(const struct execd_options *o)
{
    int dir = (int)(FD_WORK + o->work_fds + o->stat_fds);

    return (struct proc_groups){o->work_dir_fds > 0 ? dir : -EBADF, FD_WORK, o->work_fds};
}

static struct child_memory execd_memory(const struct execd_options *o)
{
    return (struct child_memory){
        .events_fd = o->stat_fds > 0 ? (int)(FD_WORK + o->work_fds + METRICS_FILES) : 0,
        .limit_bytes = (uint64_t)o->memory_mib << 20,
    };
}

/* Without an account the user has no other groups, nor with a group that is not its account's:
 * engines do the same with the users of images. */
static struct child_user execd_user(const struct execd_options *o)
{
    struct child_user usual = {
        .uid = o->uid == EXECD_KEEP_ID ? getuid() : o->uid,
        .gid = o->gid == EXECD_KEEP_ID ? getgid() : o->gid,
    };
    static gid_t *groups; /* made once, kept until the process ends */
    struct user account;

    usual.change = usual.uid != getuid() || usual.gid != getgid();
    if (usual.change && user_by_uid(usual.uid, &account) == 0 && account.gid == usual.gid &&
        user_groups(&account, &groups, &usual.group_count) == 0)
        usual.groups = groups;
    return usual;
}

static struct entry_conf execd_entry(const struct execd_options *o)
{
    return (struct entry_conf){
        .argv = o->entry_argv,
        .place = {.groups = execd_groups(o),
                  .limit = o->mode == EXECD_INIT,
                  .memory = execd_memory(o),
                  .user = execd_user(o)},
    };
}

static struct metrics_source execd_metrics(const struct execd_options *o)
{
    struct metrics_source s = METRICS_OF_MACHINE;

    s.memory_bytes = (uint64_t)o->memory_mib << 20;
    s.cpu_millis = o->cpu_millis;
    for (uint32_t i = 0; i < METRICS_FILES && o->stat_fds > 0; i++)
        s.fds[i] = (int)(FD_WORK + o->work_fds + i);
    if (o->stat_fds == 0)
        (void)metrics_find_own_group(&s);
    return s;
}

static struct isolated_conf execd_isolated(const struct execd_options *o)
{
    return (struct isolated_conf){
        .upper_root = o->isolation_upper_root,
        .allowed_writable = o->isolation_writable ? o->isolation_writable
                                                  : getenv("EXECD_ISOLATION_ALLOWED_WRITABLE"),
        .upper_bytes_max = o->isolation_upper_bytes,
        .diff_bytes_max = o->isolation_diff_bytes,
    };
}

static struct init_conf execd_conf(const struct execd_options *o)
{
    return (struct init_conf){
        .exit_fd = -EBADF,
        .log_fd = -EBADF,
        .certificates_fd = -EBADF,
        .grace_ms = o->grace_ms,
        .drain_ms = o->drain_ms,
        .access_token = o->access_token,
        .metrics = execd_metrics(o),
        .isolated = execd_isolated(o),
        .cwd = o->cwd,
        .entry = execd_entry(o),
    };
}

/* Moves what an OCI runtime passed as standard files to where the broker passes the same. */
static int execd_take_stdio(void)
{
    auto_fd first = open("/dev/null", O_RDWR | O_CLOEXEC);
    auto_fd null = fcntl(first, F_DUPFD_CLOEXEC, FD_WORK); /* out of the way */

    fd_close(take_fd(&first));
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (null < 0 || dup3(fd, FD_LISTENER + fd, O_CLOEXEC) < 0 || dup2(null, fd) < 0)
            return -errno;
    return 0;
}

static int execd_init(const struct execd_options *o)
{
    struct init_conf conf = execd_conf(o);

    if (o->channel && execd_take_stdio() < 0)
        return EXIT_CANNOT_RUN;
    conf.channel = o->channel;
    conf.listen_fd = FD_LISTENER;
    conf.exit_fd = FD_EXIT_REPORT;
    conf.log_fd = FD_ENTRY_LOG;
    (void)envs_name_file();
    certificates_place();
    return init_run(&conf);
}

/* -EBADF without an error when `name` is NULL. */
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
    struct init_conf conf = execd_conf(o);

    conf.listen_fd = e.code ? -EBADF : execd_open_listener(o->listen, &e);
    conf.exit_fd = exit_fd;
    conf.log_fd = log_fd;
    if (e.code) {
        (void)log_err(&e, "start");
        return 1;
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* orphans become our children, as for PID 1 */
    return init_run(&conf);
}

/* --- in a foreign image --- */

/* Listens on all addresses; without IPv6, on all IPv4 addresses. */
static int execd_open_port(uint32_t port, struct err *e)
{
    char address[32];
    struct err first = {0};
    int fd;

    (void)snprintf(address, sizeof(address), ":%u", port);
    fd = execd_open_listener(address, &first);
    if (fd >= 0)
        return fd;
    if (first.code != EAFNOSUPPORT && first.code != EADDRNOTAVAIL)
        return err_set(e, first.code, "%s", first.msg);
    (void)snprintf(address, sizeof(address), "0.0.0.0:%u", port);
    return execd_open_listener(address, e);
}

static enum log_level execd_log_level(uint32_t level)
{
    return level <= 3 ? LOG_ERROR : level == 4 ? LOG_WARN : level <= 6 ? LOG_INFO : LOG_DEBUG;
}

/* The banner goes where people look when they start an image to see what is in it. With an
 * entrypoint, stdout belongs to the entrypoint. */
static void execd_print_banner(const struct execd_options *o)
{
    static const char rule[] = "====================================================";
    FILE *to = o->mode == EXECD_SERVE ? stdout : stderr;
    struct utsname machine = {.machine = "unknown"};

    (void)uname(&machine);
    (void)fprintf(to,
                  "%s\n OpenSandbox Execd\n%s\n Version:    %s\n Git Commit: %s\n"
                  " Compiler:   %s\n Platform:   linux/%s\n%s\n",
                  rule, rule, OPENSANDBOX_VERSION, OPENSANDBOX_COMMIT, __VERSION__, machine.machine,
                  rule);
    (void)fflush(to);
}

/* Logs JSON lines to files, or to stdout or stderr. */
static int execd_log(const struct execd_options *o, struct log_file *log, struct err *e)
{
    int r = log_file_open(log, o->mode == EXECD_SERVE ? STDOUT_FILENO : STDERR_FILENO, e);

    if (r == 0)
        log_init(&(struct log_conf){
            .level = execd_log_level(o->log_level),
            .format = LOG_JSON_BRIEF,
            .sink = log_file_write,
            .sink_user = log,
        });
    return r;
}

static int execd_serve(const struct execd_options *o, struct init_conf conf)
{
    struct log_file log;
    struct err e = {0};
    int status = 1;

    execd_print_banner(o);
    if (execd_log(o, &log, &e) < 0) {
        (void)log_err(&e, "start");
        return status;
    }
    conf.listen_fd = execd_open_port(o->port, &e);
    conf.log = log_file_is_kept_small(&log) ? &log : NULL;
    conf.log_use = true;
    conf.entry.keep_output = true;
    conf.forward_signals = o->mode == EXECD_BOOTSTRAP;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (conf.listen_fd < 0)
        (void)log_err(&e, "start");
    else
        status = init_run(&conf);
    log_init(&log_at_start); /* `log` is closed next */
    log_file_close(&log);
    return status;
}

static int execd_serve_idle(const struct execd_options *o)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null", NULL};
    struct init_conf conf = execd_conf(o);

    conf.entry.argv = idle;
    return execd_serve(o, conf);
}

/* Certificates may take long to arrive, and requests must be answered meanwhile. So the
 * entrypoint's process installs them before its exec() and reports through a pipe. */
static int execd_serve_with_certificates(const struct execd_options *o, struct arena *a,
                                         const char *const *entry)
{
    struct init_conf conf = execd_conf(o);
    const char **argv;
    size_t n = 0;
    int fds[2];

    while (entry[n])
        n++;
    argv = arena_new_array(a, const char *, n + 6);
    if (!argv || pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        log_event(LOG_ERROR, "cannot wait for certificates", LOG_I64("errno", errno));
        return 1;
    }
    argv[0] = "/proc/self/exe";
    argv[1] = "--bootstrap-entry";
    argv[2] = "--certificates-fd";
    argv[3] = arena_printf(a, "%d", fds[1]);
    argv[4] = "--";
    memcpy(argv + 5, entry, n * sizeof(*entry));
    conf.entry.argv = argv;
    conf.entry.keep_fd = fds[1];
    conf.certificates_fd = fds[0];
    return argv[3] ? execd_serve(o, conf) : 1;
}

static int execd_bootstrap(const struct execd_options *o, const char *const *argv)
{
    AUTO_ARENA(a, 2 << 20);
    struct init_conf conf = execd_conf(o);
    struct err e = {0};

    bootstrap_prepare(argv);
    if (bootstrap_entry(&a, o->entry_argv, &conf.entry.argv, &e) < 0) {
        (void)log_err(&e, "bootstrap");
        return 1;
    }
    if (certificates_wanted())
        return execd_serve_with_certificates(o, &a, conf.entry.argv);
    return execd_serve(o, conf);
}

/* Runs in the entrypoint's process: installs certificates, then executes the entrypoint. */
static int execd_become_entry(const struct execd_options *o)
{
    enum certificates_kind kind = certificates_install();

    certificates_announce(kind);
    if (o->certificates_fd > 0)
        certificates_tell((int)o->certificates_fd, kind);
    execvp(o->entry_argv[0], (char *const *)o->entry_argv);
    log_event(LOG_ERROR, "cannot start", LOG_STR("program", o->entry_argv[0]),
              LOG_I64("errno", errno));
    return errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

/* Takes the token from the option or the environment and erases it in both, also from
 * /proc/PID/cmdline and /proc/PID/environ: no child may see it. */
static void execd_take_token(struct execd_options *o)
{
    char *given[] = {(char *)o->access_token, getenv("EXECD_ACCESS_TOKEN")};

    if (!o->access_token)
        o->access_token = given[1];
    if (o->access_token)
        o->access_token = mem_strdup(o->access_token);
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        if (given[i])
            explicit_bzero(given[i], strlen(given[i]));
    (void)unsetenv("EXECD_ACCESS_TOKEN");
}

static int execd_run(const struct execd_options *o, const char *const *argv)
{
    switch (o->mode) {
    case EXECD_INIT:
        return execd_init(o);
    case EXECD_LISTEN:
        return execd_listen(o);
    case EXECD_SERVE:
        return execd_serve_idle(o);
    case EXECD_BOOTSTRAP:
        return execd_bootstrap(o, argv);
    case EXECD_ENTRY:
        return execd_become_entry(o);
    case EXECD_ROUTES:
        return execd_print_routes();
    case EXECD_VERSION:
        return execd_say("execd " OPENSANDBOX_VERSION "\n");
    default:
        return execd_say(execd_help);
    }
}

int main(int argc UNUSED, char **argv)
{
    const char *const *args = (const char *const *)argv;
    struct execd_options o;
    struct err e = {0};

    (void)prctl(PR_SET_NAME, "execd"); /* the broker runs us from a copy with another name */
    (void)prctl(PR_SET_DUMPABLE, 0);   /* before a process of the sandbox can ptrace us */
    log_init(&log_at_start);
    if (execd_options_parse(args, &o, &e) < 0) {
        (void)fprintf(stderr, "execd: %s\n%s", e.msg, execd_help);
        return EXIT_USAGE;
    }
    if (clone3_compat_apply(args, &e) < 0) {
        (void)fprintf(stderr, "execd: %s\n", e.msg);
        return 1;
    }
    execd_take_token(&o);
    execd_close_on_exec(o.work_fds + o.stat_fds + o.work_dir_fds);
    if (o.files_root && fs_confine(o.files_root, &e) < 0) {
        (void)log_err(&e, "--files-root");
        return 1;
    }
    return execd_run(&o, args);
}
