/* command.c - commands, sessions, code: everything that runs in a sandbox but terminals. */
#include <errno.h>
#include <stdio.h>

#include "api/execd.h"
#include "sdk.h"

enum { RUN_ARENA_BYTES_MAX = 64 << 20 };

/* A call without a stream to the daemon inside. */
static int execd_call(struct osb_sandbox *sb, struct simple *s, struct osb_answer **ret)
{
    int r = sandbox_site(sb, OSB_PORT_EXECD, &s->site);

    if (r < 0) {
        target_done(s->target);
        return r;
    }
    return simple_call(sb->client, s, ret);
}

static int execd_target(struct osb_sandbox *sb, enum http_method method, struct target *t,
                        struct osb_answer **ret)
{
    struct simple s = {NULL, method, t, NULL, 0};

    return execd_call(sb, &s, ret);
}

/* --- commands --- */

static int fill_run(struct osb_client *c, const struct osb_run *o, struct arena *a,
                    struct api_run *run)
{
    *run = (struct api_run){
        .command = str_or_empty(o->command),
        .cwd = str_or_empty(o->cwd),
        .timeout_ms = o->timeout_ms,
        .envs = pairs_convert(a, o->env, o->env_count),
        .envs_count = o->env_count,
        .background = o->background,
        .has_uid = o->has_uid,
        .has_gid = o->has_gid,
        .uid = o->uid,
        .gid = o->gid,
        .has_input = o->input,
        .input = str_make(o->input, o->input_bytes),
        .stdin_open = o->keep_stdin_open,
    };
    run->argv = strs_convert(a, o->argv, &run->argv_count);
    if (!run->envs || !run->argv)
        return fail(c, ENOMEM, "the request is too large");
    if (!str_trim(run->command).n && !run->argv_count)
        return fail(c, EINVAL, "command: expected one, or argv; got neither");
    if (run->command.n && run->argv_count)
        return fail(c, EINVAL, "command, argv: expected one of them, got both");
    if (o->has_gid && !o->has_uid)
        return fail(c, EINVAL, "gid: needs a uid");
    if (o->timeout_ms < 0)
        return fail(c, EINVAL, "timeout_ms: expected 0 for none, or more");
    return 0;
}

static int run_options(struct osb_sandbox *sb, const struct osb_run *o, struct target *t,
                       bool in_session, struct osb_execution **ret)
{
    AUTO_ARENA(a, RUN_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct run_spec spec = {
        .target = t,
        .body = &body,
        .on_event = o->on_event,
        .user = o->user,
        .discard = o->discard,
        .background = o->background && !in_session,
        .output_bytes_max = o->output_bytes_max,
    };
    struct api_run run;
    int r = fill_run(sb->client, o, &a, &run);

    if (r < 0) {
        target_done(t);
        return r;
    }
    spec.body_error = in_session ? api_session_run_write(&body, &run) : api_run_write(&body, &run);
    return run_stream(sb, &spec, ret);
}

int osb_command_run(struct osb_sandbox *sandbox, const struct osb_run *run,
                    struct osb_execution **ret_execution)
{
    OPTIONS_COPY(struct osb_run, o, run);
    struct target t;

    target_init(&t, "/command");
    return run_options(sandbox, &o, &t, false, ret_execution);
}

int osb_command_interrupt(struct osb_sandbox *sandbox, const char *id)
{
    struct target t;

    target_init(&t, "/command");
    target_query(&t, "id", id);
    return execd_target(sandbox, HTTP_DELETE, &t, NULL);
}

int osb_command_status(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer)
{
    struct target t;

    target_init(&t, "/command/status/");
    target_segment(&t, id);
    return execd_target(sandbox, HTTP_GET, &t, ret_answer);
}

int osb_command_logs(struct osb_sandbox *sandbox, const char *id, const char *stream,
                     int64_t cursor, struct osb_answer **ret_answer, int64_t *ret_cursor)
{
    struct osb_answer *a = NULL;
    struct target t;
    const char *next;
    int64_t value;
    int r;

    target_init(&t, "/command/");
    target_segment(&t, id);
    target_add(&t, "/logs");
    target_query_i64(&t, "cursor", cursor);
    target_query(&t, "stream", stream);
    r = execd_target(sandbox, HTTP_GET, &t, &a);
    if (r < 0)
        return r;
    next = osb_answer_header(a, "EXECD-COMMANDS-TAIL-CURSOR");
    if (ret_cursor)
        *ret_cursor =
            next && str_to_i64(str_of(next), &value) == 0 ? value : cursor + (int64_t)a->body.n;
    *ret_answer = a;
    return 0;
}

int osb_command_write(struct osb_sandbox *sandbox, const char *id, const void *data, size_t bytes,
                      bool eof)
{
    struct osb_request req = {OSB_REQUEST,        .method = "POST",
                              .sandbox = sandbox, .content_type = "application/octet-stream",
                              .body = data,       .body_bytes = bytes,
                              .streams = true}; /* a command may take its time to read */
    struct target t;
    int r;

    target_init(&t, "/command/");
    target_segment(&t, id);
    target_add(&t, "/stdin");
    if (eof)
        target_query(&t, "eof", "true");
    req.path = t.text.p;
    r = t.error < 0 ? fail(sandbox->client, -t.error, "the id of a command is empty or too long")
                    : osb_request(sandbox->client, &req, NULL);
    target_done(&t);
    return r;
}

/* --- making something that has an id --- */

static int take_id(struct osb_client *c, struct osb_answer *a, const char *field,
                   char ret_id[OSB_ID_MAX])
{
    const char *id = osb_answer_text(a, field);

    if (!id || !id[0] || str_copy(ret_id, OSB_ID_MAX, str_of(id)) < 0)
        return fail(c, EBADMSG, "the sandbox: an answer without a valid %s", field);
    return 0;
}

static int create_by(struct osb_sandbox *sb, const char *path, const struct buf *body,
                     int body_error, const char *field, char ret_id[OSB_ID_MAX])
{
    struct osb_answer *a = NULL;
    struct target t;
    struct simple s = {NULL, HTTP_POST, &t, body, body_error};
    int r;

    target_init(&t, path);
    r = execd_call(sb, &s, &a);
    if (r == 0)
        r = take_id(sb->client, a, field, ret_id);
    osb_answer_free(a);
    return r;
}

static int by_id(struct osb_sandbox *sb, enum http_method method, const char *path, const char *id,
                 struct osb_answer **ret)
{
    struct target t;

    target_init(&t, path);
    target_segment(&t, id);
    return execd_target(sb, method, &t, ret);
}

/* --- sessions --- */

int osb_session_create(struct osb_sandbox *sandbox, const char *cwd, char ret_id[OSB_ID_MAX])
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    int r = api_shell_write(&body, str_or_empty(cwd), STR(""));

    return create_by(sandbox, "/session", &body, r, "session_id", ret_id);
}

int osb_session_run(struct osb_sandbox *sandbox, const char *id, const struct osb_run *run,
                    struct osb_execution **ret_execution)
{
    OPTIONS_COPY(struct osb_run, o, run);
    struct target t;

    target_init(&t, "/session/");
    target_segment(&t, id);
    target_add(&t, "/run");
    return run_options(sandbox, &o, &t, true, ret_execution);
}

int osb_session_delete(struct osb_sandbox *sandbox, const char *id)
{
    return by_id(sandbox, HTTP_DELETE, "/session/", id, NULL);
}

/* --- code --- */

int osb_context_create(struct osb_sandbox *sandbox, const struct osb_context *context,
                       char ret_id[OSB_ID_MAX])
{
    OPTIONS_COPY(struct osb_context, o, context);
    AUTO_ARENA(a, RUN_ARENA_BYTES_MAX);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_context spec = {
        .language = str_or_empty(o.language),
        .cwd = str_or_empty(o.cwd),
        .kernel = str_or_empty(o.kernel),
        .envs = pairs_convert(&a, o.env, o.env_count),
        .envs_count = o.env_count,
    };
    int r = spec.envs ? api_context_write(&body, &spec) : -ENOMEM;

    return create_by(sandbox, "/code/context", &body, r, "id", ret_id);
}

int osb_context_get(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer)
{
    return by_id(sandbox, HTTP_GET, "/code/contexts/", id, ret_answer);
}

int osb_context_list(struct osb_sandbox *sandbox, const char *language,
                     struct osb_answer **ret_answer)
{
    struct target t;

    target_init(&t, "/code/contexts");
    target_query(&t, "language", language);
    return execd_target(sandbox, HTTP_GET, &t, ret_answer);
}

int osb_context_delete(struct osb_sandbox *sandbox, const char *id)
{
    return by_id(sandbox, HTTP_DELETE, "/code/contexts/", id, NULL);
}

int osb_context_delete_all(struct osb_sandbox *sandbox, const char *language)
{
    struct target t;

    target_init(&t, "/code/contexts");
    target_query(&t, "language", language);
    return execd_target(sandbox, HTTP_DELETE, &t, NULL);
}

int osb_code_run(struct osb_sandbox *sandbox, const struct osb_code *code,
                 struct osb_execution **ret_execution)
{
    OPTIONS_COPY(struct osb_code, o, code);
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    struct api_code spec = {
        .code = str_or_empty(o.code),
        .context = {.id = str_or_empty(o.context_id), .language = str_or_empty(o.language)},
        .timeout_ms = o.timeout_ms,
    };
    struct target t;
    struct run_spec run = {
        .target = &t,
        .body = &body,
        .on_event = o.on_event,
        .user = o.user,
        .discard = o.discard,
        .is_code = true,
        .output_bytes_max = o.output_bytes_max,
    };

    if (!str_trim(spec.code).n)
        return fail(sandbox->client, EINVAL, "code: expected some, got none");
    run.body_error = api_code_write(&body, &spec);
    target_init(&t, "/code");
    return run_stream(sandbox, &run, ret_execution);
}

int osb_code_interrupt(struct osb_sandbox *sandbox, const char *context_id)
{
    struct target t;

    target_init(&t, "/code");
    target_query(&t, "id", context_id);
    return execd_target(sandbox, HTTP_DELETE, &t, NULL);
}

/* --- terminals, but for their WebSocket --- */

int osb_pty_create(struct osb_sandbox *sandbox, const char *cwd, const char *command,
                   char ret_id[OSB_ID_MAX])
{
    AUTO_BUF(body, SDK_REQUEST_BYTES_MAX);
    int r = api_shell_write(&body, str_or_empty(cwd), str_or_empty(command));

    return create_by(sandbox, "/pty", &body, r, "session_id", ret_id);
}

int osb_pty_get(struct osb_sandbox *sandbox, const char *id, struct osb_answer **ret_answer)
{
    return by_id(sandbox, HTTP_GET, "/pty/", id, ret_answer);
}

int osb_pty_delete(struct osb_sandbox *sandbox, const char *id)
{
    return by_id(sandbox, HTTP_DELETE, "/pty/", id, NULL);
}
