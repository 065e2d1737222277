#include "execd/code/jupyter/jupyter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/code/jupyter/jupyter_internal.h"
#include "execd/code/jupyter/kernelspec.h"
#include "execd/core/exit_text.h"

enum {
    LAST_WORDS_MS = 100, /* a dead kernel's output may still be in its sockets */
    LOST_MS = 1000,      /* time to exit after it closed a connection */
    LOG_READS_MAX = 64,
};

static struct jupyter *jupyter_of(struct kernel *k)
{
    return container_of(k, struct jupyter, kernel);
}

void jupyter_set_timer(struct jupyter *j, struct loop_timer *t, uint64_t ms,
                       void (*on_due)(struct loop_timer *))
{
    loop_timer_set(j->loop, t, deadline_in_ms(ms), on_due);
}

/* Kills the process itself, too: right after fork it does not lead its group yet. */
static void jupyter_kill(struct jupyter *j)
{
    if (j->child.pid <= 0)
        return;
    (void)kill(-j->child.pid, SIGKILL);
    (void)kill(j->child.pid, SIGKILL);
}

void jupyter_break(struct jupyter *j, const char *why)
{
    if (!j->why[0])
        (void)snprintf(j->why, sizeof(j->why), "%s", why);
    jupyter_kill(j);
}

/* --- output of the kernel process itself --- */

static void log_keep(struct jupyter_log *log, const char *p, size_t n)
{
    size_t fresh = min_size(n, sizeof(log->tail)),
           old = min_size(log->n, sizeof(log->tail) - fresh);

    memmove(log->tail, log->tail + log->n - old, old);
    memcpy(log->tail + old, p + n - fresh, fresh);
    log->n = old + fresh;
}

static bool log_read(struct jupyter *j)
{
    char room[JUPYTER_LOG_BYTES];
    ssize_t n = child_pipe_read(&j->log.pipe, room, sizeof(room));

    if (n > 0)
        log_keep(&j->log, room, (size_t)n);
    return n > 0;
}

static void log_on_ready(struct child_pipe *pipe)
{
    (void)log_read(container_of(container_of(pipe, struct jupyter_log, pipe), struct jupyter, log));
}

/* The last line that is not blank: there most programs say why they end. */
static struct str log_last_line(const struct jupyter_log *log)
{
    struct str rest = str_make(log->tail, log->n), line, last = STR_NONE;

    while (str_cut(&rest, '\n', &line))
        if (str_trim(line).n > 0)
            last = str_trim(line);
    return last;
}

static int log_open(struct jupyter *j, int *ret_end, struct err *e)
{
    int r = child_pipe_open(&j->log.pipe, ret_end, e);

    return r < 0 ? r : child_pipe_watch(&j->log.pipe, e);
}

/* --- ending --- */

static void jupyter_free(struct kernel *k)
{
    struct jupyter *j;

    if (!k)
        return;
    j = jupyter_of(k);
    jupyter_kill(j);
    child_proc_stop(&j->child);
    loop_timer_stop(j->loop, &j->timer);
    loop_timer_stop(j->loop, &j->soon);
    child_pipe_close(&j->log.pipe);
    for (size_t i = 0; i < JUPYTER_CHANNELS; i++)
        zmtp_conn_free(j->conns[i]);
    jupyter_forget_cell(j);
    jupyter_place_remove(&j->place);
    j->owner = NULL;
    if (!j->turn.queued)
        free(j); /* otherwise the task does it */
}

static void jupyter_set_exit(struct jupyter *j, const struct proc_exit *how)
{
    struct str said = j->ready ? STR_NONE : log_last_line(&j->log);
    AUTO_BUF(text, EXIT_TEXT_MAX);

    if (j->why[0])
        return;
    exit_text_add(&text, how);
    (void)snprintf(j->why, sizeof(j->why), "the kernel %s ended: %s%s%.*s", j->name,
                   text.n ? text.p : "exit status 0", said.n ? ": " : "", STR_ARG(said));
}

/* The owner usually frees the kernel from within on_death. */
static void jupyter_tell_death(struct jupyter *j)
{
    loop_timer_stop(j->loop, &j->timer);
    jupyter_give_text(j);
    j->owner->on_death(j->user, j->why);
}

static void jupyter_on_last_words_over(struct loop_timer *t)
{
    jupyter_tell_death(container_of(t, struct jupyter, timer));
}

static void jupyter_on_start(struct child_proc *child, const struct err *why)
{
    if (why)
        jupyter_break(container_of(child, struct jupyter, child), why->msg);
}

/* The kernel's last output may still be in the iopub socket: waits for its end. */
static void jupyter_on_exit(struct child_proc *child, const struct proc_exit *how)
{
    struct jupyter *j = container_of(child, struct jupyter, child);

    for (int i = 0; i < LOG_READS_MAX && log_read(j); i++)
        ;
    jupyter_set_exit(j, how);
    j->reaped = true;
    loop_timer_stop(j->loop, &j->soon);
    jupyter_give_text(j);
    zmtp_conn_pause(j->conns[JUPYTER_IOPUB], false);
    if (zmtp_conn_is_ready(j->conns[JUPYTER_IOPUB]))
        jupyter_set_timer(j, &j->timer, LAST_WORDS_MS, jupyter_on_last_words_over);
    else
        jupyter_tell_death(j);
}

/* --- connections --- */

static void jupyter_on_lost(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, timer);
    char why[JUPYTER_WHY_MAX];

    (void)snprintf(why, sizeof(why), "the kernel %s was lost: %s", j->name, j->lost);
    jupyter_break(j, why);
}

static void jupyter_on_close(void *user, struct zmtp_conn *c, const char *why)
{
    struct jupyter *j = user;
    size_t i = 0;

    while (i < JUPYTER_CHANNELS && j->conns[i] != c)
        i++;
    (void)snprintf(j->lost, sizeof(j->lost), "%s", why);
    zmtp_conn_free(c);
    if (i < JUPYTER_CHANNELS)
        j->conns[i] = NULL;
    if (j->reaped && i == JUPYTER_IOPUB)
        jupyter_tell_death(j);
    else if (!j->reaped && !j->why[0] && (i == JUPYTER_IOPUB || i == JUPYTER_SHELL))
        jupyter_set_timer(j, &j->timer, LOST_MS, jupyter_on_lost);
}

static const struct zmtp_conn_ops jupyter_conn_ops = {
    .on_ready = jupyter_on_ready,
    .on_message = jupyter_on_message,
    .on_close = jupyter_on_close,
};

/* Skips the heartbeat: the exit of a child process says as much. */
static void jupyter_connect(struct jupyter *j)
{
    for (size_t i = 0; i < JUPYTER_HEARTBEAT; i++) {
        struct zmtp_conn_conf conf = {
            .socket_type = i == JUPYTER_IOPUB ? "SUB" : "DEALER",
            .identity = i == JUPYTER_IOPUB ? "" : j->session.id, /* shared, for input_request */
            .ops = &jupyter_conn_ops,
            .user = j,
        };
        struct sock_addr to;

        jupyter_place_addr(&j->place, (enum jupyter_channel)i, &to);
        j->conns[i] = zmtp_conn_new(j->loop, &to, &conf);
    }
}

/* --- start --- */

static void jupyter_on_late_start(struct loop_timer *t)
{
    struct jupyter *j = container_of(t, struct jupyter, timer);
    char why[JUPYTER_WHY_MAX];
    struct str said = log_last_line(&j->log);

    (void)snprintf(why, sizeof(why), "the kernel %s did not answer within %d s%s%.*s", j->name,
                   JUPYTER_START_MS_MAX / 1000, said.n ? ": " : "", STR_ARG(said));
    jupyter_break(j, why);
}

struct jupyter_start {
    const struct kernel_conf *conf;
    const char *name;
};

static int child_prepare(void *user, struct proc_step *ret_step)
{
    const struct jupyter_start *start = user;
    struct child_user same = {.change = false};

    return child_settle(&start->conf->place, &same, start->conf->cwd, start->name, ret_step);
}

static const struct child_proc_ops jupyter_child_ops = {
    .name = "a kernel",
    .on_start = jupyter_on_start,
    .on_exit = jupyter_on_exit,
};

static int jupyter_spawn(struct jupyter *j, const struct kernel_conf *conf, const char *program,
                         const char *const *argv, const char *const *env, struct err *e)
{
    struct jupyter_start start = {conf, j->name};
    struct proc_spec how = PROC_SPEC(program, argv);
    auto_fd log = -EBADF;
    int r = log_open(j, &log, e);

    if (r < 0)
        return r;
    how.env = env;
    how.stdio[1] = log;
    how.stdio[2] = log;
    how.flags = PROC_NEW_SESSION;
    how.groups = &conf->place.groups;
    how.prepare = child_prepare;
    how.user = &start;
    return child_proc_start(&j->child, j->loop, conf->reaper, &how, &jupyter_child_ops, e);
}

/* ipykernel and kernels based on it use a ZeroMQ that supports unix sockets (ipc). */
static bool knows_ipc(const struct kernelspec *spec)
{
    for (size_t i = 0; i < spec->argv_count; i++)
        if (str_starts(spec->argv[i], STR("ipykernel")))
            return true;
    return false;
}

static int jupyter_launch(struct jupyter *j, const struct kernel_conf *conf,
                          const struct kernelspec *spec, struct arena *a, struct err *e)
{
    const char *const *env, *const *argv;
    const char *program;
    char file[JUPYTER_FILE_MAX];
    int r = jupyter_place_make(&j->place, conf->env, knows_ipc(spec), &conf->place.user,
                               &j->session, spec->name, e);

    if (r < 0)
        return r;
    jupyter_place_file(&j->place, file);
    r = kernelspec_command(a, spec, conf->env, file, &program, &argv, e);
    if (r < 0)
        return r;
    r = kernelspec_env(a, spec, conf->env, &env);
    if (r < 0)
        return err_set(e, -r, "no memory for the kernel's environment");
    return jupyter_spawn(j, conf, program, argv, env, e);
}

static struct jupyter *jupyter_new(const struct kernel_conf *conf, const struct kernelspec *spec)
{
    struct jupyter *j = mem_new(struct jupyter);

    j->kernel = (struct kernel){&kernel_jupyter, j->name};
    j->loop = conf->loop;
    j->owner = conf->owner;
    j->user = conf->user;
    child_pipe_init(&j->log.pipe, j->loop, log_on_ready);
    j->interrupt_by_message = spec->interrupt_by_message;
    buf_init(&j->request, JUPYTER_REQUEST_BYTES_MAX);
    arena_init(&j->reply.arena, 0);
    arena_init(&j->text.arena, 0);
    jupyter_session_init(&j->session);
    (void)snprintf(j->name, sizeof(j->name), "jupyter:%s", spec->name);
    return j;
}

static int jupyter_start(const struct kernel_conf *conf, struct str language, struct kernel **ret,
                         struct err *e)
{
    AUTO_ARENA(a, KERNELSPEC_ARENA_BYTES_MAX);
    const struct kernelspec *spec;
    struct jupyter *j;
    int r = kernelspec_find(&a, conf->env, language, conf->spec, &spec, e);

    if (r < 0)
        return r;
    j = jupyter_new(conf, spec);
    r = jupyter_launch(j, conf, spec, &a, e);
    if (r < 0) {
        jupyter_free(&j->kernel);
        return r;
    }
    jupyter_connect(j);
    jupyter_set_timer(j, &j->timer, JUPYTER_START_MS_MAX, jupyter_on_late_start);
    *ret = &j->kernel;
    return 0;
}

/* --- kernel_ops --- */

/* Callbacks that a call requested but must not make from within. */
static void jupyter_on_turn(struct loop_task *t)
{
    struct jupyter *j = container_of(t, struct jupyter, turn);

    if (!j->owner) {
        free(j);
        return;
    }
    if (j->busy && j->interrupted && j->request.n > 0)
        jupyter_cancel(j);
    if (j->paused || j->reaped)
        return;
    jupyter_give_text(j);
    if (j->text.left.n == 0)
        zmtp_conn_pause(j->conns[JUPYTER_IOPUB], false);
}

static int jupyter_on_interrupt(struct kernel *k)
{
    struct jupyter *j = jupyter_of(k);

    if (!j->busy)
        return 0;
    j->interrupted = true;
    if (j->request.n > 0)
        loop_defer(j->loop, &j->turn, jupyter_on_turn);
    else
        jupyter_interrupt(j);
    return 0;
}

static void jupyter_pause(struct kernel *k, bool on)
{
    struct jupyter *j = jupyter_of(k);

    if (j->paused == on)
        return;
    j->paused = on;
    if (j->reaped)
        return; /* its last output is passed on in any case */
    if (on)
        zmtp_conn_pause(j->conns[JUPYTER_IOPUB], true);
    else
        loop_defer(j->loop, &j->turn, jupyter_on_turn);
}

const struct kernel_ops kernel_jupyter = {
    .start = jupyter_start,
    .run = jupyter_run,
    .interrupt = jupyter_on_interrupt,
    .pause = jupyter_pause,
    .free = jupyter_free,
    .grace_ms = KERNEL_GRACE_MS,
};
