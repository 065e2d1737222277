#include "server/core/execd_call.h"

#include <errno.h>

#include "api/execd.h"
#include "base/map.h"
#include "base/time.h"
#include "base/trace.h"

enum {
    TEXT_MAX = 64 << 10, /* kept of an answer */
    EVENT_ARENA_MAX = 1 << 20,
};

static void fail_by_event(const struct api_event *event, struct err *e)
{
    (void)err_set(e, EIO, "%.*s: %.*s", STR_ARG(event->error_name), STR_ARG(event->error_value));
}

/* True when this is the last event that counts. */
static bool is_last_event(struct str text, struct err *e)
{
    AUTO_ARENA(arena, EVENT_ARENA_MAX);
    struct api_event event;
    struct json *tree;

    /* Output may come in a million events: it is not parsed. */
    if (str_starts(text, STR("{\"type\":\"std")))
        return false;
    if (str_starts(text, STR("data:")))
        text = str_trim(str_skip(text, 5));
    if (json_parse(&arena, text, NULL, &tree, NULL) < 0 ||
        api_event_read(&arena, tree, &event, NULL) < 0)
        return false;
    if (event.type == API_EVENT_ERROR)
        fail_by_event(&event, e);
    return event.type == API_EVENT_ERROR || event.type == API_EVENT_COMPLETE;
}

/* Takes whole lines off the text. True when the last event is among them. */
static bool find_last_event(struct execd_call *c, struct err *e)
{
    struct str rest = buf_str(&c->text), line;
    bool last = false;

    while (!last && str_find(rest, '\n') < rest.n) {
        (void)str_cut(&rest, '\n', &line);
        last = is_last_event(str_trim(line), e);
    }
    buf_drop_front(&c->text, c->text.n - rest.n);
    return last;
}

/* Takes as much of the piece as has room. A line that does not fit is output, which does not
 * matter: the last event is short. */
static struct str keep_text(struct execd_call *c, struct str piece)
{
    size_t n;

    if (c->text.n == TEXT_MAX)
        buf_clear(&c->text);
    n = min_size(piece.n, TEXT_MAX - c->text.n);
    (void)buf_add(&c->text, str_make(piece.p, n));
    return str_skip(piece, n);
}

static ssize_t on_body(struct http_call *call, struct str piece)
{
    struct execd_call *c = call->user;
    struct str rest = piece;

    while (rest.n > 0) {
        rest = keep_text(c, rest);
        if (!c->is_stream || call->head.status != 200 || !find_last_event(c, &c->why))
            continue;
        c->settled = true;
        return -ECANCELED; /* the rest does not matter */
    }
    return (ssize_t)piece.n;
}

static void fail_by_answer(const struct execd_call *c, const struct http_call *call, struct err *e)
{
    (void)err_set(e, EIO, "execd answered %d: %.*s", call->head.status,
                  (int)min_size(c->text.n, 160), c->text.p);
}

static void on_end(struct http_call *call, int error)
{
    struct execd_call *c = call->user;
    struct err e = c->why;

    if (!c->settled && error)
        e = call->err;
    else if (!c->settled && call->head.status / 100 != 2)
        fail_by_answer(c, call, &e);
    else if (!c->settled && c->is_stream)
        (void)err_set(&e, EIO, "execd's answer ended early");
    if (!c->settled && error && !e.code)
        (void)err_sys(&e, error, "ask execd");
    c->call = NULL;
    loop_timer_stop(c->loop, &c->timer);
    buf_done(&c->text);
    c->done(c, &e);
}

static const struct http_call_ops call_ops = {.on_body = on_body, .on_end = on_end};

static void on_late(struct loop_timer *timer)
{
    struct execd_call *c = container_of(timer, struct execd_call, timer);
    struct err e = {0};

    execd_call_cancel(c);
    (void)err_set(&e, ETIMEDOUT, "it took too long");
    c->done(c, &e);
}

int execd_call_start(struct execd_call *c, struct http_client *client, struct runtime *rt,
                     const struct execd_request *request,
                     void (*done)(struct execd_call *c, const struct err *e), struct err *e)
{
    static const uint64_t no_seed[2] = {0};
    struct runtime_endpoint endpoint = {0};
    struct http_header headers[RUNTIME_ENDPOINT_HEADERS_MAX + 2];
    char parent[TRACE_PARENT_MAX];
    struct http_call_spec spec = {
        .addr = &endpoint.addr,
        .group = map_hash(no_seed, request->sandbox_id), /* addresses are used again */
        .method = HTTP_POST,
        .target = request->target,
        .host = STR("execd"),
        .headers = headers,
        .body = request->body,
        .ops = &call_ops,
        .user = c,
    };
    int r = rt->ops->endpoint(rt, request->sandbox_id, &endpoint);

    if (r < 0)
        return err_set(e, -r, "the sandbox has no address");
    headers[spec.header_count++] = (struct http_header){STR("Content-Type"), request->content_type};
    for (size_t i = 0; i < endpoint.header_count; i++)
        headers[spec.header_count++] = endpoint.headers[i];
    if (trace_current()) {
        trace_format(trace_current(), parent);
        headers[spec.header_count++] = (struct http_header){STR("traceparent"), str_of(parent)};
    }
    *c = (struct execd_call){.done = done, .loop = http_client_loop(client)};
    c->is_stream = request->is_stream;
    buf_init(&c->text, TEXT_MAX);
    r = http_call_start(client, &spec, &c->call, e);
    if (r < 0)
        return r;
    loop_timer_set(c->loop, &c->timer, deadline_in_ms(request->limit_ms), on_late);
    return 0;
}

void execd_call_cancel(struct execd_call *c)
{
    if (!c->call)
        return;
    http_call_cancel(c->call);
    c->call = NULL;
    loop_timer_stop(c->loop, &c->timer);
    buf_done(&c->text);
}
