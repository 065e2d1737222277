#include "net/sse.h"

#include <errno.h>

#include "net/sse_internal.h"

/* --- formatting --- */

static bool is_one_line(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '\n' || s.p[i] == '\r' || s.p[i] == '\0')
            return false;
    return true;
}

static int add_field(struct buf *out, struct str label, struct str value)
{
    int r = buf_add(out, label);

    if (r == 0)
        r = buf_add(out, value);
    return r < 0 ? r : buf_add_char(out, '\n');
}

/* Cuts the first line and its line break (LF, CR or CRLF) off *text. False when it was the last. */
static bool cut_line(struct str *text, struct str *ret_line)
{
    size_t n = 0;

    while (n < text->n && text->p[n] != '\n' && text->p[n] != '\r')
        n++;
    *ret_line = str_make(text->p, n);
    if (n == text->n)
        return false;
    n += str_starts(str_skip(*text, n), STR("\r\n")) ? 2 : 1;
    *text = str_skip(*text, n);
    return true;
}

static int add_data(struct buf *out, struct str data)
{
    struct str line;
    bool more;
    int r;

    do {
        more = cut_line(&data, &line);
        r = add_field(out, STR("data: "), line);
    } while (r == 0 && more);
    return r;
}

/* Ends an event with its blank line, or on failure removes what was added since `start`. */
static int end_event(struct buf *out, size_t start, int r)
{
    if (r == 0)
        r = buf_add_char(out, '\n');
    if (r < 0)
        buf_cut(out, start);
    return r;
}

int sse_format(struct buf *out, const struct sse_event *ev)
{
    size_t start = out->n;
    int r = 0;

    if (!is_one_line(ev->name) || !is_one_line(ev->id))
        return -EINVAL;
    if (ev->name.n)
        r = add_field(out, STR("event: "), ev->name);
    if (r == 0 && ev->id.n)
        r = add_field(out, STR("id: "), ev->id);
    if (r == 0)
        r = add_data(out, ev->data);
    return end_event(out, start, r);
}

int sse_format_bare(struct buf *out, struct str line)
{
    size_t start = out->n;

    if (!line.n || !is_one_line(line))
        return -EINVAL;
    return end_event(out, start, add_field(out, STR(""), line));
}

int sse_format_comment(struct buf *out, struct str text)
{
    size_t start = out->n;

    if (!is_one_line(text))
        return -EINVAL;
    return end_event(out, start, add_field(out, text.n ? STR(": ") : STR(":"), text));
}

/* --- the reply --- */

void sse_reply_head(struct http_req *req)
{
    /* The names and values are constants: these fail only when memory is out, and the head is valid
     * without them. */
    (void)http_reply_header(req, STR("Cache-Control"), STR("no-cache"));
    (void)http_reply_header(req, STR("X-Accel-Buffering"), STR("no"));
    req->say_keep_alive = true;
    http_reply_begin(req, 200, STR("text/event-stream"), HTTP_UNKNOWN_LENGTH);
}

static void sse_arm_ping(struct sse *s);

static void sse_on_ping(struct loop_timer *t)
{
    struct sse *s = container_of(t, struct sse, ping);

    sse_arm_ping(s);
    if (s->ops->on_ping)
        s->ops->on_ping(s);
    else
        (void)sse_send_comment(s, STR("")); /* a full queue needs no keep-alive */
}

static void sse_arm_ping(struct sse *s)
{
    struct loop *loop = http_req_loop(s->req);

    if (s->ping_ms)
        loop_timer_after(loop, &s->ping, s->ping_ms, sse_on_ping);
    else
        loop_timer_stop(loop, &s->ping);
}

static void sse_on_drain(struct http_req *req)
{
    struct sse *s = req->user;

    if (s->ops->on_drain && !s->ended)
        s->ops->on_drain(s);
}

/* A client that is gone answers the next bytes with a reset; one that only finished sending reads
 * them. */
static void sse_on_hangup(struct http_req *req)
{
    struct sse *s = req->user;

    if (s->ops->on_hangup && !s->ended)
        s->ops->on_hangup(s);
    if (s->ping_ms && s->begun && !s->ended)
        sse_on_ping(&s->ping);
}

static void sse_on_close(struct http_req *req, int error)
{
    struct sse *s = req->user;

    s->ended = true;
    loop_timer_stop(http_req_loop(req), &s->ping);
    if (s->ops->on_close)
        s->ops->on_close(s, error);
}

static const struct http_req_ops sse_req_ops = {
    .on_drain = sse_on_drain,
    .on_hangup = sse_on_hangup,
    .on_close = sse_on_close,
};

void sse_begin(struct sse *s, struct http_req *req, const struct sse_ops *ops)
{
    *s = (struct sse){.req = req, .ops = ops};
    req->ops = &sse_req_ops;
    req->user = s;
}

void sse_set_ping(struct sse *s, uint32_t interval_ms)
{
    s->ping_ms = interval_ms;
    if (s->begun && !s->ended)
        sse_arm_ping(s);
}

/* Nothing more can be sent: the stream was ended, or the request was answered without a stream. */
static bool sse_is_over(const struct sse *s)
{
    return s->ended || (!s->begun && s->req->reply_state != HTTP_REPLY_NONE);
}

static int sse_give(struct sse *s, struct str bytes, int (*give)(struct http_req *, struct str))
{
    int r;

    if (sse_is_over(s) || bytes.n == 0)
        return 0;
    if (!s->begun) {
        s->begun = true;
        sse_reply_head(s->req);
        sse_arm_ping(s);
    }
    r = give(s->req, bytes);
    return r == -EPIPE ? 0 : r; /* the client is gone; on_close will come */
}

int sse_send_bytes(struct sse *s, struct str bytes)
{
    return sse_give(s, bytes, http_reply_write_all);
}

int sse_push_bytes(struct sse *s, struct str bytes)
{
    return sse_give(s, bytes, http_reply_push);
}

bool sse_is_full(struct sse *s)
{
    return s->begun && !s->ended && http_reply_is_full(s->req);
}

/* Borrows a buffer of the loop to format an event. False when the stream is over. */
static bool sse_borrow(struct sse *s, struct buf *b)
{
    if (sse_is_over(s))
        return false;
    buf_init(b, SSE_EVENT_BYTES_MAX);
    loop_buf_borrow(http_req_loop(s->req), b);
    return true;
}

static int sse_send_borrowed(struct sse *s, struct buf *b, int r)
{
    if (r == 0)
        r = sse_send_bytes(s, buf_str(b));
    loop_buf_return(http_req_loop(s->req), b);
    return r;
}

int sse_send(struct sse *s, const struct sse_event *ev)
{
    struct buf b;

    return sse_borrow(s, &b) ? sse_send_borrowed(s, &b, sse_format(&b, ev)) : 0;
}

int sse_send_bare(struct sse *s, struct str line)
{
    struct buf b;

    return sse_borrow(s, &b) ? sse_send_borrowed(s, &b, sse_format_bare(&b, line)) : 0;
}

int sse_send_comment(struct sse *s, struct str text)
{
    struct buf b;

    return sse_borrow(s, &b) ? sse_send_borrowed(s, &b, sse_format_comment(&b, text)) : 0;
}

void sse_end(struct sse *s, int error)
{
    if (sse_is_over(s))
        return;
    s->ended = true;
    loop_timer_stop(http_req_loop(s->req), &s->ping);
    if (!s->begun && error) {
        http_reply_error(s->req, 500, NULL, "the stream failed before its first event");
        return;
    }
    if (!s->begun)
        sse_reply_head(s->req);
    http_reply_end(s->req, error);
}
