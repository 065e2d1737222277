#include "execd/command_api.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"
#include "execd/answer.h"
#include "execd/command_request.h"
#include "execd/events.h"
#include "execd/lines.h"
#include "execd/routes.h"
#include "execd/session_api.h"
#include "execd/use_log.h"
#include "net/sse.h"

enum {
    PING_MS = 3000,
    FLUSH_IDLE_MS = 80,    /* a line that does not go on is shown after so long */
    FLUSH_AGE_MS = 500,    /* and one that does, but does not end */
    FLUSH_BLOCK_MS = 1000, /* and one that ends where a full buffer does, in whose middle it is */
    BLOCK_BYTES = 4096,    /* what stdio collects for a pipe, or a multiple of it */
    QUEUE_BYTES_MAX = 128 << 10,
    REQUEST_ARENA_BYTES_MAX = 32 << 20,
    LOG_PIECE_BYTES = 16 << 10,
    NS_PER_MS = 1000000,
    STATUS_BYTES_MAX = 8 << 20,
};

static struct commands *commands_of(const struct http_req *req)
{
    return ((struct execd_api *)req->server_user)->commands;
}

/* --- a command's events to its client --- */

/* One of a command's outputs on its way to events. */
struct follow {
    struct follower *follower;
    const char *type; /* of its events */
    struct lines lines;
    uint64_t last_ns; /* when it last said something */
    uint64_t part_ns; /* since when the part of a line that was not given yet waits; 0 = none */
    bool full_blocks; /* the last it said came in blocks: more will follow, however slowly */
};

struct follower {
    struct sse sse;
    struct command *command; /* NULL: it ended, or we do not follow any more */
    struct follow outputs[COMMAND_STREAMS];
    struct loop_timer flush;
    uint64_t begin_ns;
};

static struct loop *follower_loop(const struct follower *f)
{
    return http_req_loop(f->sse.req);
}

/* An event that cannot be had or queued must not be missing silently: the stream breaks. */
static void follower_push(struct follower *f, struct buf *b, int r)
{
    if (r == 0)
        r = sse_push_bytes(&f->sse, buf_str(b));
    if (r < 0)
        sse_end(&f->sse, -r);
    loop_buf_return(follower_loop(f), b);
}

static struct buf *follower_room(struct follower *f, struct buf *b)
{
    buf_init(b, EVENT_BYTES_MAX(LINES_PIECE_MAX));
    loop_buf_borrow(follower_loop(f), b);
    return b;
}

static void follow_give(void *user, struct str text, bool continues)
{
    struct follow *o = user;
    struct buf b;

    o->part_ns = 0;
    follower_push(o->follower, &b,
                  event_output(follower_room(o->follower, &b), o->type, text, continues));
}

/* --- lines that do not end --- */

static uint64_t follow_due_ns(const struct follow *o)
{
    uint64_t idle = o->last_ns + (uint64_t)FLUSH_IDLE_MS * NS_PER_MS;
    uint64_t aged = o->part_ns + (uint64_t)FLUSH_AGE_MS * NS_PER_MS;

    if (!lines_pending(&o->lines))
        return UINT64_MAX;
    if (o->full_blocks)
        return o->last_ns + (uint64_t)FLUSH_BLOCK_MS * NS_PER_MS;
    return idle < aged ? idle : aged;
}

static void follower_on_flush(struct loop_timer *t);

static void follower_flush_later(struct follower *f)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < COMMAND_STREAMS; i++) {
        uint64_t d = follow_due_ns(&f->outputs[i]);

        due = d < due ? d : due;
    }
    if (due == UINT64_MAX)
        loop_timer_stop(follower_loop(f), &f->flush);
    else
        loop_timer_set(follower_loop(f), &f->flush, due, follower_on_flush);
}

/* When the client does not take more, or there is more to read, a line would be cut by us and not
 * by the command: it waits, and follower_on_drain starts anew. */
static void follower_on_flush(struct loop_timer *t)
{
    struct follower *f = container_of(t, struct follower, flush);
    uint64_t now = loop_now_ns(follower_loop(f));

    if (sse_is_full(&f->sse))
        return;
    for (size_t i = 0; i < COMMAND_STREAMS; i++) {
        struct follow *o = &f->outputs[i];

        if (follow_due_ns(o) > now)
            continue;
        if (!f->command || !command_has_output(f->command, i))
            lines_flush(&o->lines);
        o->last_ns = o->part_ns = now; /* what is left is less than a character */
    }
    follower_flush_later(f);
}

static bool follower_on_output(void *user, enum command_stream from, struct str data)
{
    struct follower *f = user;
    struct follow *o = &f->outputs[from];

    if (lines_feed(&o->lines, data) < 0)
        sse_end(&f->sse, ENOMEM);
    o->last_ns = loop_now_ns(follower_loop(f));
    o->full_blocks = data.n % BLOCK_BYTES == 0;
    if (o->part_ns == 0)
        o->part_ns = o->last_ns;
    follower_flush_later(f);
    return !sse_is_full(&f->sse);
}

/* --- ends --- */

static void follower_end(struct follower *f, const struct command *c)
{
    uint64_t ms = (time_mono_ns() - f->begin_ns) / NS_PER_MS;
    char value[16];
    struct buf b, *room = follower_room(f, &b);
    int r;

    (void)snprintf(value, sizeof(value), "%d", c ? c->exit_code : 0);
    if (!c || !c->error)
        r = event_complete(room, ms);
    else
        r = event_error(room, "CommandExecError", c->started ? value : c->error, c->error);
    follower_push(f, &b, r);
    sse_end(&f->sse, 0);
}

static void follower_on_end(void *user, const struct command *c)
{
    struct follower *f = user;

    f->command = NULL;
    loop_timer_stop(follower_loop(f), &f->flush);
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        lines_end(&f->outputs[i].lines);
    follower_end(f, c);
}

/* A background command runs: that is all its client hears. */
static void follower_on_start(void *user)
{
    struct follower *f = user;
    struct command *c = f->command;

    if (!c->background)
        return;
    f->command = NULL;
    command_forget(c);
    follower_end(f, NULL);
}

static const struct command_ops follower_ops = {
    .on_start = follower_on_start,
    .on_output = follower_on_output,
    .on_end = follower_on_end,
};

/* --- the client --- */

static void follower_on_drain(struct sse *s)
{
    struct follower *f = container_of(s, struct follower, sse);

    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        f->outputs[i].last_ns = f->outputs[i].part_ns = loop_now_ns(follower_loop(f));
    follower_flush_later(f);
    if (f->command)
        command_resume(f->command);
}

static void follower_on_ping(struct sse *s)
{
    struct follower *f = container_of(s, struct follower, sse);
    struct buf b;

    follower_push(f, &b, event_ping(follower_room(f, &b)));
}

static void follower_on_close(struct sse *s, int error UNUSED)
{
    struct follower *f = container_of(s, struct follower, sse);

    loop_timer_stop(follower_loop(f), &f->flush);
    for (size_t i = 0; i < COMMAND_STREAMS; i++)
        lines_done(&f->outputs[i].lines);
    if (f->command)
        command_forget(f->command); /* it runs on */
    free(f);
}

static const struct sse_ops follower_sse_ops = {
    .on_drain = follower_on_drain,
    .on_ping = follower_on_ping,
    .on_close = follower_on_close,
};

static struct follower *follower_new(struct http_req *req, struct command *c)
{
    static const char *const types[] = {"stdout", "stderr"};
    struct follower *f = mem_new(struct follower);
    struct buf b;

    f->command = c;
    f->begin_ns = time_mono_ns();
    for (size_t i = 0; i < COMMAND_STREAMS; i++) {
        f->outputs[i] = (struct follow){.follower = f, .type = types[i]};
        lines_init(&f->outputs[i].lines, follow_give, &f->outputs[i]);
    }
    http_reply_queue_max(req, QUEUE_BYTES_MAX);
    sse_begin(&f->sse, req, &follower_sse_ops);
    sse_set_ping(&f->sse, PING_MS);
    follower_push(f, &b, event_init(follower_room(f, &b), c->id));
    follower_on_ping(&f->sse);
    return f;
}

void post_command(struct http_req *req)
{
    AUTO_ARENA(arena, REQUEST_ARENA_BYTES_MAX);
    struct command_request want = {0};
    struct command *c;
    struct err e = {0};

    if (command_request_read(req, &arena, (const char *const *)environ, &want) >= 0) {
        use_log_command(req, want.text);
        if (command_new(commands_of(req), want.text, want.background, &c, &e) < 0)
            answer_error(req, 500, "RUNTIME_ERROR", "error running commands %s", e.msg);
        else
            command_run(c, &want.spec, &follower_ops, follower_new(req, c));
    }
    free(want.groups);
}

/* --- interrupt --- */

static void interrupt_on_done(void *user)
{
    struct http_req *req = user;

    req->ops = NULL;
    answer_empty(req);
}

/* The client left; the command is ended all the same. */
static void interrupt_on_close(struct http_req *req, int error UNUSED)
{
    interrupt_forget(req->user);
}

static const struct http_req_ops interrupt_req_ops = {.on_close = interrupt_on_close};

void delete_command(struct http_req *req)
{
    struct execd_api *api = req->server_user;
    struct str id = STR_NONE;
    struct command *c;

    if (url_query_get(req->head.query, STR("id"), &req->arena, &id) < 0 || id.n == 0) {
        answer_error(req, 400, "MISSING_QUERY", "missing query parameter 'id'");
        return;
    }
    c = commands_find(api->commands, id);
    if (c && command_group(c) > 0) {
        req->ops = &interrupt_req_ops;
        req->user = interrupt_start(&api->interrupts, command_group(c), interrupt_on_done, req);
    } else if (c) {
        answer_error(req, 500, "RUNTIME_ERROR",
                     "error interruptting code context. command session %s is not running", c->id);
    } else if (!session_interrupt_answer(req, id)) {
        answer_error(req, 500, "RUNTIME_ERROR",
                     "error interruptting code context. no such session");
    }
}

/* --- status --- */

/* The parameter of the path, decoded; itself when it does not decode, to be unknown as it is. */
static struct str id_of(struct http_req *req)
{
    struct str raw = http_req_param(req, "id"), id;

    return url_decode_in(&req->arena, raw, 0, &id) < 0 ? raw : id;
}

static void write_time(struct json_writer *w, struct str key, int64_t us)
{
    char text[TIME_TEXT_MAX];

    json_write_key(w, key);
    json_write_string(w, str_make(text, time_format(us, text)));
}

static void write_status(struct json_writer *w, const struct command *c)
{
    json_write_object(w);
    json_write_key(w, STR("id"));
    json_write_string(w, str_of(c->id));
    json_write_key(w, STR("content"));
    json_write_string(w, str_of(c->text));
    json_write_key(w, STR("running"));
    json_write_bool(w, c->running);
    if (!c->running) {
        json_write_key(w, STR("exit_code"));
        json_write_i64(w, c->exit_code);
    }
    if (c->error) {
        json_write_key(w, STR("error"));
        json_write_string(w, str_of(c->error));
    }
    write_time(w, STR("started_at"), c->started_us);
    if (!c->running)
        write_time(w, STR("finished_at"), c->ended_us);
    json_write_object_end(w);
}

void get_command_status(struct http_req *req)
{
    struct str id = id_of(req);
    const struct command *c = commands_find(commands_of(req), id);
    AUTO_BUF(body, STATUS_BYTES_MAX);
    struct json_writer w;

    if (!c) {
        answer_error(req, 404, "INVALID_REQUEST_BODY", "command not found: %.*s", STR_ARG(id));
        return;
    }
    json_write_begin(&w, &body);
    write_status(&w, c);
    if (json_write_end(&w) < 0)
        answer_error(req, 500, "RUNTIME_ERROR", "no memory for the status of %s", c->id);
    else
        answer_json(req, 200, buf_str(&body));
}

/* --- logs --- */

struct log_reader {
    struct commands *commands;
    char id[COMMAND_ID_MAX]; /* the record may go meanwhile */
    enum command_stream stream;
    uint64_t at, end;
};

/* A log that lost what was promised, to newer output or with its record, breaks the reply. */
static void log_send(struct http_req *req)
{
    struct log_reader *reader = req->user;
    char room[LOG_PIECE_BYTES]; /* the loop's scratch may hold what the client sent behind this */

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
            return; /* on_drain goes on */
    }
    http_reply_end(req, 0);
}

static const struct http_req_ops log_ops = {.on_drain = log_send};

static void log_begin(struct http_req *req, const struct command *c, enum command_stream stream,
                      uint64_t cursor)
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
    (void)http_reply_header(req, STR("Execd-Commands-Tail-Cursor"), str_of(text));
    req->user = reader;
    req->ops = &log_ops;
    http_reply_begin(req, 200, ANSWER_TEXT, end - at);
    log_send(req);
}

/* Which of a command's logs is asked for: a background command has one for both. False when there
 * is no such. */
static bool log_stream(struct http_req *req, const struct command *c, enum command_stream *ret)
{
    struct str text = STR_NONE;
    bool named = url_query_get(req->head.query, STR("stream"), &req->arena, &text) > 0;

    *ret = named && str_eq(text, STR("stderr")) ? COMMAND_STDERR : COMMAND_STDOUT;
    return !named || (!c->background && (*ret == COMMAND_STDERR || str_eq(text, STR("stdout"))));
}

void get_command_logs(struct http_req *req)
{
    struct str id = id_of(req), text = STR_NONE;
    const struct command *c = commands_find(commands_of(req), id);
    enum command_stream stream;
    int64_t cursor = 0;

    if (url_query_get(req->head.query, STR("cursor"), &req->arena, &text) > 0 &&
        str_to_i64(text, &cursor) < 0)
        cursor = 0;
    if (!c)
        answer_error(req, 400, "INVALID_REQUEST_BODY", "command not found: %.*s", STR_ARG(id));
    else if (!log_stream(req, c, &stream))
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
        log_begin(req, c, stream, (uint64_t)cursor);
}
