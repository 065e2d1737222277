#include "execd/cell.h"

#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "execd/duration.h"
#include "execd/events.h"
#include "net/sse.h"

enum {
    PING_MS = 3000,
    QUEUE_BYTES_MAX = 128 << 10,
    NS_PER_MS = 1000000,
    SENTENCE_BYTES_MAX = CONTEXT_WHY_MAX + 256,
};

struct cell {
    struct sse sse;
    struct context *context; /* NULL: the cell is over */
    uint64_t begin_ns, timeout_ms;
};

static struct loop *cell_loop(const struct cell *c)
{
    return http_req_loop(c->sse.req);
}

static struct buf *cell_room(struct cell *c, struct buf *b)
{
    buf_init(b, EVENT_LINE_BYTES_MAX);
    loop_buf_borrow(cell_loop(c), b);
    return b;
}

/* An event that cannot be had or queued must not be missing silently: the stream breaks. */
static void cell_push(struct cell *c, struct buf *b, int r)
{
    if (r == 0)
        r = sse_push_bytes(&c->sse, buf_str(b));
    if (r < 0)
        sse_end(&c->sse, -r);
    loop_buf_return(cell_loop(c), b);
    if (c->context && sse_is_full(&c->sse))
        context_pause(c->context, true);
}

static void cell_push_output(struct cell *c, const char *type, struct str text)
{
    struct buf b;

    cell_push(c, &b, event_output(cell_room(c, &b), type, text, false));
}

static void cell_push_error(struct cell *c, struct str name, struct str value,
                            const struct json *traceback)
{
    struct buf b;

    cell_push(c, &b, event_status(cell_room(c, &b), STR("error")));
    cell_push(c, &b, event_failure(cell_room(c, &b), name, value, traceback));
}

static void cell_complete(struct cell *c)
{
    uint64_t ms = (time_mono_ns() - c->begin_ns) / NS_PER_MS;
    struct buf b;

    cell_push(c, &b, event_complete(cell_room(c, &b), ms));
    sse_end(&c->sse, 0);
}

/* --- what the context tells --- */

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

/* An error whose traceback is its value. */
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
    cell_complete(c);
}

/* The end of the process is that of the cell; it was not completed. */
static void cell_on_death(void *user, const char *why)
{
    struct cell *c = user;

    c->context = NULL;
    cell_push_sentence(c, STR("KernelDied"), str_of(why));
    sse_end(&c->sse, 0);
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

static void cell_on_drain(struct sse *s)
{
    struct cell *c = container_of(s, struct cell, sse);

    if (c->context)
        context_pause(c->context, false);
}

static void cell_on_ping(struct sse *s)
{
    struct cell *c = container_of(s, struct cell, sse);
    struct buf b;

    cell_push(c, &b, event_ping(cell_room(c, &b)));
}

static void cell_on_close(struct sse *s, int error UNUSED)
{
    struct cell *c = container_of(s, struct cell, sse);

    if (c->context)
        context_forget(c->context); /* it runs on */
    free(c);
}

static const struct sse_ops cell_sse_ops = {
    .on_drain = cell_on_drain,
    .on_ping = cell_on_ping,
    .on_close = cell_on_close,
};

static void cell_tell_revival(struct cell *c, const char *why)
{
    char text[SENTENCE_BYTES_MAX];

    (void)snprintf(
        text, sizeof(text),
        "execd: the process of this context had ended (%s); a new one was started, which "
        "knows nothing of earlier cells\n",
        why);
    cell_push_output(c, "stderr", str_of(text));
}

void cell_start(struct http_req *req, const struct cell_run *run)
{
    struct cell *c = mem_new(struct cell);
    char text[SENTENCE_BYTES_MAX];
    struct err e = {0};
    struct buf b;

    c->begin_ns = time_mono_ns();
    c->timeout_ms = run->timeout_ms;
    http_reply_queue_max(req, QUEUE_BYTES_MAX);
    sse_begin(&c->sse, req, &cell_sse_ops);
    sse_set_ping(&c->sse, PING_MS);
    cell_push(c, &b, event_init(cell_room(c, &b), run->context->id));
    cell_on_ping(&c->sse);
    if (run->revived)
        cell_tell_revival(c, run->died_why);
    if (context_run(run->context, run->code, run->timeout_ms, &cell_follower, c, &e) >= 0) {
        c->context = run->context;
        return;
    }
    (void)snprintf(text, sizeof(text), "error running codes %s", e.msg);
    cell_push_sentence(c, STR("RUNTIME_ERROR"), str_of(text));
    sse_end(&c->sse, 0);
}
