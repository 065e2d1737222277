#include "execd/shell/session.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/trace.h"
#include "execd/core/envs.h"
#include "execd/metrics/telemetry.h"

enum { ENV_ARENA_BYTES_MAX = 16 << 20 };

struct sessions {
    struct loop *loop;
    struct reaper *reaper;
    struct child_place place;
    struct map by_id;
    size_t waiting_bytes;
    struct telemetry *telemetry; /* NULL = none */
};

struct session {
    char id[ID_UUID_MAX];
    struct sessions *all;
    struct shell *shell;
    struct session_run *current; /* NULL: nothing runs, or its callbacks were dropped */
    struct list waiting;         /* of struct session_run */
    size_t waiting_count;
    struct list waits; /* of struct session_wait */
    uint64_t begin_ns; /* of the current run */
    struct trace_span span;
};

/* --- the table --- */

void sessions_new(struct loop *loop, struct reaper *reaper, const struct child_place *place,
                  struct sessions **ret)
{
    struct sessions *all = mem_new(struct sessions);

    all->loop = loop;
    all->reaper = reaper;
    all->place = *place;
    map_init(&all->by_id, SESSIONS_MAX, NULL);
    *ret = all;
}

void sessions_free(struct sessions *all)
{
    void *value;
    size_t next = 0;

    if (!all)
        return;
    while (map_next(&all->by_id, &next, NULL, &value)) {
        struct session *s = value;

        shell_free(s->shell);
        free(s);
    }
    map_done(&all->by_id);
    free(all);
}

void sessions_signal(struct sessions *all, int signo)
{
    void *value;
    size_t next = 0;

    while (map_next(&all->by_id, &next, NULL, &value))
        shell_signal(((struct session *)value)->shell, signo);
}

void sessions_observe(struct sessions *all, struct telemetry *t)
{
    all->telemetry = t;
}

struct session *sessions_find(const struct sessions *all, struct str id)
{
    return map_get(&all->by_id, id);
}

const char *session_id(const struct session *s)
{
    return s->id;
}

/* --- runs --- */

static void run_tell_end(struct session_run *run, const struct shell_end *end)
{
    run->session = NULL;
    run->ops->on_end(run->user, end);
}

static void session_count(const struct session *s, const struct shell_end *end)
{
    telemetry_executed(s->all->telemetry, TELEMETRY_RUN_IN_SESSION, end->error[0] == '\0',
                       loop_now_ns(s->all->loop) - s->begin_ns, &s->span);
}

static void session_done_waiting(struct session *s)
{
    LIST_EACH(&s->waits, at)
    {
        list_remove(at);
        container_of(at, struct session_wait, link)
            ->on_done(container_of(at, struct session_wait, link));
    }
}

/* In the environment that a command started now would get. */
static int session_start_shell(struct session *s, struct err *e)
{
    const char *const *ours = (const char *const *)environ, *const * env;
    AUTO_ARENA(arena, ENV_ARENA_BYTES_MAX);
    AUTO_BUF(file, ENVS_FILES_BYTES_MAX);

    envs_read_file(ours, &file);
    if (envs_make(&arena, ours, buf_str(&file), NULL, 0, &env) < 0)
        return err_set(e, ENOMEM, "no memory for the environment of a shell");
    return shell_start(s->shell, env, NULL, e);
}

/* If the shell turns out to be gone, restarts it once. */
static int session_give(struct session *s, const struct shell_job *job, struct err *e)
{
    int r = -EPIPE;

    for (int tries = 0; tries < 2 && r == -EPIPE; tries++) {
        r = shell_is_up(s->shell) ? 0 : session_start_shell(s, e);
        if (r >= 0)
            r = shell_run(s->shell, job, e);
    }
    return r;
}

static void session_begin(struct session *s, struct session_run *run, const struct shell_job *job)
{
    struct shell_end end = {.exit_code = SHELL_CANNOT_START};
    struct err e = {0};

    s->current = run;
    s->begin_ns = loop_now_ns(s->all->loop);
    s->span = trace_begin(trace_current());
    if (session_give(s, job, &e) >= 0)
        return;
    s->current = NULL;
    (void)snprintf(end.error, sizeof(end.error), "%s", e.msg);
    session_count(s, &end);
    run_tell_end(run, &end);
}

static void run_leave_queue(struct session *s, struct session_run *run)
{
    list_remove(&run->link);
    s->waiting_count--;
    s->all->waiting_bytes -= run->setup_bytes + run->code_bytes;
}

static void session_next(struct session *s)
{
    while (!shell_is_busy(s->shell) && !list_empty(&s->waiting)) {
        struct session_run *run = container_of(s->waiting.next, struct session_run, link);
        auto_free char *text = run->text;
        struct shell_job job = {
            .setup = str_make(text, run->setup_bytes),
            .code = str_make(text + run->setup_bytes, run->code_bytes),
            .timeout_ms = run->timeout_ms,
        };

        run_leave_queue(s, run);
        run->text = NULL;
        session_begin(s, run, &job);
    }
}

int session_check_room(const struct session *s, const struct shell_job *job, struct err *e)
{
    if (!shell_is_busy(s->shell))
        return 0;
    if (s->waiting_count >= SESSION_WAITING_MAX)
        return err_set(e, EAGAIN, "session is busy, and %d runs wait already", SESSION_WAITING_MAX);
    if (job->setup.n + job->code.n > SESSIONS_WAITING_BYTES_MAX - s->all->waiting_bytes)
        return err_set(e, EAGAIN, "session is busy, and too much code waits already");
    return 0;
}

static int session_wait_turn(struct session *s, struct session_run *run,
                             const struct shell_job *job, struct err *e)
{
    size_t bytes = job->setup.n + job->code.n;

    run->text = mem_try_realloc(NULL, bytes + 1);
    if (!run->text)
        return err_set(e, ENOMEM, "no memory for a run that waits");
    (void)memcpy(run->text, job->setup.p ? job->setup.p : "", job->setup.n);
    (void)memcpy(run->text + job->setup.n, job->code.p, job->code.n);
    run->setup_bytes = job->setup.n;
    run->code_bytes = job->code.n;
    run->timeout_ms = job->timeout_ms;
    list_push(&s->waiting, &run->link);
    s->waiting_count++;
    s->all->waiting_bytes += bytes;
    return 0;
}

int session_run(struct session *s, struct session_run *run, const struct shell_job *job,
                const struct session_ops *ops, void *user, struct err *e)
{
    int r;

    *run = (struct session_run){.session = s, .ops = ops, .user = user};
    list_init(&run->link);
    if (!shell_is_busy(s->shell)) {
        session_begin(s, run, job);
        return 0;
    }
    r = session_wait_turn(s, run, job, e);
    if (r < 0)
        run->session = NULL;
    return r;
}

void session_run_resume(struct session_run *run)
{
    if (run->session && run->session->current == run)
        shell_resume(run->session->shell);
}

void session_run_forget(struct session_run *run)
{
    struct session *s = run->session;

    if (!s)
        return;
    if (s->current == run) {
        s->current = NULL;
        shell_interrupt(s->shell);
        shell_resume(s->shell);
    } else {
        run_leave_queue(s, run);
        free(run->text);
    }
    run->session = NULL;
}

bool session_interrupt(struct session *s, struct session_wait *w)
{
    if (!shell_is_busy(s->shell))
        return false;
    list_push(&s->waits, &w->link);
    shell_interrupt(s->shell);
    return true;
}

/* --- callbacks of the shell --- */

static bool session_on_output(void *user, enum shell_stream from, struct str data)
{
    struct session_run *run = ((struct session *)user)->current;

    return !run || run->ops->on_output(run->user, from, data);
}

static void session_on_end(void *user, const struct shell_end *end)
{
    struct session *s = user;
    struct session_run *run = s->current;

    s->current = NULL;
    session_count(s, end);
    if (run)
        run_tell_end(run, end);
    session_done_waiting(s);
    session_next(s);
}

static const struct shell_owner session_owner = {
    .on_output = session_on_output,
    .on_end = session_on_end,
};

/* --- making and freeing --- */

int session_new(struct sessions *all, const char *cwd, struct session **ret, struct err *e)
{
    struct shell_conf conf = {
        .loop = all->loop,
        .reaper = all->reaper,
        .place = all->place,
        .cwd = cwd,
        .owner = &session_owner,
    };
    struct session *s;
    int r;

    if (all->by_id.n >= SESSIONS_MAX)
        return err_set(e, EAGAIN, "there are %d sessions already; delete one", SESSIONS_MAX);
    s = mem_new(struct session);
    s->all = all;
    list_init(&s->waiting);
    list_init(&s->waits);
    id_uuid(s->id);
    conf.user = s;
    r = shell_new(&conf, &s->shell, e);
    if (r >= 0 && map_add(&all->by_id, str_of(s->id), s) < 0)
        r = err_set(e, ENOMEM, "no memory for another session");
    if (r < 0) {
        shell_free(s->shell);
        free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void session_free(struct session *s)
{
    static const struct shell_end killed = {
        .exit_code = -1, .started = true, .died = true, .error = "signal: killed"};
    struct session_run *run = s->current;

    (void)map_take(&s->all->by_id, str_of(s->id));
    if (shell_is_busy(s->shell))
        session_count(s, &killed);
    shell_free(s->shell);
    s->current = NULL;
    if (run)
        run_tell_end(run, &killed);
    LIST_EACH(&s->waiting, at)
    {
        run = container_of(at, struct session_run, link);
        run_leave_queue(s, run);
        free(run->text);
        run_tell_end(run, &killed);
    }
    session_done_waiting(s);
    free(s);
}
