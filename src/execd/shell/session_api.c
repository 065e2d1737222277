#include "execd/shell/session_api.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "execd/command/workdir.h"
#include "execd/core/answer.h"
#include "execd/core/exec_stream.h"
#include "execd/core/routes.h"
#include "execd/log/use_log.h"
#include "execd/shell/session.h"
#include "execd/shell/shell_script.h"

enum {
    REQUEST_ARENA_BYTES_MAX = 32 << 20,
    SETUP_BYTES_MAX = 16 << 20, /* a quote in a value becomes four bytes */
};

static struct sessions *sessions_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->sessions;
}

static struct session *session_of(struct http_req *req)
{
    return sessions_find(sessions_of(req), answer_id(req));
}

/* --- POST /session --- */

struct new_body {
    struct str cwd;
};

static const struct json_field new_fields[] = {
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct new_body, cwd, .min = 0),
};
static const struct json_table new_table = JSON_TABLE(struct new_body, new_fields, 0);

void post_session(struct http_req *req)
{
    struct new_body body = {0};
    struct session *s;
    const char *cwd = NULL;
    struct err e = {0};
    char answer[ID_UUID_MAX + 32];
    int r = answer_read_optional(req, &req->arena, &new_table, &body, &e);

    if (r < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY", "error parsing request. %s", e.msg);
        return;
    }
    r = workdir_make(&req->arena, body.cwd, (const char *const *)environ, usual_user(req), &cwd,
                     &e);
    if (r >= 0)
        r = session_new(sessions_of(req), cwd, &s, &e);
    if (r < 0) {
        answer_error(req, r == -EAGAIN ? 503 : 500, "RUNTIME_ERROR", "error creating session. %s",
                     e.msg);
        return;
    }
    (void)snprintf(answer, sizeof(answer), "{\"session_id\":\"%s\"}", session_id(s));
    answer_json(req, 200, str_of(answer));
}

/* --- POST /session/{id}/run: the body --- */

struct run_body {
    struct str command, cwd;
    int64_t timeout;
    struct json_pair *envs;
    size_t envs_count;
};

static const struct json_field run_fields[] = {
    JSON_FIELD("command", JSON_AS_STR, JSON_NULLABLE, struct run_body, command, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct run_body, cwd, .min = 0),
    JSON_FIELD("timeout", JSON_AS_I64, JSON_NULLABLE, struct run_body, timeout, .min = 0),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct run_body, envs, .min = 0),
};
static const struct json_table run_table = JSON_TABLE(struct run_body, run_fields, 0);

/* The wording of the validation library that clients of this API know. */
#define FAILED_TAG(field, tag)                                                                     \
    "Key: 'RunInSessionRequest." field "' Error:Field validation for '" field                      \
    "' failed on the '" tag "' tag"

static int check_run_body(const struct run_body *b, struct err *e)
{
    if (b->command.n == 0)
        return err_set(e, EINVAL, FAILED_TAG("Command", "required"));
    if (str_has_nul(b->command))
        return err_set(e, EINVAL, "command: it holds a NUL byte, which no shell reads");
    if (b->timeout < 0)
        return err_set(e, EINVAL, FAILED_TAG("Timeout", "gte"));
    return shell_check_envs(b->envs, b->envs_count, e);
}

static int read_run(struct http_req *req, struct arena *a, struct buf *setup, struct shell_job *ret)
{
    struct run_body b = {0};
    const char *cwd = NULL;
    struct err e = {0};
    int r = answer_read_body(req, a, &run_table, &b, &e);

    if (r < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY", "error parsing request. %s", e.msg);
        return r;
    }
    r = check_run_body(&b, &e);
    if (r >= 0)
        r = workdir_resolve(a, b.cwd, (const char *const *)environ, &cwd, &e);
    if (r >= 0) {
        r = shell_setup(setup, cwd, b.envs, b.envs_count);
        if (r < 0)
            (void)err_sys(&e, -r, "envs");
    }
    if (r < 0) {
        answer_error(req, 400, "INVALID_REQUEST_BODY", "invalid request. %s", e.msg);
        return r;
    }
    *ret = (struct shell_job){buf_str(setup), b.command, (uint64_t)b.timeout};
    return 0;
}

/* --- POST /session/{id}/run: the stream --- */

struct follower {
    struct session_run run;
    struct exec_stream *stream;
};

static bool follower_on_output(void *user, enum shell_stream from, struct str data)
{
    struct follower *f = user;

    return exec_stream_output(f->stream, from == SHELL_STDERR ? EXEC_STDERR : EXEC_STDOUT, data);
}

static void follower_on_end(void *user, const struct shell_end *end)
{
    struct follower *f = user;

    exec_stream_end(f->stream, &(struct exec_end){end->error, end->started, end->exit_code, NULL});
    free(f);
}

static const struct session_ops follower_ops = {
    .on_output = follower_on_output,
    .on_end = follower_on_end,
};

static void follower_on_room(void *user)
{
    session_run_resume(&((struct follower *)user)->run);
}

static void follower_on_close(void *user)
{
    session_run_forget(&((struct follower *)user)->run);
    free(user);
}

static const struct exec_stream_ops follower_stream_ops = {
    .on_room = follower_on_room,
    .on_close = follower_on_close,
};

/* The stream begins before the run, which may end at once. Room in the session is checked first. */
static void follower_begin(struct http_req *req, struct session *s, const struct shell_job *job)
{
    struct follower *f = mem_new(struct follower);
    struct err e = {0};

    use_log_command(req, job->code);
    f->stream = exec_stream_begin(req, session_id(s), &follower_stream_ops, f);
    if (session_run(s, &f->run, job, &follower_ops, f, &e) >= 0)
        return;
    exec_stream_end(f->stream, &(struct exec_end){.error = e.msg});
    free(f);
}

void post_session_run(struct http_req *req)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    AUTO_BUF(setup, SETUP_BYTES_MAX);
    struct session *s = session_of(req);
    struct shell_job job;
    struct err e = {0};

    if (read_run(req, &arena, &setup, &job) < 0)
        return;
    if (!s)
        answer_error(req, 500, "RUNTIME_ERROR", "error running in session. context not found");
    else if (session_check_room(s, &job, &e) < 0)
        answer_error(req, 409, "RUNTIME_ERROR", "error running in session. %s", e.msg);
    else
        follower_begin(req, s, &job);
}

/* --- DELETE --- */

void delete_session(struct http_req *req)
{
    struct session *s = session_of(req);

    if (!s) {
        answer_error(req, 404, "CONTEXT_NOT_FOUND", "session %.*s not found",
                     STR_ARG(http_req_param(req, "id")));
        return;
    }
    session_free(s);
    answer_empty(req);
}

/* A request that waits for an interrupt to take effect. */
struct waiter {
    struct session_wait wait;
    struct http_req *req;
};

static void interrupt_on_done(struct session_wait *w)
{
    struct http_req *req = container_of(w, struct waiter, wait)->req;

    req->ops = NULL;
    answer_empty(req);
}

static void interrupt_on_close(struct http_req *req, int error UNUSED)
{
    list_remove(&((struct waiter *)req->user)->wait.link);
}

static const struct http_req_ops interrupt_req_ops = {.on_close = interrupt_on_close};

bool session_interrupt_answer(struct http_req *req, struct str id)
{
    struct session *s = sessions_find(sessions_of(req), id);
    struct waiter *w;

    if (!s)
        return false;
    w = arena_new(&req->arena, struct waiter);
    if (!w) {
        answer_error(req, 500, "RUNTIME_ERROR", "no memory");
        return true;
    }
    *w = (struct waiter){.wait.on_done = interrupt_on_done, .req = req};
    req->ops = &interrupt_req_ops;
    req->user = w;
    if (!session_interrupt(s, &w->wait)) {
        req->ops = NULL;
        answer_empty(req);
    }
    return true;
}
