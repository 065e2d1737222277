#include "execd/init/init.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/code/code_port.h"
#include "execd/code/contexts.h"
#include "execd/command/command.h"
#include "execd/core/reaper.h"
#include "execd/core/routes.h"
#include "execd/files/file_identity.h"
#include "execd/files/file_routes.h"
#include "execd/init/certificates.h"
#include "execd/init/exit_report.h"
#include "execd/log/use_log.h"
#include "execd/metrics/metrics_api.h"
#include "execd/metrics/telemetry.h"
#include "execd/pty/pty.h"
#include "execd/pty/pty_client.h"
#include "execd/shell/session.h"
#include "execd/tree/fs.h"
#include "net/http_client.h"
#include "net/http_server.h"

enum {
    REAPS_PER_TURN = 256, /* then requests are served, even during a fork bomb */
    LEFTOVERS_MS = 1000,  /* for processes that outlive the entrypoint */
    LAST_WAIT_MS = 1000,  /* for killed processes to disappear */
    CONNECTIONS_MAX = 1024,
    STALL_MS = 300 * 1000, /* how long a client may stop reading its stream */
    STATUS_SIGNAL = 128,   /* + signal number, as in shells */
    STATUS_CANNOT_RUN = 126,
    STATUS_NOT_FOUND = 127,
    CWD_MODE = 0755,
};

enum { NOTE_HELLO = 'H', NOTE_SIGNAL = 'S', NOTE_QUIET = 'Q' };

enum init_state { INIT_RUNNING, INIT_ENDING, INIT_KILLING };

struct init {
    const struct init_conf *conf;
    struct loop *loop;
    struct http_server *server;
    struct http_route *routes; /* NULL: execd_routes */
    int channel;               /* of conf->channel; the server owns it */
    struct loop_signals signals;
    struct reaper reaper;
    struct reaper_child entry_child;
    struct loop_task reap_task;
    struct execd_api api;
    struct metrics_memory metrics_memory;
    struct sock_listener code_port;
    struct loop_timer timer; /* used in INIT_ENDING and INIT_KILLING */
    struct loop_timer log_timer;
    struct loop_io certificates;
    enum init_state state;
    bool everyone; /* we are PID 1: kill(-1) reaches the sandbox only, not the machine */
    bool idle;     /* there is no entrypoint process and never was */
    bool draining; /* no process is left that matters */
    bool greeted;  /* the guard has said hello */
    struct entry entry;
    struct entry_log log;
    struct exit_reporter report;
    int status;
};

static bool entry_runs(const struct init *i)
{
    return i->entry.proc.pid > 0;
}

static void init_warn(int r, const char *what)
{
    if (r < 0)
        log_event(LOG_WARN, what, LOG_I64("errno", -r));
}

/* --- ending --- */

/* Errors are ignored: they mean that no process is left. */
static void init_signal(const struct init *i, int signo)
{
    if (i->everyone)
        (void)kill(-1, signo);
    else if (entry_runs(i))
        (void)kill(-i->entry.proc.pid, signo); /* not reaped yet: the pid still names its group */
    if (!i->everyone && i->api.commands)
        commands_signal(i->api.commands, signo);
    if (i->api.sessions)
        sessions_signal(i->api.sessions, signo); /* also as PID 1: shells ignore SIGTERM */
    if (!i->everyone && i->api.ptys)
        ptys_signal(i->api.ptys, signo);
    if (signo != SIGKILL && i->api.ptys)
        ptys_hang_up(i->api.ptys);
}

static void init_on_drained(void *user)
{
    struct init *i = user;

    loop_stop(i->loop);
}

/* No process is left. Lets open streams deliver their last data, then stops the loop. */
static void init_finish(struct init *i)
{
    if (i->draining)
        return;
    i->draining = true;
    directories_watch_end_all(&i->api, "execd is ending");
    contexts_end_cells(i->api.contexts, "execd is ending");
    isolated_end_streams(i->api.isolated);
    identities_end(i->api.identities);
    http_server_drain(i->server, i->conf->drain_ms, init_on_drained, i);
}

static void init_on_entry_exit(struct init *i, int code, int signo);

static void init_on_timer(struct loop_timer *t)
{
    struct init *i = container_of(t, struct init, timer);

    if (i->state == INIT_KILLING) {
        if (entry_runs(i)) /* stuck in the kernel; it dies when we exit */
            init_on_entry_exit(i, 0, SIGKILL);
        init_finish(i);
        return;
    }
    i->state = INIT_KILLING;
    init_signal(i, SIGKILL);
    loop_timer_after(i->loop, t, LAST_WAIT_MS, init_on_timer);
}

/* All processes were told to end and have `ms` to do so. Never extends an earlier deadline. */
static void init_end_within(struct init *i, uint32_t ms)
{
    uint64_t due = loop_now_ns(i->loop) + ms * TIME_NS_PER_MS;

    if (i->state == INIT_KILLING || (i->state == INIT_ENDING && i->timer.due_ns <= due))
        return;
    i->state = INIT_ENDING;
    loop_timer_set(i->loop, &i->timer, due, init_on_timer);
}

static void init_on_entry_exit(struct init *i, int code, int signo)
{
    entry_ended(&i->entry);
    i->status = signo ? STATUS_SIGNAL + signo : code;
    init_warn(exit_report_exited(&i->report, code, signo), "the exit report is lost");
    if (i->state == INIT_RUNNING)
        init_signal(i, SIGTERM);
    if (!i->everyone && commands_running(i->api.commands) == 0)
        init_finish(i); /* processes it left behind stay with the system, as usual */
    else
        init_end_within(i, LEFTOVERS_MS);
}

/* --- processes --- */

static void init_on_entry_reaped(struct reaper_child *c, const struct proc_exit *how)
{
    init_on_entry_exit(container_of(c, struct init, entry_child), how->by_signal ? 0 : how->code,
                       how->by_signal ? how->code : 0);
}

/* Reaps one child. False when no more have exited. If no child is left and we are ending,
 * finishes. */
static bool init_reap_one(struct init *i)
{
    int r = reaper_reap(&i->reaper);

    if (r == -ECHILD && i->state != INIT_RUNNING && !entry_runs(i))
        init_finish(i);
    return r > 0;
}

static void init_reap(struct loop_task *t)
{
    struct init *i = container_of(t, struct init, reap_task);

    trim_soon(&i->api.trim);
    for (int reaped = 0; reaped < REAPS_PER_TURN; reaped++)
        if (!init_reap_one(i))
            return;
    loop_defer(i->loop, t, init_reap);
}

static void init_on_signal(struct loop_signals *s, int signo)
{
    struct init *i = container_of(s, struct init, signals);

    if (signo == SIGINT || signo == SIGTERM) {
        init_signal(i, signo);
        if (!entry_runs(i)) /* otherwise we would wait for these processes to end */
            identities_end(i->api.identities);
        init_end_within(i, entry_runs(i) ? i->conf->grace_ms : LEFTOVERS_MS);
    } else if (signo != SIGCHLD && entry_runs(i)) {
        (void)kill(i->entry.proc.pid, signo);
    }
    loop_defer(i->loop, &i->reap_task, init_reap);
}

/* --- the log --- */

static void init_on_log_timer(struct loop_timer *t)
{
    struct init *i = container_of(t, struct init, log_timer);

    log_file_check(i->conf->log);
    loop_timer_after(i->loop, t, LOG_FILE_CHECK_MS, init_on_log_timer);
}

static void init_on_request_done(struct http_req *req, int error)
{
    const struct execd_api *api = req->server_user;

    telemetry_request(api->telemetry, req, error);
    use_log_request(req, error);
}

/* --- certificates --- */

static void init_on_certificates(struct loop_io *io, uint32_t events UNUSED)
{
    struct init *i = container_of(io, struct init, certificates);
    int fd = io->fd;

    if (!certificates_hear(fd))
        return;
    loop_io_stop(i->loop, io);
    fd_close(fd);
}

/* Processes that start later get the variables that certificates_hear() sets. */
static int init_watch_certificates(struct init *i, struct err *e)
{
    int fd = i->conf->certificates_fd;

    return fd < 0 ? 0
                  : loop_io_start(i->loop, &i->certificates, fd, EPOLLIN, init_on_certificates, e);
}

/* --- start --- */

static int init_watch_signals(struct init *i, struct err *e)
{
    static const int forwarded[] = {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t set;

    /* Our parent may have left SIGCHLD ignored; then no exit status would be reported. */
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    for (size_t n = 0; i->conf->forward_signals && n < ARRAY_LEN(forwarded); n++)
        sigaddset(&set, forwarded[n]);
    return loop_signals_start(i->loop, &i->signals, &set, init_on_signal, e);
}

/* --- behind an OCI runtime: notes of the guard, see src/sandbox/oci.h --- */

static void init_answer(const struct init *i, char note)
{
    init_warn(fd_send(i->channel, &note, 1, NULL, 0), "the guard is gone");
}

/* Our memory was saved and restored as another sandbox: its report and log are new files. */
static void init_begin_again(struct init *i)
{
    init_warn(entry_log_init(&i->log, i->conf->log_fd), "the entrypoint's log cannot be written");
    init_warn(exit_report_running(&i->report, i->entry.proc.pid), "the exit report is lost");
}

static void init_on_note(void *user, struct str note)
{
    struct init *i = container_of((struct execd_api *)user, struct init, api);

    if (note.p[0] == NOTE_SIGNAL && note.n == 2)
        init_on_signal(&i->signals, (unsigned char)note.p[1]);
    if (note.p[0] == NOTE_QUIET)
        http_server_cut_all(i->server);
    if (note.p[0] == NOTE_HELLO && i->greeted)
        init_begin_again(i);
    i->greeted |= note.p[0] == NOTE_HELLO;
    if (note.p[0] == NOTE_QUIET || note.p[0] == NOTE_HELLO)
        init_answer(i, note.p[0]);
}

/* accept() on a socket that does not listen would fail in an endless loop. */
static int listener_check(int fd, struct err *e)
{
    socklen_t size = sizeof(int);
    int listens = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) < 0)
        return err_sys(e, errno, "descriptor %d, the listener", fd);
    return listens ? 0 : err_set(e, EINVAL, "descriptor %d does not listen", fd);
}

static int init_serve(struct init *i, struct err *e)
{
    struct http_server_conf conf = {
        .routes = execd_routes,
        .route_count = execd_route_count,
        .user = &i->api,
        .on_request = execd_on_request,
        .on_handle = telemetry_enter,
        .on_handled = telemetry_leave,
        .on_unrouted = execd_on_unrouted,
        .on_done = init_on_request_done,
        .connections_max = CONNECTIONS_MAX,
        .held_bytes_max = EXECD_HELD_BYTES_MAX,
        .stall_ms = STALL_MS,
    };
    auto_fd fd = i->conf->listen_fd;
    struct sock_addr addr;
    int r = i->conf->channel ? 0 : listener_check(fd, e);

    if (r < 0)
        return r;
    if (i->api.user->change)
        conf.routes = i->routes = execd_routes_of_user();
    if (sock_local_addr(fd, &addr) == 0)
        i->api.port = sock_addr_port(&addr);
    r = http_client_new(i->loop, &(struct http_client_conf){0}, &i->api.proxy, e);
    if (r < 0)
        return r;
    r = http_server_new(i->loop, &conf, &i->server, e);
    if (r < 0)
        return r;
    r = fd_set_nonblock(fd, true);
    if (r < 0)
        return err_sys(e, -r, "descriptor %d, the listener", fd);
    i->channel = fd;
    return i->conf->channel ? http_server_listen_channel(i->server, take_fd(&fd), init_on_note, e)
                            : http_server_listen(i->server, take_fd(&fd), e);
}

static int init_start_entry(struct init *i, struct err *e)
{
    int r;

    init_warn(entry_log_init(&i->log, i->conf->log_fd), "the entrypoint's log cannot be written");
    i->idle = entry_is_idle(i->conf->entry.argv);
    if (!i->idle) {
        r = entry_start(&i->entry, i->loop, &i->log, &i->conf->entry, e);
        if (r < 0)
            return r;
        if (i->conf->entry.keep_fd > 0)
            fd_close(i->conf->entry.keep_fd);
        reaper_watch(&i->reaper, &i->entry_child, i->entry.proc.pid, init_on_entry_reaped);
    }
    init_warn(exit_report_running(&i->report, i->entry.proc.pid), "the exit report is lost");
    return 0;
}

static void init_make_api(struct init *i)
{
    i->api = (struct execd_api){
        .metrics = &i->conf->metrics,
        .metrics_memory = &i->metrics_memory,
        .access_token = i->conf->access_token,
        .user = &i->conf->entry.place.user,
        .log_use = i->conf->log_use,
    };
    commands_new(i->loop, &i->reaper, &i->conf->entry.place, &i->api.commands);
    sessions_new(i->loop, &i->reaper, &i->conf->entry.place, &i->api.sessions);
    contexts_new(i->loop, &i->reaper, &i->conf->entry.place, &i->api.contexts);
    interrupts_init(&i->api.interrupts, i->loop);
    trim_init(&i->api.trim, i->loop);
    trim_soon(&i->api.trim);
    ptys_new(i->loop, &i->reaper, &i->conf->entry.place, &i->api.ptys);
    list_init(&i->api.pty_clients);
    isolated_new_all(i->loop, &i->reaper, &i->conf->entry.place, &i->conf->isolated,
                     &i->api.isolated);
    identities_new(i->loop, &i->reaper, &i->conf->entry.place, &i->api.identities);
}

static void init_observe(struct init *i)
{
    struct telemetry_parts parts = {i->loop, i->api.proxy, &i->api.trim, &i->conf->entry.place,
                                    &i->conf->metrics};
    struct telemetry *t = telemetry_start(&parts, (const char *const *)environ);

    i->api.telemetry = t;
    commands_observe(i->api.commands, t);
    sessions_observe(i->api.sessions, t);
    contexts_observe(i->api.contexts, t);
}

/* All processes start in execd's directory, and relative paths of requests begin there. It is
 * entered before any change of user, so it need not be readable for that user. */
static int init_enter_cwd(const char *cwd, struct err *e)
{
    int r = cwd ? fs_make_dirs(cwd, CWD_MODE, NULL) : 0;

    if (r >= 0 && cwd)
        r = child_enter(cwd);
    return r < 0 ? err_sys(e, -r, "change directory to '%s'", cwd) : 0;
}

/* Listens first, so that the API answers as soon as the entrypoint runs. */
static int init_start(struct init *i, struct err *e)
{
    int r = init_enter_cwd(i->conf->cwd, e);

    if (r >= 0)
        r = loop_new(&i->loop, e);
    if (r < 0)
        return r;
    r = init_watch_signals(i, e);
    if (r < 0)
        return r;
    if (i->conf->log)
        init_on_log_timer(&i->log_timer);
    reaper_init(&i->reaper);
    init_make_api(i);
    r = init_serve(i, e);
    if (r < 0)
        return err_wrap(e, r, "serve");
    init_observe(i);
    if (i->everyone) /* otherwise the port is not ours to take */
        code_port_open(&i->code_port, i->loop, (const char *const *)environ);
    r = init_watch_certificates(i, e);
    return r < 0 ? r : init_start_entry(i, e);
}

static int init_failed(struct init *i, const struct err *e)
{
    init_warn(exit_report_failed(&i->report, e), "the exit report is lost");
    (void)log_err(e, "start");
    return e->code == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

static void init_done(struct init *i)
{
    if (!i->loop)
        return;
    entry_done(&i->entry);
    http_server_free(i->server);
    free(i->routes);
    if (i->api.commands)
        interrupts_done(&i->api.interrupts);
    isolated_free_all(i->api.isolated);
    identities_free(i->api.identities);
    commands_free(i->api.commands);
    sessions_free(i->api.sessions);
    contexts_free(i->api.contexts);
    code_port_close(&i->code_port);
    if (i->api.ptys)
        pty_clients_cut(&i->api.pty_clients, i->loop);
    ptys_free(i->api.ptys);
    telemetry_stop(i->api.telemetry);
    if (i->api.proxy)
        http_client_free(i->api.proxy);
    trim_done(&i->api.trim);
    loop_timer_stop(i->loop, &i->timer);
    loop_timer_stop(i->loop, &i->log_timer);
    if (i->signals.loop)
        loop_signals_stop(&i->signals);
    loop_free(i->loop);
}

int init_run(const struct init_conf *conf)
{
    struct init i = {.conf = conf, .everyone = getpid() == 1};
    struct err e = {0};

    init_warn(exit_report_starting(&i.report, conf->exit_fd), "the exit report is lost");
    if (init_start(&i, &e) < 0 || loop_run(i.loop, &e) < 0)
        i.status = init_failed(&i, &e);
    else if (i.idle)
        init_warn(exit_report_exited(&i.report, 0, 0), "the exit report is lost");
    init_done(&i);
    return i.status;
}
