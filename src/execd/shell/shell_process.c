/* shell_process.c - the process of a shell: its start, its reports, its end. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/command/command.h"
#include "execd/core/exit_text.h"
#include "execd/core/kin.h"
#include "execd/core/path.h"
#include "execd/shell/shell_internal.h"

enum {
    ANSWER_MS = 20 * 1000, /* long, for slow machines */
    HIGH_FD = 100,         /* above every descriptor in shell_kinds */
};

/* --- control lines --- */

/* A line is short enough for a socket and a pipe to accept it as a whole. */
int shell_say(struct shell *s, char what, const char *nonce)
{
    char line[SHELL_NONCE_MAX + 5];
    int n = snprintf(line, sizeof(line), "%c %s.\n", what, nonce);
    ssize_t sent;

    if (s->control.fd < 0)
        return -EPIPE;
    sent = send(s->control.fd, line, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == n ? 0 : -EPIPE;
}

static void shell_on_late(struct loop_timer *t)
{
    struct shell *s = container_of(t, struct shell, watch);

    if (s->child.pid > 0)
        (void)kill(-s->child.pid, SIGKILL);
}

/* After its report, a shell may still have a pending interrupt, which would hit the next run or the
 * line that requests it. Once the shell has answered "s", the interrupt has been handled. */
void shell_sync(struct shell *s)
{
    s->syncing = true;
    id_short(s->sync_nonce, sizeof(s->sync_nonce) - 1);
    if (shell_say(s, 's', s->sync_nonce) < 0)
        shell_on_late(&s->watch);
    else
        loop_timer_set(s->conf.loop, &s->watch, deadline_in_ms(ANSWER_MS), shell_on_late);
}

/* The interrupt came before the shell had read the code, or meanwhile. If the shell is still about
 * to read it, it finds an empty file. Its answer to "s" tells that it will not; without an answer
 * the code runs and must be interrupted again. */
static void shell_lost_run(struct shell *s)
{
    s->lost = true;
    (void)!ftruncate(s->code_fd, 0);
    shell_sync(s);
}

static void shell_is_ready(struct shell *s)
{
    s->ready = true;
    s->syncing = false;
    loop_timer_stop(s->conf.loop, &s->watch);
    if (s->sent && !s->over)
        shell_run_over(s, &(struct proc_exit){.by_signal = true, .code = SIGINT});
    else if (s->busy && !s->sent && shell_say_code(s) < 0)
        shell_on_late(&s->watch);
}

int shell_keep_loop(const struct shell *s)
{
    struct str loop = str_of(s->kind->loop);
    int left = 0;

    if (ioctl(s->input, FIONREAD, &left) == 0 && left > 0)
        return 0;
    return write(s->input, loop.p, loop.n) == (ssize_t)loop.n ? 0 : -EPIPE;
}

static void shell_hear(struct shell *s, const struct shell_report *r)
{
    if (r->begun && shell_keep_loop(s) < 0)
        shell_on_late(&s->watch); /* kill it: without a loop it could not return again */
    if (r->sync) {
        if (s->syncing && str_eq(r->nonce, str_of(s->sync_nonce)))
            shell_is_ready(s);
        return;
    }
    s->trace = r->trace;
    if (!s->ready) {
        shell_is_ready(s);
    } else if (s->sent && !s->over && str_eq(r->nonce, str_of(s->nonce))) {
        shell_run_over(s, &(struct proc_exit){.code = r->status});
    } else if (s->sent && !s->over && s->stop != SHELL_STOP_NOT) {
        shell_lost_run(s);
    } else if (s->syncing) {
        shell_sync(s); /* the interrupt discarded the "s" line */
    }
}

static void shell_stop_hearing(struct shell *s)
{
    int fd = s->control.fd;

    if (fd < 0)
        return;
    loop_io_stop(s->conf.loop, &s->control);
    fd_close(fd);
}

/* Handles one line per event, since that may free the shell. The loop writes whole lines; other
 * input is ignored. End of file means that the shell exits or called exec; the reaper reports that.
 */
static void shell_on_control(struct loop_io *io, uint32_t events UNUSED)
{
    struct shell *s = container_of(io, struct shell, control);
    char line[SHELL_REPORT_BYTES_MAX];
    struct shell_report report;
    ssize_t n = recv(s->control.fd, line, sizeof(line), MSG_PEEK | MSG_DONTWAIT);
    struct str text = str_make(line, n > 0 ? (size_t)n : 0);
    size_t end = str_find(text, '\n');

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0)
        n = recv(s->control.fd, line, min_size(end + 1, text.n), MSG_DONTWAIT);
    if (n <= 0)
        shell_stop_hearing(s);
    else if (end < text.n && shell_report_parse(str_make(line, end), &report) >= 0)
        shell_hear(s, &report);
}

/* --- the end --- */

/* Remembers an earlier shell that left jobs. If there are too many, kills the jobs of the oldest.
 * The kernel does not reuse a session id while a process of the session lives. */
static void shell_remember(struct shell *s, pid_t sid)
{
    if (kin_signal(sid, 0, 0, 0) == 0)
        return;
    if (s->past[0] > 0)
        kin_kill(s->past[0], 0);
    memmove(s->past, s->past + 1, sizeof(s->past) - sizeof(s->past[0]));
    s->past[SHELL_PAST_MAX - 1] = sid;
}

void shell_went_down(struct shell *s)
{
    child_proc_stop(&s->child);
    loop_timer_stop(s->conf.loop, &s->watch);
    shell_stop_hearing(s);
    fd_close(s->input);
    s->input = -EBADF;
    s->pid = 0;
    s->ready = s->syncing = s->trace = false;
}

/* If a process has the pid of an earlier shell again, the session id was reused: then it is
 * skipped. */
void shell_kill_all(struct shell *s)
{
    if (s->child.pid > 0) {
        (void)kill(-s->child.pid, SIGKILL);
        kin_kill(s->child.pid, 0);
    }
    for (size_t i = 0; i < SHELL_PAST_MAX; i++)
        if (s->past[i] > 0 && kill(s->past[i], 0) < 0)
            kin_kill(s->past[i], 0);
}

static void shell_tell_down(struct shell *s, const char *why)
{
    if (s->conf.owner->on_down)
        s->conf.owner->on_down(s->conf.user, why);
}

static void shell_cannot_start(struct shell *s, const struct err *why)
{
    shell_went_down(s);
    if (!s->busy) {
        shell_tell_down(s, why->msg);
        return;
    }
    s->end.exit_code = SHELL_CANNOT_START;
    (void)snprintf(s->end.error, sizeof(s->end.error), "%s", why->msg);
    shell_run_over(s, NULL);
}

static void shell_on_start(struct child_proc *child, const struct err *why)
{
    if (why)
        shell_cannot_start(container_of(child, struct shell, child), why);
}

static void shell_on_exit(struct child_proc *child, const struct proc_exit *how)
{
    struct shell *s = container_of(child, struct shell, child);
    pid_t sid = s->sid;
    AUTO_BUF(text, EXIT_TEXT_MAX);

    shell_went_down(s);
    shell_remember(s, sid);
    if (s->busy && !s->over) {
        s->end.died = true;
        shell_run_over(s, how);
    } else if (!s->busy) {
        exit_text_add(&text, how);
        shell_tell_down(s, text.n ? text.p : "exit status 0");
    }
}

/* --- the start --- */

static const struct child_proc_ops shell_child_ops = {
    .name = "a shell",
    .on_start = shell_on_start,
    .on_exit = shell_on_exit,
};

struct start {
    const struct shell *shell;
    int fds[SHELL_FDS];
};

/* Source descriptors may have the target numbers, hence they are first moved to high ones. */
static int start_connect(const struct start *start)
{
    int high[SHELL_FDS];

    for (size_t i = 0; i < SHELL_FDS; i++) {
        high[i] = fcntl(start->fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (high[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < SHELL_FDS; i++)
        if (dup2(high[i], start->shell->kind->fds[i]) < 0)
            return -errno;
    return 0;
}

static int start_prepare(void *user, struct proc_step *ret_step)
{
    static const struct child_user ours = {0};
    const struct start *start = user;
    const struct shell *s = start->shell;
    int r = child_settle(&s->conf.place, &ours, s->cwd, s->kind->program, ret_step);

    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"connect to", s->kind->program};
    return start_connect(start);
}

/* Occupies the shell's descriptor numbers in execd during the fork: else the child might have a
 * descriptor there that it still needs. */
static void start_take_numbers(const struct shell_kind *kind, int fd, bool taken[SHELL_FDS])
{
    for (size_t i = 0; i < SHELL_FDS; i++) {
        taken[i] = fcntl(kind->fds[i], F_GETFD) < 0;
        if (taken[i])
            (void)dup3(fd, kind->fds[i], O_CLOEXEC);
    }
}

static void start_leave_numbers(const struct shell_kind *kind, const bool taken[SHELL_FDS])
{
    for (size_t i = 0; i < SHELL_FDS; i++)
        if (taken[i])
            fd_close(kind->fds[i]);
}

static int start_spawn(struct shell *s, const char *path, const char *const *env, int input,
                       int control, struct err *e)
{
    struct start start = {
        s, {control, s->state_fd, s->code_fd}
    };
    struct proc_spec how = PROC_SPEC(path, s->kind->argv);
    bool taken[SHELL_FDS];
    int r;

    how.env = env;
    how.stdio[0] = input;
    how.stdio[1] = s->outputs[SHELL_STDOUT].end;
    how.stdio[2] = s->outputs[SHELL_STDERR].end;
    how.flags = PROC_NEW_SESSION;
    how.groups = &s->conf.place.groups;
    how.prepare = start_prepare;
    how.user = &start;
    start_take_numbers(s->kind, control, taken);
    r = child_proc_start(&s->child, s->conf.loop, s->conf.reaper, &how, &shell_child_ops, e);
    start_leave_numbers(s->kind, taken);
    if (r < 0)
        return r;
    s->sid = s->child.pid;
    return 0;
}

/* Creates a socket and a pipe, starts the shell with their other ends, and writes the loop to it.
 */
static int start_with(struct shell *s, const char *path, const char *const *env, struct err *e)
{
    auto_fd control = -EBADF, input = -EBADF, ours = -EBADF;
    struct str begin = str_of(s->kind->begin), loop = str_of(s->kind->loop);
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "make a socket");
    ours = pair[0];
    control = pair[1];
    r = fd_pipe(FD_PIPE_WRITE, &s->input, &input, e);
    if (r < 0)
        return r;
    r = io_write_full(s->input, begin, DEADLINE_NEVER);
    if (r >= 0)
        r = io_write_full(s->input, loop, DEADLINE_NEVER);
    if (r < 0)
        return err_sys(e, -r, "write to a pipe");
    r = loop_io_start(s->conf.loop, &s->control, ours, EPOLLIN, shell_on_control, e);
    if (r < 0)
        return r;
    (void)take_fd(&ours);
    return start_spawn(s, path, env, input, control, e);
}

static bool find_shell(struct shell *s, struct str path, const char *only, struct buf *out)
{
    for (size_t i = 0; i < shell_kind_count; i++) {
        if (only && strcmp(only, shell_kinds[i].program) != 0)
            continue;
        s->kind = &shell_kinds[i];
        if (command_find_program(path, s->kind->program, out))
            return true;
    }
    return false;
}

int shell_start(struct shell *s, const char *const *env, const char *only, struct err *e)
{
    AUTO_BUF(path, EXECD_PATH_BYTES_MAX);
    int r;

    if (!find_shell(s, path_env(env, STR("PATH")), only, &path))
        return err_set(e, ENOENT, SHELL_MISSING);
    if (s->cwd && access(s->cwd, X_OK) < 0) {
        free(s->cwd); /* it was removed; start elsewhere rather than not at all */
        s->cwd = NULL;
    }
    r = start_with(s, path.p, env, e);
    if (r < 0) {
        shell_kill_all(s);
        shell_went_down(s);
        return r;
    }
    shell_outputs_watch(s);
    loop_timer_set(s->conf.loop, &s->watch, deadline_in_ms(ANSWER_MS), shell_on_late);
    return 0;
}
