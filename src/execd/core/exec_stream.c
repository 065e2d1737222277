#include "execd/core/exec_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/time.h"
#include "execd/core/events.h"
#include "execd/core/lines.h"
#include "net/sse.h"

enum {
    QUEUE_BYTES_MAX = 128 << 10,
    BLOCK_BYTES = 4096, /* stdio's buffer for a pipe has this size or a multiple */
};

/* The state of one output (stdout or stderr). */
struct flow {
    struct exec_stream *stream;
    const char *type; /* of its events */
    struct lines lines;
    uint64_t last_ns; /* time of its last output */
    uint64_t part_ns; /* since when an unsent part of a line waits; 0 = none */
    bool full_blocks; /* its last output was whole blocks: more will follow, even if slowly */
};

struct exec_stream {
    struct sse sse;
    const struct exec_stream_ops *ops; /* NULL: no callbacks */
    void *user;
    struct flow flows[EXEC_OUTPUTS];
    struct loop_timer flush;
    uint64_t begin_ns;
};

static struct loop *loop_of(const struct exec_stream *s)
{
    return http_req_loop(s->sse.req);
}

/* --- events --- */

static_assert(EVENT_BYTES_MAX(LINES_PIECE_MAX) <= EVENT_LINE_BYTES_MAX, "a piece has room");

struct buf *exec_stream_room(struct exec_stream *s, struct buf *b)
{
    buf_init(b, EVENT_LINE_BYTES_MAX);
    loop_buf_borrow(loop_of(s), b);
    return b;
}

/* If an event cannot be built or queued, the stream is broken off: no event may be lost silently.
 */
bool exec_stream_push(struct exec_stream *s, struct buf *b, int r)
{
    if (r == 0)
        r = sse_push_bytes(&s->sse, buf_str(b));
    if (r < 0)
        sse_end(&s->sse, -r);
    loop_buf_return(loop_of(s), b);
    return !sse_is_full(&s->sse);
}

static void flow_give(void *user, struct str text, bool continues)
{
    struct flow *f = user;
    struct exec_stream *s = f->stream;
    struct buf b;

    f->part_ns = 0;
    (void)exec_stream_push(
        s, &b, event_output(exec_stream_room(s, &b), f->type, text, continues, f->lines.open));
}

/* --- unfinished lines --- */

static uint64_t flow_due_ns(const struct flow *f)
{
    uint64_t idle = f->last_ns + EXEC_IDLE_MS * TIME_NS_PER_MS;
    uint64_t aged = f->part_ns + EXEC_AGE_MS * TIME_NS_PER_MS;

    if (!lines_pending(&f->lines))
        return UINT64_MAX;
    if (f->full_blocks)
        return f->last_ns + EXEC_BLOCK_MS * TIME_NS_PER_MS;
    return idle < aged ? idle : aged;
}

static void stream_on_flush(struct loop_timer *t);

static void flush_later(struct exec_stream *s)
{
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < EXEC_OUTPUTS; i++) {
        uint64_t d = flow_due_ns(&s->flows[i]);

        due = d < due ? d : due;
    }
    if (due == UINT64_MAX)
        loop_timer_stop(loop_of(s), &s->flush);
    else
        loop_timer_set(loop_of(s), &s->flush, due, stream_on_flush);
}

/* While the client does not read, or more output is readable, a cut here would not be a pause of
 * the program: the line waits, and stream_on_drain restarts the timer. */
static void stream_on_flush(struct loop_timer *t)
{
    struct exec_stream *s = container_of(t, struct exec_stream, flush);
    uint64_t now = loop_now_ns(loop_of(s));

    if (sse_is_full(&s->sse))
        return;
    for (size_t i = 0; i < EXEC_OUTPUTS; i++) {
        struct flow *f = &s->flows[i];

        if (flow_due_ns(f) > now)
            continue;
        if (!s->ops->has_more || !s->ops->has_more(s->user, i))
            lines_flush(&f->lines);
        f->last_ns = f->part_ns = now; /* less than a character is left */
    }
    flush_later(s);
}

bool exec_stream_output(struct exec_stream *s, enum exec_output from, struct str data)
{
    struct flow *f = &s->flows[from];

    if (!lines_pending(&f->lines))
        f->part_ns = 0;
    if (lines_feed(&f->lines, data) < 0)
        sse_end(&s->sse, ENOMEM);
    f->last_ns = time_mono_ns(); /* not the loop's time: its turn may have begun long ago */
    f->full_blocks = data.n % BLOCK_BYTES == 0;
    if (f->part_ns == 0)
        f->part_ns = f->last_ns;
    flush_later(s);
    return !sse_is_full(&s->sse);
}

/* --- the client --- */

static void stream_on_drain(struct sse *sse)
{
    struct exec_stream *s = container_of(sse, struct exec_stream, sse);

    for (size_t i = 0; i < EXEC_OUTPUTS; i++)
        s->flows[i].last_ns = s->flows[i].part_ns = loop_now_ns(loop_of(s));
    flush_later(s);
    if (s->ops)
        s->ops->on_room(s->user);
}

static void stream_on_ping(struct sse *sse)
{
    struct exec_stream *s = container_of(sse, struct exec_stream, sse);
    struct buf b;

    (void)exec_stream_push(s, &b, event_ping(exec_stream_room(s, &b)));
}

static void stream_on_hangup(struct sse *sse)
{
    struct exec_stream *s = container_of(sse, struct exec_stream, sse);

    if (s->ops && s->ops->on_hangup)
        s->ops->on_hangup(s->user);
}

static void stream_on_close(struct sse *sse, int error UNUSED)
{
    struct exec_stream *s = container_of(sse, struct exec_stream, sse);

    loop_timer_stop(loop_of(s), &s->flush);
    for (size_t i = 0; i < EXEC_OUTPUTS; i++)
        lines_done(&s->flows[i].lines);
    if (s->ops)
        s->ops->on_close(s->user);
    free(s);
}

static const struct sse_ops stream_sse_ops = {
    .on_drain = stream_on_drain,
    .on_ping = stream_on_ping,
    .on_hangup = stream_on_hangup,
    .on_close = stream_on_close,
};

struct exec_stream *exec_stream_begin(struct http_req *req, const char *id,
                                      const struct exec_stream_ops *ops, void *user)
{
    static const char *const types[] = {"stdout", "stderr"};
    struct exec_stream *s = mem_new(struct exec_stream);
    struct buf b;

    s->ops = ops;
    s->user = user;
    s->begin_ns = time_mono_ns();
    for (size_t i = 0; i < EXEC_OUTPUTS; i++) {
        s->flows[i] = (struct flow){.stream = s, .type = types[i]};
        lines_init(&s->flows[i].lines, flow_give, &s->flows[i]);
    }
    http_reply_queue_max(req, QUEUE_BYTES_MAX);
    sse_begin(&s->sse, req, &stream_sse_ops);
    sse_set_ping(&s->sse, EXEC_PING_MS);
    (void)exec_stream_push(s, &b, event_init(exec_stream_room(s, &b), id));
    stream_on_ping(&s->sse);
    return s;
}

/* --- the end --- */

static int last_event(const struct exec_stream *s, struct buf *out, const struct exec_end *end)
{
    char code[16];

    if (!end->error || !end->error[0])
        return event_complete(out, (time_mono_ns() - s->begin_ns) / TIME_NS_PER_MS, end->run);
    (void)snprintf(code, sizeof(code), "%d", end->exit_code);
    return event_error(out, "CommandExecError", end->started ? code : end->error, end->error,
                       end->run);
}

void exec_stream_end(struct exec_stream *s, const struct exec_end *end)
{
    struct buf b;

    s->ops = NULL;
    loop_timer_stop(loop_of(s), &s->flush);
    for (size_t i = 0; i < EXEC_OUTPUTS; i++)
        lines_end(&s->flows[i].lines);
    if (end)
        (void)exec_stream_push(s, &b, last_event(s, exec_stream_room(s, &b), end));
    sse_end(&s->sse, 0);
}
