#include "execd/code/cell.h"

#include <stdio.h>

#include "base/mem.h"
#include "execd/core/duration.h"
#include "execd/core/events.h"
#include "execd/core/exec_stream.h"

enum { SENTENCE_BYTES_MAX = CONTEXT_WHY_MAX + 256 };

struct cell {
    struct exec_stream *stream;
    struct context *context; /* NULL: nothing runs */
    uint64_t timeout_ms;
};

static struct buf *cell_room(struct cell *c, struct buf *b)
{
    return exec_stream_room(c->stream, b);
}

static void cell_push(struct cell *c, struct buf *b, int r)
{
    if (!exec_stream_push(c->stream, b, r) && c->context)
        context_pause(c->context, true);
}

static void cell_push_output(struct cell *c, const char *type, struct str text)
{
    struct buf b;

    cell_push(c, &b, event_output(cell_room(c, &b), type, text, false, false));
}

static void cell_push_error(struct cell *c, struct str name, struct str value,
                            const struct json *traceback)
{
    struct buf b;

    cell_push(c, &b, event_status(cell_room(c, &b), STR("error")));
    cell_push(c, &b, event_failure(cell_room(c, &b), name, value, traceback));
}

/* --- events of the context --- */

static void cell_on_stream(void *user, const char *type, struct str text)
{
    cell_push_output(user, type, text);
}

static void cell_on_result(void *user, uint64_t count, const struct json *bundle)
{
    struct cell *c = user;
    struct buf b;

    if (count > 0)
        cell_push(c, &b, event_count(cell_room(c, &b), count));
    cell_push(c, &b, event_result(cell_room(c, &b), bundle, NULL));
}

static void cell_on_display(void *user, struct str id, bool update, const struct json *bundle)
{
    struct cell *c = user;
    struct event_display display = {id, update};
    struct buf b;

    cell_push(c, &b, event_result(cell_room(c, &b), bundle, &display));
}

static void cell_on_error(void *user, struct str name, struct str value,
                          const struct json *traceback)
{
    cell_push_error(user, name, value, traceback);
}

/* Reports an error whose traceback is its value. */
static void cell_push_sentence(struct cell *c, struct str name, struct str value)
{
    struct json line = {.type = JSON_STRING, .string = value};
    struct json traceback = {.type = JSON_ARRAY, .first = &line, .count = 1};

    cell_push_error(c, name, value, &traceback);
}

static void cell_on_done(void *user, enum kernel_end end)
{
    struct cell *c = user;
    char text[64];

    c->context = NULL;
    (void)snprintf(text, sizeof(text), "timeout after %s", duration_text_of_ms(c->timeout_ms).s);
    if (end == KERNEL_TIMEOUT)
        cell_push_sentence(c, STR("TimeoutError"), str_of(text));
    exec_stream_end(c->stream, &(struct exec_end){0});
    free(c);
}

/* The process ended, and the cell with it: it is not complete. */
static void cell_on_death(void *user, const char *why)
{
    struct cell *c = user;

    c->context = NULL;
    cell_push_sentence(c, STR("KernelDied"), str_of(why));
    exec_stream_end(c->stream, NULL);
    free(c);
}

static const struct kernel_owner cell_follower = {
    .on_stream = cell_on_stream,
    .on_result = cell_on_result,
    .on_display = cell_on_display,
    .on_error = cell_on_error,
    .on_done = cell_on_done,
    .on_death = cell_on_death,
};

/* --- the client --- */

static void cell_on_room(void *user)
{
    context_pause(((struct cell *)user)->context, false);
}

static void cell_on_close(void *user)
{
    context_leave(((struct cell *)user)->context, user);
    free(user);
}

static void cell_on_hangup(void *user)
{
    context_doubt(((struct cell *)user)->context, user);
}

static const struct exec_stream_ops cell_stream_ops = {
    .on_room = cell_on_room,
    .on_hangup = cell_on_hangup,
    .on_close = cell_on_close,
};

static void cell_tell_revival(struct cell *c, const struct context *of)
{
    char text[CONTEXT_REVIVAL_MAX];

    context_revival_text(of, text);
    cell_push_output(c, "stderr", str_of(text));
}

void cell_start(struct http_req *req, const struct cell_run *run)
{
    struct cell *c = mem_new(struct cell);
    char text[SENTENCE_BYTES_MAX];
    struct err e = {0};

    c->timeout_ms = run->timeout_ms;
    c->stream = exec_stream_begin(req, run->context->id, &cell_stream_ops, c);
    if (run->revived)
        cell_tell_revival(c, run->context);
    if (context_run(run->context, run->code, run->timeout_ms, &cell_follower, c, &e) >= 0) {
        c->context = run->context;
        return;
    }
    (void)snprintf(text, sizeof(text), "error running codes %s", e.msg);
    cell_push_sentence(c, STR("RUNTIME_ERROR"), str_of(text));
    exec_stream_end(c->stream, NULL);
    free(c);
}
