#include "execd/command/command_api.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/url.h"
#include "execd/command/command_request.h"
#include "execd/core/answer.h"
#include "execd/core/exec_stream.h"
#include "execd/core/routes.h"
#include "execd/log/use_log.h"

enum {
    REQUEST_ARENA_BYTES_MAX = 32 << 20,
    LOG_PIECE_BYTES = 16 << 10,
    STATUS_BYTES_MAX = 8 << 20,
};

static struct commands *commands_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->commands;
}

/* --- events of a command --- */

static bool command_on_output(void *user, enum command_stream from, struct str data)
{
    return exec_stream_output(user, from == COMMAND_STDERR ? EXEC_STDERR : EXEC_STDOUT, data);
}

static void command_on_end(void *user, const struct command *c)
{
    exec_stream_end(user, &(struct exec_end){c->error, c->started, c->exit_code, NULL});
}

/* The client of a background command only learns that it runs. */
static void command_on_start(void *user, struct command *c)
{
    if (!c->background)
        return;
    command_forget(c);
    exec_stream_end(user, &(struct exec_end){0});
}

static const struct command_ops command_to_stream = {
    .on_start = command_on_start,
    .on_output = command_on_output,
    .on_end = command_on_end,
};

static void stream_on_room(void *user)
{
    command_resume(user);
}

static void stream_on_close(void *user)
{
    command_forget(user); /* it continues to run */
}

static bool stream_has_more(void *user, enum exec_output from)
{
    return command_has_output(user, from == EXEC_STDERR ? COMMAND_STDERR : COMMAND_STDOUT);
}

static const struct exec_stream_ops stream_to_command = {
    .on_room = stream_on_room,
    .on_close = stream_on_close,
    .has_more = stream_has_more,
};

static void command_start(struct http_req *req, struct command_request *want)
{
    struct command *c;
    struct err e = {0};

    use_log_command(req, want->text);
    if (command_new(commands_of(req), want->text, want->background, &c, &e) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "error running commands %s", e.msg);
    else
        command_run(c, &want->spec, &command_to_stream,
                    exec_stream_begin(req, c->id, &stream_to_command, c));
}

void post_command(struct http_req *req)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    struct command_request want = {0};

    if (command_request_read(req, &arena, (const char *const *)environ, &want) >= 0)
        command_start(req, &want);
    free(want.groups);
}

void command_run_text(struct http_req *req, struct str text, bool background)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    struct command_request want = {0};

    if (command_request_of(req, &arena, (const char *const *)environ, text, background, &want) >= 0)
        command_start(req, &want);
    free(want.groups);
}

/* --- interrupt --- */

static void interrupt_on_done(void *user)
{
    struct http_req *req = user;

    req->ops = NULL;
    answer_empty(req);
}

/* The client disconnected; the command is ended nevertheless. */
static void interrupt_on_close(struct http_req *req, int error UNUSED)
{
    interrupt_forget(req->user);
}

static const struct http_req_ops interrupt_req_ops = {.on_close = interrupt_on_close};

bool command_interrupt_answer(struct http_req *req, struct str id)
{
    struct execd_api *api = req->server_user;
    struct command *c = commands_find(api->commands, id);

    if (!c)
        return false;
    if (command_group(c) > 0) {
        req->ops = &interrupt_req_ops;
        req->user = interrupt_start(&api->interrupts, command_group(c), command_kill_signal(c),
                                    interrupt_on_done, req);
    } else {
        answer_error(req, 500, "RUNTIME_ERROR",
                     "error interruptting code context. command session %s is not running", c->id);
    }
    return true;
}

/* --- status --- */

static void write_status(struct json_writer *w, const struct command *c)
{
    json_write_object(w);
    json_member_string(w, STR("id"), str_of(c->id));
    json_member_string(w, STR("content"), str_of(c->text));
    json_member_bool(w, STR("running"), c->running);
    if (!c->running)
        json_member_i64(w, STR("exit_code"), c->exit_code);
    if (c->error)
        json_member_string(w, STR("error"), str_of(c->error));
    json_member_time(w, STR("started_at"), c->started_us);
    if (!c->running)
        json_member_time(w, STR("finished_at"), c->ended_us);
    json_write_object_end(w);
}

void get_command_status(struct http_req *req)
{
    struct str id = answer_id(req);
    const struct command *c = commands_find(commands_of(req), id);
    AUTO_BUF(body, STATUS_BYTES_MAX);
    struct json_writer w;

    if (!c) {
        answer_error(req, 404, "INVALID_REQUEST_BODY", "command not found: %.*s", STR_ARG(id));
        return;
    }
    json_write_begin(&w, &body);
    write_status(&w, c);
    answer_written(req, 200, &w);
}

/* --- logs --- */

struct log_reader {
    struct commands *commands;
    char id[COMMAND_ID_MAX]; /* not a pointer: the record may be freed meanwhile */
    enum command_stream stream;
    uint64_t at, end;
};

/* If bytes within the announced length were overwritten, or the record is gone, the reply is broken
 * off. */
static void log_send(struct http_req *req)
{
    struct log_reader *reader = req->user;
    char room[LOG_PIECE_BYTES]; /* not the loop's scratch: it may hold a pipelined request */

    while (reader->at < reader->end) {
        const struct command *c = commands_find(reader->commands, str_of(reader->id));
        size_t most = min_size(sizeof(room), reader->end - reader->at);
        ssize_t n =
            c ? command_log_read(&c->logs[reader->stream], reader->at, room, most) : -ESTALE;
        ssize_t taken = n > 0 ? http_reply_write(req, str_make(room, (size_t)n)) : n;

        if (n <= 0 || taken < 0) {
            http_reply_end(req, EIO);
            return;
        }
        reader->at += (uint64_t)taken;
        if (taken < n)
            return; /* on_drain continues */
    }
    http_reply_end(req, 0);
}

static const struct http_req_ops log_ops = {.on_drain = log_send};

static void log_begin(struct http_req *req, const struct command *c, enum command_stream stream,
                      uint64_t cursor, struct str header)
{
    struct log_reader *reader = arena_new(&req->arena, struct log_reader);
    const struct command_log *log = &c->logs[stream];
    uint64_t at = command_log_seek(log, cursor), end = log->written;
    char text[24];

    if (!reader) {
        answer_error(req, 500, "RUNTIME_ERROR", "no memory for the logs of %s", c->id);
        return;
    }
    at = at < end ? at : end;
    *reader = (struct log_reader){commands_of(req), .stream = stream, .at = at, .end = end};
    memcpy(reader->id, c->id, sizeof(reader->id));
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)(cursor > end ? cursor : end));
    (void)http_reply_header(req, header, str_of(text));
    req->user = reader;
    req->ops = &log_ops;
    http_reply_begin(req, 200, ANSWER_TEXT, end - at);
    log_send(req);
}

/* Which of the command's logs the request selects; a background command has one for both. False
 * when there is no such log. */
static bool log_stream(struct http_req *req, const struct command *c, enum command_stream *ret)
{
    struct str text = STR_NONE;
    bool named = url_query_get(req->head.query, STR("stream"), &req->arena, &text) > 0;

    *ret = named && str_eq(text, STR("stderr")) ? COMMAND_STDERR : COMMAND_STDOUT;
    return !named || (!c->background && (*ret == COMMAND_STDERR || str_eq(text, STR("stdout"))));
}

void command_reply_logs(struct http_req *req, const struct command *c, struct str header)
{
    struct str text = STR_NONE;
    enum command_stream stream;
    int64_t cursor = 0;

    if (url_query_get(req->head.query, STR("cursor"), &req->arena, &text) > 0 &&
        str_to_i64(text, &cursor) < 0)
        cursor = 0;
    if (!log_stream(req, c, &stream))
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "command %s has no such stream; stdout and stderr %s", c->id,
                     c->background ? "of a background command are one" : "are its streams");
    else if (command_log_is_gone(&c->logs[stream]))
        answer_error(req, 400, "INVALID_REQUEST_BODY",
                     "error open combined output file for command %s: %s", c->id,
                     c->logs[stream].closed ? "it made room for others"
                                            : "no directory takes the output of a command");
    else if (cursor < 0)
        answer_error(req, 400, "INVALID_REQUEST_BODY", "error seek file: invalid argument");
    else
        log_begin(req, c, stream, (uint64_t)cursor, header);
}

void get_command_logs(struct http_req *req)
{
    struct str id = answer_id(req);
    const struct command *c = commands_find(commands_of(req), id);

    if (!c)
        answer_error(req, 400, "INVALID_REQUEST_BODY", "command not found: %.*s", STR_ARG(id));
    else
        command_reply_logs(req, c, STR("Execd-Commands-Tail-Cursor"));
}
