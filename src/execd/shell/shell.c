#include "execd/shell/shell.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/core/exit_text.h"
#include "execd/core/kin.h"
#include "execd/core/path.h"
#include "execd/shell/shell_internal.h"

/* --- making and freeing --- */

static int memory_file(const char *name, int *ret_fd, struct err *e)
{
    int fd = fd_memory(name);

    if (fd < 0)
        return err_sys(e, -fd, "make a memory file");
    *ret_fd = fd;
    return 0;
}

int shell_new(const struct shell_conf *conf, struct shell **ret, struct err *e)
{
    struct shell *s = mem_new(struct shell);
    int r;

    s->conf = *conf;
    s->cwd = conf->cwd ? mem_strdup(conf->cwd) : NULL;
    s->conf.cwd = NULL;
    s->code_fd = s->state_fd = s->input = s->control.fd = -EBADF;
    r = shell_outputs_open(s, e);
    if (r >= 0)
        r = memory_file("code", &s->code_fd, e);
    if (r >= 0)
        r = memory_file("state", &s->state_fd, e);
    if (r < 0) {
        shell_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void shell_free(struct shell *s)
{
    if (!s)
        return;
    shell_kill_all(s);
    shell_went_down(s);
    loop_timer_stop(s->conf.loop, &s->timeout);
    loop_timer_stop(s->conf.loop, &s->stopping);
    shell_outputs_close(s);
    fd_close(s->code_fd);
    fd_close(s->state_fd);
    free(s->cwd);
    free(s);
}

bool shell_is_up(const struct shell *s)
{
    return s->child.pid > 0;
}

bool shell_is_busy(const struct shell *s)
{
    return s->busy;
}

void shell_signal(struct shell *s, int signo)
{
    if (signo == SIGKILL) {
        shell_kill_all(s);
        return;
    }
    if (s->child.pid > 0) {
        (void)kin_signal(s->child.pid, 0, 0, signo);
        (void)kill(s->child.pid, SIGHUP);
    }
    for (size_t i = 0; i < SHELL_PAST_MAX; i++)
        if (s->past[i] > 0 && kill(s->past[i], 0) < 0)
            (void)kin_signal(s->past[i], 0, 0, signo);
}

/* --- the end of a run --- */

static void shell_note_cwd(struct shell *s)
{
    char link[32], path[EXECD_PATH_BYTES_MAX + 1];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/%d/cwd", (int)s->sid);
    n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0 || (s->cwd && strlen(s->cwd) == (size_t)n && memcmp(s->cwd, path, (size_t)n) == 0))
        return;
    path[n] = '\0';
    free(s->cwd);
    s->cwd = mem_strdup(path);
}

static void shell_finish(struct shell *s)
{
    struct shell_end end = s->end;

    s->busy = s->sent = s->over = false;
    shell_outputs_watch(s);
    if (s->stop != SHELL_STOP_NOT && s->ready)
        shell_sync(s);
    s->conf.owner->on_end(s->conf.user, &end);
}

static void shell_set_end(struct shell *s, const struct proc_exit *how)
{
    bool stopped = s->stop != SHELL_STOP_NOT || s->end.timed_out;
    AUTO_BUF(text, sizeof(s->end.error) - 1);

    s->end.started = true;
    s->end.exit_code = how->by_signal || stopped ? -1 : how->code;
    if (stopped)
        shell_stop_text(s, how, &text);
    else
        exit_text_add(&text, how);
    if (!stopped)
        exit_text_add_memory(&text, &s->conf.place.memory, s->oom_kills, exit_was_killed(how));
    (void)snprintf(s->end.error, sizeof(s->end.error), "%s", text.p);
}

/* `how` is NULL when s->end is already set: the shell could not start. */
void shell_run_over(struct shell *s, const struct proc_exit *how)
{
    if (how)
        shell_set_end(s, how);
    s->over = true;
    loop_timer_stop(s->conf.loop, &s->timeout);
    loop_timer_stop(s->conf.loop, &s->stopping);
    if (shell_is_up(s))
        shell_note_cwd(s);
    (void)!ftruncate(s->code_fd, 0); /* frees memory; on failure the next run does */
    shell_outputs_ignore(s);
    shell_outputs_measure(s);
    if (shell_outputs_deliver(s))
        shell_finish(s);
}

void shell_pause(struct shell *s)
{
    s->paused = true;
    shell_outputs_ignore(s);
}

void shell_resume(struct shell *s)
{
    if (!s->paused)
        return;
    s->paused = false;
    if (!s->over)
        shell_outputs_watch(s);
    else if (shell_outputs_deliver(s))
        shell_finish(s);
}

/* --- the start of a run --- */

static void shell_on_timeout(struct loop_timer *t)
{
    struct shell *s = container_of(t, struct shell, timeout);

    s->end.timed_out = true;
    if (s->sent)
        shell_stop_run(s, true);
    else
        shell_interrupt(s);
}

/* A run whose code was not sent yet ends at once. */
void shell_interrupt(struct shell *s)
{
    static const struct proc_exit interrupted = {.by_signal = true, .code = SIGINT};

    if (!s->busy || s->over)
        return;
    if (s->sent)
        shell_stop_run(s, false);
    else
        shell_run_over(s, &interrupted);
}

int shell_say_code(struct shell *s)
{
    shell_outputs_drop(s);
    s->sent = true;
    s->since_ticks = kin_now_ticks();
    return shell_say(s, 'r', s->nonce);
}

/* The shell cannot be reached any more: it is exiting, or closed its end of the socket. */
static int shell_give_up(struct shell *s, struct err *e)
{
    (void)kill(-s->child.pid, SIGKILL);
    shell_went_down(s);
    loop_timer_stop(s->conf.loop, &s->timeout);
    s->busy = s->sent = false;
    return err_set(e, EPIPE, "the shell is gone");
}

static int write_code(struct shell *s, const struct shell_job *job)
{
    const struct str pieces[] = {
        str_of(s->kind->before_code),
        job->setup,
        s->trace ? STR(SHELL_AS "set -x;") : STR(""),
        job->code,
    };
    off_t at = 0;

    if (ftruncate(s->code_fd, 0) < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        for (struct str left = pieces[i]; left.n > 0;) {
            ssize_t n = pwrite(s->code_fd, left.p, left.n, at);

            if (n <= 0)
                return n < 0 ? -errno : -EIO;
            left = str_skip(left, (size_t)n);
            at += n;
        }
    return 0;
}

int shell_run(struct shell *s, const struct shell_job *job, struct err *e)
{
    int r;

    if (s->busy)
        return err_set(e, EBUSY, "session is busy");
    if (!shell_is_up(s))
        return err_set(e, EPIPE, "the shell is down");
    r = write_code(s, job);
    if (r < 0)
        return err_sys(e, -r, "keep the code");
    s->busy = true;
    s->sent = s->over = false;
    s->stop = SHELL_STOP_NOT;
    s->end = (struct shell_end){0};
    s->timeout_ms = job->timeout_ms;
    s->oom_kills = exit_oom_kills(&s->conf.place.memory);
    id_short(s->nonce, sizeof(s->nonce) - 1);
    if (job->timeout_ms > 0)
        loop_timer_set(s->conf.loop, &s->timeout, deadline_in_ms(job->timeout_ms),
                       shell_on_timeout);
    if (s->ready && !s->syncing && shell_say_code(s) < 0)
        return shell_give_up(s, e);
    return 0;
}
