/* isolated_background.c - background runs of a session: starts them, reports status and logs.
 *
 * A background run is a command (command.h) in the session's box, without the state of the
 * session's shell. Its record is that of a command, and the routes of commands can interrupt it.
 * While one runs, the session neither becomes idle nor can be committed. When the session ends, the
 * run is killed, too. */
#include <errno.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/url.h"
#include "execd/command/command_api.h"
#include "execd/command/command_request.h"
#include "execd/core/answer.h"
#include "execd/core/envs.h"
#include "execd/core/routes.h"
#include "execd/isolated/isolated_api.h"
#include "execd/isolated/isolated_api_internal.h"

enum { ANSWER_BYTES_MAX = 64 << 10 };

static struct commands *commands_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->commands;
}

/* --- start --- */

static void background_on_start(void *user UNUSED, struct command *c UNUSED)
{
}

static void background_on_end(void *user, const struct command *c UNUSED)
{
    isolated_release(user);
}

static const struct command_ops background_ops = {
    .on_start = background_on_start,
    .on_end = background_on_end,
};

static int spec_make(struct arena *a, const struct isolated *s, const struct isolated_job *want,
                     struct command_spec *ret, struct err *e)
{
    int r;

    *ret = (struct command_spec){
        .cwd = want->cwd ? want->cwd : s->spec.workspace,
        .place = &s->place,
        .session = s->id,
    };
    r = envs_make(a, want->env, STR_NONE, want->envs, want->envs_count, &ret->env);
    return r < 0 ? err_sys(e, -r, "environment") : command_find_shell(a, want->env, &ret->shell, e);
}

static void write_ids(struct json_writer *w, const char *session, const char *run)
{
    json_write_object(w);
    json_member_string(w, STR("session_id"), str_of(session));
    json_member_string(w, STR("run_id"), str_of(run));
}

void isolated_run_background(struct http_req *req, struct arena *a, struct isolated *s,
                             const struct isolated_job *want)
{
    AUTO_BUF(body, ANSWER_BYTES_MAX);
    struct command_spec spec;
    struct json_writer w;
    struct command *c;
    struct err e = {0};

    if (spec_make(a, s, want, &spec, &e) < 0 ||
        command_new(commands_of(req), want->code, true, &c, &e) < 0) {
        answer_error(req, 500, "RUNTIME_ERROR", "error running commands %s", e.msg);
        return;
    }
    s->last_run_us = c->started_us;
    json_write_begin(&w, &body);
    write_ids(&w, s->id, c->id);
    isolated_write_time(&w, STR("started_at"), c->started_us);
    isolated_hold(s);
    command_run(c, &spec, &background_ops, s); /* may end at once, and free its session */
    json_write_object_end(&w);
    answer_written(req, 202, &w);
}

/* --- status and logs --- */

/* Sends the error reply when it returns NULL. */
static const struct command *need_run(struct http_req *req)
{
    const struct isolated *s = isolated_need_session(req);
    struct str raw = http_req_param(req, "run"), id;
    const struct command *c;

    if (!s)
        return NULL;
    if (url_decode_in(&req->arena, raw, 0, &id) < 0)
        id = raw;
    c = commands_find(commands_of(req), id);
    if (c && strcmp(c->session, s->id) == 0)
        return c;
    answer_error(req, 404, "CONTEXT_NOT_FOUND", "isolated session %s has no run %.*s", s->id,
                 STR_ARG(id));
    return NULL;
}

void get_isolated_run(struct http_req *req)
{
    const struct command *c = need_run(req);
    AUTO_BUF(body, ANSWER_BYTES_MAX);
    struct json_writer w;

    if (!c)
        return;
    json_write_begin(&w, &body);
    write_ids(&w, c->session, c->id);
    json_member_bool(&w, STR("running"), c->running);
    if (!c->running)
        json_member_i64(&w, STR("exit_code"), c->exit_code);
    if (c->error)
        json_member_string(&w, STR("error"), str_of(c->error));
    isolated_write_time(&w, STR("started_at"), c->started_us);
    if (!c->running)
        isolated_write_time(&w, STR("finished_at"), c->ended_us);
    json_write_object_end(&w);
    answer_written(req, 200, &w);
}

void get_isolated_run_logs(struct http_req *req)
{
    const struct command *c = need_run(req);

    if (c)
        command_reply_logs(req, c, STR("Execd-Isolated-Tail-Cursor"));
}
