/* isolated_run.c - POST .../run: runs code in the session's shell (shell.h) and streams its events.
 *
 * The first run starts the shell. A shell that ended, because its code called exit, is started
 * again. When a client disconnects, its run is interrupted: no other client could do that, and the
 * next run would have to wait for it. */
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "execd/core/answer.h"
#include "execd/core/events.h"
#include "execd/core/exec_stream.h"
#include "execd/core/path.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_api_internal.h"
#include "execd/isolated/isolated_request.h"
#include "execd/shell/shell.h"
#include "execd/shell/shell_script.h"

enum {
    REQUEST_ARENA_BYTES_MAX = 32 << 20,
    SETUP_BYTES_MAX = 16 << 20, /* a quote in a value takes four bytes */
};

struct isolated_run {
    struct isolated *session;
    struct exec_stream *stream; /* NULL: the client disconnected */
    char id[ID_REQUEST_MAX];
    int64_t started_us;
};

/* --- ending --- */

static void run_finish(struct isolated *s, bool started, int exit_code, const char *error)
{
    struct isolated_run *run = s->run;
    struct event_run facts = {run->id, exit_code, run->started_us, time_wall_us()};

    s->run = NULL;
    s->touched_ns = time_mono_ns();
    if (run->stream)
        exec_stream_end(run->stream, &(struct exec_end){error, started, exit_code, &facts});
    free(run);
}

void isolated_shell_free(struct isolated *s)
{
    char why[ISOLATED_WHY_MAX], text[ISOLATED_WHY_MAX + 32];
    bool outgrown = isolated_why_ended(s, why) != NULL;

    (void)snprintf(text, sizeof(text), "%s%ssignal: killed", outgrown ? why : "",
                   outgrown ? ": " : "");
    if (s->run)
        run_finish(s, true, -1, text);
    shell_free(s->shell);
    s->shell = NULL;
    free(s->lent);
    s->lent = NULL;
}

/* --- the shell --- */

static bool shell_on_output(void *user, enum shell_stream from, struct str data)
{
    struct isolated *s = user;

    return !s->run || !s->run->stream ||
           exec_stream_output(s->run->stream, from == SHELL_STDERR ? EXEC_STDERR : EXEC_STDOUT,
                              data);
}

static void shell_on_end(void *user, const struct shell_end *end)
{
    run_finish(user, end->started, end->exit_code, end->error);
}

static const struct shell_owner shell_owner_ops = {
    .on_output = shell_on_output,
    .on_end = shell_on_end,
};

static int shell_need(struct isolated *s, const char *const *env, bool *ret_new, struct err *e)
{
    struct shell_conf conf = {
        .loop = isolated_loop(s->all),
        .reaper = isolated_reaper(s->all),
        .place = s->place,
        .cwd = s->spec.workspace,
        .owner = &shell_owner_ops,
        .user = s,
    };
    int r = s->shell ? 0 : shell_new(&conf, &s->shell, e);

    *ret_new = r >= 0 && !shell_is_up(s->shell);
    return r < 0 || !*ret_new ? r : shell_start(s->shell, env, NULL, e);
}

/* --- setup before the code --- */

/* Variables of the previous run applied only to that run: restores their earlier values. */
static int setup_take_back(struct buf *out, const char *lent, const char *const *env)
{
    struct str rest = str_of(lent), name;
    int r = 0;

    while (r >= 0 && str_cut(&rest, ' ', &name)) {
        struct json_pair had = {name, path_env(env, name)};

        r = had.value.p ? shell_setup(out, NULL, &had, 1)
                        : buf_addf(out, SHELL_AS "unset %.*s;", STR_ARG(name));
    }
    return r;
}

static char *names_of(const struct json_pair *envs, size_t count)
{
    AUTO_BUF(names, SETUP_BYTES_MAX);

    for (size_t i = 0; i < count; i++)
        if (buf_addf(&names, "%s%.*s", i ? " " : "", STR_ARG(envs[i].key)) < 0)
            return NULL;
    return buf_take(&names);
}

static int setup_make(struct isolated *s, const struct isolated_job *want, bool is_new,
                      struct buf *out, struct err *e)
{
    const char *cwd = want->cwd ? want->cwd : is_new ? s->spec.workspace : NULL;
    int r = s->lent && !is_new ? setup_take_back(out, s->lent, want->env) : 0;

    if (r >= 0)
        r = shell_setup(out, cwd, want->envs, want->envs_count);
    if (r < 0)
        return err_sys(e, -r, "envs");
    free(s->lent);
    s->lent = want->envs_count > 0 ? names_of(want->envs, want->envs_count) : NULL;
    return 0;
}

/* --- the request --- */

static void stream_on_room(void *user)
{
    shell_resume(((struct isolated_run *)user)->session->shell);
}

static void stream_on_close(void *user)
{
    struct isolated_run *run = user;
    struct isolated *s = run->session;

    run->stream = NULL;
    shell_interrupt(s->shell); /* the run may have ended by now */
    shell_resume(s->shell);    /* its output is discarded from now on */
}

static const struct exec_stream_ops stream_ops = {
    .on_room = stream_on_room,
    .on_close = stream_on_close,
};

/* Begins the stream first, so that any later error is its last event. */
static void run_begin(struct http_req *req, struct isolated *s, const struct isolated_job *want)
{
    struct isolated_run *run = mem_new(struct isolated_run);
    AUTO_BUF(setup, SETUP_BYTES_MAX);
    struct err e = {0};
    bool is_new;
    int r;

    run->session = s;
    run->started_us = s->last_run_us = time_wall_us();
    id_request(run->id);
    s->run = run;
    run->stream = exec_stream_begin(req, run->id, &stream_ops, run);
    r = shell_need(s, want->env, &is_new, &e);
    if (r >= 0)
        r = setup_make(s, want, is_new, &setup, &e);
    if (r >= 0)
        r = shell_run(s->shell, &(struct shell_job){buf_str(&setup), want->code, want->timeout_ms},
                      &e);
    if (r < 0)
        run_finish(s, false, SHELL_CANNOT_START, e.msg);
}

void post_isolated_run(struct http_req *req)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    struct isolated *s = isolated_need_living(req);
    struct isolated_job want;

    if (!s || isolated_request_run(req, &arena, s, &want) < 0)
        return;
    if (want.background)
        isolated_run_background(req, &arena, s, &want);
    else if (s->run)
        answer_error(req, 409, "SESSION_BUSY", "isolated session %s runs something already", s->id);
    else
        run_begin(req, s, &want);
}
