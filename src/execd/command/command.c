#include "execd/command/command.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "execd/command/command_internal.h"
#include "execd/core/duration.h"
#include "execd/core/exit_text.h"
#include "execd/metrics/telemetry.h"

enum { NS_PER_US = 1000 };

/* --- the table --- */

void commands_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct commands **ret)
{
    struct commands *all = mem_new(struct commands);

    all->loop = loop;
    all->reaper = reaper;
    all->place = *place;
    map_init(&all->by_id, COMMANDS_RUNNING_MAX + COMMANDS_KEPT_MAX + 1, NULL);
    list_init(&all->ended);
    list_init(&all->runs);
    list_init(&all->leftovers);
    *ret = all;
}

struct command *commands_find(const struct commands *all, struct str id)
{
    return map_get(&all->by_id, id);
}

size_t commands_running(const struct commands *all)
{
    return all->running;
}

size_t commands_count(const struct commands *all)
{
    return all->by_id.n;
}

/* Frees a record but not its pipes, which outlive it. */
static void command_free(struct command *c)
{
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        if (c->pipes[i])
            c->pipes[i]->command = NULL;
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        command_log_close(&c->logs[i]);
    free(c->text);
    free(c->error);
    free(c);
}

static void command_drop(struct command *c)
{
    struct commands *all = c->all;

    all->text_bytes -= c->text_bytes;
    all->ended_count--;
    list_remove(&c->link);
    (void)map_take(&all->by_id, str_of(c->id));
    command_free(c);
}

/* Closes the oldest logs of ended commands when they are too many or too large in total. */
static void commands_prune_logs(struct commands *all)
{
    uint64_t bytes = 0;
    size_t count = 0;

    for (struct list *at = all->ended.prev; at != &all->ended; at = at->prev) {
        struct command *c = container_of(at, struct command, link);

        for (size_t i = 0; i < COMMAND_STREAMS; i++) {
            count += c->logs[i].fd >= 0;
            bytes += command_log_bytes(&c->logs[i]);
            if (count > COMMAND_LOGS_MAX || bytes > COMMAND_LOGS_BYTES_MAX)
                command_log_close(&c->logs[i]);
        }
    }
}

static void commands_prune(struct commands *all)
{
    LIST_EACH(&all->ended, at)
    {
        if (all->ended_count <= COMMANDS_KEPT_MAX &&
            (all->text_bytes <= COMMANDS_TEXT_BYTES_MAX || all->ended_count == 1))
            break;
        command_drop(container_of(at, struct command, link));
    }
    commands_prune_logs(all);
}

static void make_id(char out[COMMAND_ID_MAX])
{
    char uuid[ID_UUID_MAX];
    size_t n = 0;

    id_uuid(uuid);
    for (const char *p = uuid; *p; p++)
        if (*p != '-')
            out[n++] = *p;
    out[n] = '\0';
}

int commands_hold(struct commands *all, size_t bytes, struct err *e)
{
    if (bytes > COMMANDS_HELD_BYTES_MAX - all->held_bytes)
        return err_set(e, EAGAIN,
                       "running commands hold %zu of %d bytes of memory for their texts and for "
                       "input that they did not read: wait until one ends",
                       all->held_bytes, COMMANDS_HELD_BYTES_MAX);
    all->held_bytes += bytes;
    return 0;
}

int command_new(struct commands *all, struct str text, bool background, struct command **ret,
                struct err *e)
{
    struct command *c;
    int r;

    if (all->running >= COMMANDS_RUNNING_MAX)
        return err_set(e, EAGAIN, "%d commands run already", COMMANDS_RUNNING_MAX);
    r = commands_hold(all, text.n, e);
    if (r < 0)
        return r;
    c = mem_new(struct command);
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        c->logs[i] = COMMAND_LOG_NONE(COMMAND_LOG_BYTES_MAX);
    c->all = all;
    c->background = background;
    c->running = true;
    c->started_us = time_wall_us();
    c->span = trace_begin(trace_current());
    make_id(c->id);
    list_init(&c->link);
    c->text = mem_try_realloc(NULL, text.n + 1);
    if (!c->text || map_add(&all->by_id, str_of(c->id), c) < 0) {
        command_free(c);
        all->held_bytes -= text.n;
        return err_set(e, ENOMEM, "no memory for another command");
    }
    memcpy(c->text, text.p, text.n);
    c->text[text.n] = '\0';
    c->text_bytes = text.n;
    all->running++;
    *ret = c;
    return 0;
}

/* --- the end --- */

/* Sets the exit code and error text for status, final event and log. */
static void command_set_exit(struct command *c, const struct run *run, const struct proc_exit *how)
{
    AUTO_BUF(text, 256);

    if (how->by_signal && run->timed_out)
        (void)buf_addf(&text, "timeout after %s: ", duration_text_of_ms(run->timeout_ms).s);
    exit_text_add(&text, how);
    if (!run->timed_out)
        exit_text_add_memory(&text, &c->all->place.memory, run->oom_kills, exit_was_killed(how));
    c->exit_code = how->by_signal ? -1 : how->code;
    c->error = text.n ? mem_strdup(text.p) : NULL;
    c->running = false;
    c->ended_us = time_wall_us();
}

static void run_free(struct run *run)
{
    struct loop *loop = run->command->all->loop;

    run_input_close(run);
    child_proc_stop(&run->child);
    loop_timer_stop(loop, &run->timeout);
    list_remove(&run->link);
    run->command->run = NULL;
    free(run);
}

static void command_count(const struct command *c)
{
    int64_t us = c->ended_us - c->started_us;

    telemetry_executed(c->all->telemetry, TELEMETRY_RUN_COMMAND, !c->error,
                       us > 0 ? (uint64_t)us * NS_PER_US : 0, /* the clock may be set back */
                       &c->span);
}

/* Moves the record to the ended ones; pruning may free it. */
static void command_ended(struct command *c)
{
    struct commands *all = c->all;
    struct run *run = c->run;
    const struct command_ops *ops = run->ops;
    void *user = run->user;

    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        if (c->pipes[i])
            command_pipe_leave_over(c->pipes[i]);
    run_free(run);
    all->running--;
    all->held_bytes -= c->text_bytes;
    command_count(c);
    if (ops)
        ops->on_end(user, c);
    command_log_spare(&c->logs[COMMAND_STDOUT]);
    list_push(&all->ended, &c->link);
    all->ended_count++;
    all->text_bytes += c->text_bytes;
    commands_prune(all);
}

static void command_failed(struct command *c, const struct err *why)
{
    c->exit_code = COMMAND_CANNOT_START;
    c->error = mem_strdup(why->msg);
    c->running = false;
    c->ended_us = time_wall_us();
    command_ended(c);
}

/* --- while it runs --- */

/* Delivers what was in the pipes when the leader ended, at the pace of the follower. */
static void run_advance(struct run *run)
{
    struct command *c = run->command;

    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        while (c->pipes[i] && c->pipes[i]->pipe.due > 0 && !run->paused)
            if (!command_pipe_read(c->pipes[i]))
                break;
    if (!run->paused)
        command_ended(c);
}

static void run_on_start(struct child_proc *child, const struct err *why)
{
    struct run *run = container_of(child, struct run, child);
    struct command *c = run->command;

    if (why) {
        command_failed(c, why);
        return;
    }
    c->started = true;
    if (run->ops)
        run->ops->on_start(run->user, c);
}

static void run_on_exit(struct child_proc *child, const struct proc_exit *how)
{
    struct run *run = container_of(child, struct run, child);
    struct command *c = run->command;

    run->reaped = true;
    run_input_close(run);
    command_set_exit(c, run, how);
    loop_timer_stop(c->all->loop, &run->timeout);
    for (size_t i = 0; i < COMMAND_STREAMS; i++) {
        if (!c->pipes[i])
            continue;
        child_pipe_ignore(&c->pipes[i]->pipe); /* from here on, only run_advance reads */
        child_pipe_count(&c->pipes[i]->pipe);
    }
    run_advance(run);
}

static void run_on_timeout(struct loop_timer *t)
{
    struct run *run = container_of(t, struct run, timeout);

    run->timed_out = true;
    (void)kill(-run->child.pid, SIGKILL); /* not reaped yet, so its pid still names its group */
}

void command_resume(struct command *c)
{
    struct run *run = c->run;

    if (!run || !run->paused)
        return;
    run->paused = false;
    if (run->reaped) {
        run_advance(run);
        return;
    }
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        if (c->pipes[i])
            command_pipe_watch_or_free(c->pipes[i]);
}

bool command_has_output(const struct command *c, enum command_stream from)
{
    return c->pipes[from] && child_pipe_holds(&c->pipes[from]->pipe) > 0;
}

void command_forget(struct command *c)
{
    if (!c->run)
        return;
    c->run->ops = NULL;
    command_resume(c);
}

pid_t command_group(const struct command *c)
{
    return c->run ? c->run->child.pid : 0;
}

int command_kill_signal(const struct command *c)
{
    return c->session[0] ? CHILD_KILL_GROUP : SIGKILL;
}

/* --- the start --- */

static int child_prepare(void *user, struct proc_step *ret_step)
{
    const struct command_start *start = user;

    return child_settle(start->place, &start->spec->user, start->spec->cwd, start->spec->shell,
                        ret_step);
}

static const struct child_proc_ops run_child_ops = {
    .name = "a command",
    .on_start = run_on_start,
    .on_exit = run_on_exit,
};

static int command_spawn(struct command *c, const struct command_spec *spec, struct run *run,
                         struct err *e)
{
    const char *slash = strrchr(spec->shell, '/');
    const char *argv[] = {slash ? slash + 1 : spec->shell, "-c", c->text, NULL};
    struct command_start start = {spec->place ? spec->place : &c->all->place, spec};
    struct proc_spec how = PROC_SPEC(spec->shell, spec->argv ? spec->argv : argv);
    auto_fd in = -EBADF, out = -EBADF, err = -EBADF;
    int r = run_input_open(run, spec, &in, e);

    if (r >= 0)
        r = command_pipe_open(c, COMMAND_STDOUT, &out, e);
    if (r >= 0 && !c->background)
        r = command_pipe_open(c, COMMAND_STDERR, &err, e);
    if (r < 0)
        return r;
    how.env = spec->env;
    how.stdio[0] = in;
    how.stdio[1] = out;
    how.stdio[2] = c->background ? out : err;
    how.flags = PROC_NEW_GROUP;
    how.groups = &start.place->groups;
    how.prepare = child_prepare;
    how.user = &start;
    r = child_proc_start(&run->child, c->all->loop, c->all->reaper, &how, &run_child_ops, e);
    if (r < 0)
        return r;
    command_log_open(&c->logs[COMMAND_STDOUT]); /* the child needs another millisecond anyway */
    return 0;
}

void command_run(struct command *c, const struct command_spec *spec, const struct command_ops *ops,
                 void *user)
{
    struct loop *loop = c->all->loop;
    struct run *run = mem_new(struct run);
    struct err e = {0};
    int r;

    *run = (struct run){.command = c, .ops = ops, .user = user, .timeout_ms = spec->timeout_ms};
    run->input.fd = -EBADF;
    run->oom_kills = exit_oom_kills(&c->all->place.memory);
    (void)snprintf(c->session, sizeof(c->session), "%s", spec->session ? spec->session : "");
    list_push(&c->all->runs, &run->link);
    c->run = run;
    r = command_spawn(c, spec, run, &e);
    if (r < 0)
        command_failed(c, &e);
    else if (spec->timeout_ms > 0)
        loop_timer_set(loop, &run->timeout, deadline_in_ms(spec->timeout_ms), run_on_timeout);
}

/* --- all commands --- */

void commands_observe(struct commands *all, struct telemetry *t)
{
    all->telemetry = t;
}

void commands_signal(struct commands *all, int signo)
{
    LIST_EACH(&all->runs, at)
    {
        pid_t pid = container_of(at, struct run, link)->child.pid;

        if (pid > 0)
            (void)kill(-pid, signo);
    }
}

void commands_free(struct commands *all)
{
    void *value;
    size_t next = 0;

    if (!all)
        return;
    commands_signal(all, SIGKILL);
    while (map_next(&all->by_id, &next, NULL, &value)) {
        struct command *c = value;

        if (c->run)
            run_free(c->run);
        for (size_t i = 0; i < COMMAND_STREAMS; i++)
            if (c->pipes[i])
                command_pipe_free(c->pipes[i]);
        command_free(c);
    }
    LIST_EACH(&all->leftovers, at)
    command_pipe_free(container_of(at, struct command_pipe, link));
    map_done(&all->by_id);
    free(all);
}

bool command_find_program(struct str path, const char *name, struct buf *out)
{
    struct str dir;
    size_t start = out->n;

    while (str_cut(&path, ':', &dir)) {
        buf_cut(out, start);
        if (buf_addf(out, "%.*s/%s", dir.n ? str_arg_n(dir) : 1, dir.n ? dir.p : ".", name) == 0 &&
            access(out->p + start, X_OK) == 0)
            return true;
    }
    buf_cut(out, start);
    return false;
}
