#include "net/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum {
    SPLICE_BYTES = 64 * 1024, /* the size of a pipe */
    MOVES_PER_TURN = 16,
};

/* Edge-triggered and never re-armed: a side that is blocked by the other must not report again and
 * again that it is readable or gone. An edge is not lost: each side is tried until EAGAIN. */
static const uint32_t side_events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

struct relay_side {
    struct loop_io io;
    struct relay *relay;
};

/* One direction. Bytes go: pending -> dst, then src -> pipe -> dst. */
struct relay_way {
    struct relay_side *src, *dst;
    struct buf pending; /* received or queued before the relay */
    int pipe[2];        /* held only while bytes are in it */
    size_t in_pipe;
    uint64_t moved;
    bool eof, done; /* nothing more to read; all of it passed on */
};

/* One side of a relay whose bytes pass through our memory, as one of its sides is no raw socket. */
struct copy_side {
    struct stream stream;
    struct relay *relay;
    struct copy_side *other;
    uint64_t moved; /* from here to the other */
    bool eof, closed;
};

struct relay {
    struct loop *loop;
    struct relay_conf conf;
    struct copy_side *copies; /* two; NULL: the rest of the struct moves bytes by splice */
    struct relay_side a, b;
    struct relay_way a_to_b, b_to_a;
    struct loop_timer idle;
    struct loop_task turn;  /* starts moving, or reports the end */
    struct loop_yield more; /* continues moving */
    int error;
    bool over;
};

static void relay_on_turn(struct loop_task *t);
static void relay_on_more(struct loop_yield *y);

static void side_close(struct relay_side *s)
{
    int fd = s->io.fd;

    loop_io_stop(s->relay->loop, &s->io);
    fd_close(fd);
}

void relay_stop(struct relay *r, int error)
{
    if (r->over)
        return;
    r->over = true;
    r->error = error;
    loop_timer_stop(r->loop, &r->idle);
    if (r->copies) { /* their ends report */
        stream_close(&r->copies[0].stream, error);
        stream_close(&r->copies[1].stream, error);
        return;
    }
    loop_yield_stop(r->loop, &r->more);
    side_close(&r->a);
    side_close(&r->b);
    loop_pipe_return(r->loop, r->a_to_b.pipe, r->a_to_b.in_pipe == 0);
    loop_pipe_return(r->loop, r->b_to_a.pipe, r->b_to_a.in_pipe == 0);
    buf_done(&r->a_to_b.pending);
    buf_done(&r->b_to_a.pending);
    loop_defer(r->loop, &r->turn, relay_on_turn);
}

/* --- one direction --- */

static int way_send_pending(struct relay_way *w)
{
    ssize_t n = send(w->dst->io.fd, w->pending.p, w->pending.n, MSG_NOSIGNAL);

    if (n < 0)
        return -errno;
    w->moved += (uint64_t)n;
    buf_drop_front(&w->pending, (size_t)n);
    if (w->pending.n == 0)
        buf_done(&w->pending);
    return 1;
}

static int way_send_pipe(struct relay_way *w)
{
    ssize_t n = splice(w->pipe[0], NULL, w->dst->io.fd, NULL, w->in_pipe,
                       SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    if (n < 0)
        return -errno;
    w->moved += (uint64_t)n;
    w->in_pipe -= (size_t)n;
    return 1;
}

static int way_fill_pipe(struct relay_way *w)
{
    struct loop *loop = w->src->relay->loop;
    ssize_t n;
    int r = loop_pipe_borrow(loop, w->pipe);

    if (r < 0)
        return r;
    n = splice(w->src->io.fd, NULL, w->pipe[1], NULL, SPLICE_BYTES,
               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        w->in_pipe = (size_t)n;
        return 1;
    }
    r = n < 0 ? -errno : 0;
    loop_pipe_return(loop, w->pipe, true);
    return r;
}

/* Moves what can be moved now: 1 = some, 0 = blocked or done, -errno. */
static int way_step(struct relay_way *w)
{
    int r;

    if (w->pending.n || w->in_pipe) {
        r = w->pending.n ? way_send_pending(w) : way_send_pipe(w);
        if (r > 0 && w->in_pipe == 0)
            loop_pipe_return(w->src->relay->loop, w->pipe, true);
    } else if (w->eof) {
        w->done = true;
        return shutdown(w->dst->io.fd, SHUT_WR) < 0 && errno != ENOTCONN ? -errno : 0;
    } else {
        r = way_fill_pipe(w);
        if (r == 0) {
            w->eof = true;
            return 1;
        }
    }
    return r == -EAGAIN || r == -EINTR ? 0 : r;
}

/* Until blocked, done or over its share of the turn: then *ret_more is set. */
static int way_pump(struct relay_way *w, bool *ret_progress, bool *ret_more)
{
    for (int i = 0; i < MOVES_PER_TURN; i++) {
        int r = w->done ? 0 : way_step(w);

        if (r <= 0)
            return r;
        *ret_progress = true;
    }
    *ret_more = true;
    return 0;
}

/* --- both --- */

static void relay_on_idle(struct loop_timer *t)
{
    relay_stop(container_of(t, struct relay, idle), ETIMEDOUT);
}

void relay_end_b(struct relay *r)
{
    if (!r->over)
        (void)shutdown(r->copies ? r->copies[1].stream.io.fd : r->b.io.fd, SHUT_RD);
}

static void relay_touch(struct relay *r)
{
    if (r->conf.idle_ms)
        loop_timer_after(r->loop, &r->idle, r->conf.idle_ms, relay_on_idle);
}

static void relay_pump(struct relay *r)
{
    bool progress = false, more = false;
    int error = way_pump(&r->a_to_b, &progress, &more);

    if (error == 0)
        error = way_pump(&r->b_to_a, &progress, &more);
    if (error < 0 || (r->a_to_b.done && r->b_to_a.done)) {
        relay_stop(r, -error);
        return;
    }
    if (progress)
        relay_touch(r);
    if (more)
        loop_yield(r->loop, &r->more, relay_on_more);
}

static void relay_on_more(struct loop_yield *y)
{
    relay_pump(container_of(y, struct relay, more));
}

static void relay_report(struct relay *r)
{
    struct relay_result result = {
        .error = r->error,
        .bytes_a_to_b = r->copies ? r->copies[0].moved : r->a_to_b.moved,
        .bytes_b_to_a = r->copies ? r->copies[1].moved : r->b_to_a.moved,
    };

    if (r->conf.on_done)
        r->conf.on_done(r->conf.user, &result);
    free(r->copies);
    free(r);
}

static void relay_on_turn(struct loop_task *t)
{
    struct relay *r = container_of(t, struct relay, turn);

    if (r->over)
        relay_report(r);
    else
        relay_pump(r);
}

static void side_on_ready(struct loop_io *io, uint32_t events)
{
    struct relay *r = container_of(io, struct relay_side, io)->relay;

    relay_pump(r);
    if (!r->over && (events & EPOLLERR))
        relay_stop(r, ECONNRESET); /* closed both ways while nothing was reading it */
}

static void way_init(struct relay_way *w, struct relay_side *src, struct relay_side *dst)
{
    *w = (struct relay_way){
        .src = src, .dst = dst, .pipe = {-EBADF, -EBADF}
    };
    buf_init(&w->pending, STREAM_OUT_BYTES_MAX + STREAM_IN_BYTES_MAX);
}

/* First the output that `dst` had queued, then the input that `src` had received. */
static int way_inherit(struct relay_way *w, struct buf *dst_out, struct buf *src_in)
{
    int r = buf_add(&w->pending, buf_str(dst_out));

    return r < 0 ? r : buf_add(&w->pending, buf_str(src_in));
}

/* --- by copying --- */

static size_t copy_on_data(struct stream *s, char *p, size_t n)
{
    struct copy_side *side = container_of(s, struct copy_side, stream);
    struct stream *to = &side->other->stream;
    size_t taken = min_size(n, stream_room(to));
    int r;

    if (side->other->closed)
        return n;
    r = stream_write(to, str_make(p, taken));
    if (r < 0) {
        relay_stop(side->relay, -r);
        return n;
    }
    side->moved += taken;
    relay_touch(side->relay);
    if (taken < n) {
        stream_pause(s);
        stream_want_drain(to);
    }
    return taken;
}

static void copy_on_drain(struct stream *s)
{
    struct copy_side *side = container_of(s, struct copy_side, stream);

    relay_touch(side->relay);
    if (!side->other->closed)
        stream_resume(&side->other->stream);
}

static void copy_on_eof(struct stream *s)
{
    struct copy_side *side = container_of(s, struct copy_side, stream);

    side->eof = true;
    if (!side->other->eof) {
        stream_half_close(&side->other->stream);
        return;
    }
    stream_finish(s, false);
    stream_finish(&side->other->stream, false);
}

static void copy_on_close(struct stream *s, int error)
{
    struct copy_side *side = container_of(s, struct copy_side, stream);
    struct relay *r = side->relay;

    side->closed = true;
    if (error)
        relay_stop(r, error); /* the first error is the one that is told */
    if (!side->other->closed)
        return;
    loop_timer_stop(r->loop, &r->idle);
    relay_report(r);
}

static const struct stream_ops copy_ops = {
    .on_data = copy_on_data,
    .on_eof = copy_on_eof,
    .on_drain = copy_on_drain,
    .on_close = copy_on_close,
};

static int copy_start(struct relay *r, struct copy_side *side, struct stream_parts *parts,
                      struct err *e)
{
    int error;

    side->relay = r;
    error = stream_attach(&side->stream, r->loop, parts, &copy_ops, e);
    side->stream.stall_ms = UINT32_MAX; /* idle_ms is the limit */
    return error;
}

static int relay_start_copies(struct relay *r, struct stream_parts *a, struct stream_parts *b,
                              struct err *e)
{
    int error;

    r->copies = mem_new_array(struct copy_side, 2);
    r->copies[0].other = &r->copies[1];
    r->copies[1].other = &r->copies[0];
    error = copy_start(r, &r->copies[0], a, e);
    if (error < 0) {
        free(r->copies);
        free(r);
        return error;
    }
    error = copy_start(r, &r->copies[1], b, e);
    if (error < 0) { /* the first goes back; its end frees the relay */
        r->conf.on_done = NULL;
        r->copies[1].closed = true;
        stream_detach(&r->copies[0].stream, a);
        return error;
    }
    relay_touch(r);
    return 0;
}

/* --- the start --- */

static int relay_start_splice(struct relay *r, struct stream_parts *a, struct stream_parts *b,
                              struct err *e)
{
    struct loop *loop = r->loop;
    int error;

    r->a.relay = r->b.relay = r;
    way_init(&r->a_to_b, &r->a, &r->b);
    way_init(&r->b_to_a, &r->b, &r->a);
    error = way_inherit(&r->a_to_b, &b->out, &a->in);
    if (error == 0)
        error = way_inherit(&r->b_to_a, &a->out, &b->in);
    if (error < 0)
        error = err_sys(e, -error, "relay");
    if (error == 0)
        error = loop_io_start(loop, &r->a.io, a->fd, side_events, side_on_ready, e);
    if (error == 0) {
        error = loop_io_start(loop, &r->b.io, b->fd, side_events, side_on_ready, e);
        if (error < 0)
            loop_io_stop(loop, &r->a.io);
    }
    if (error < 0) {
        buf_done(&r->a_to_b.pending);
        buf_done(&r->b_to_a.pending);
        free(r);
        return error;
    }
    a->fd = b->fd = -EBADF;
    stream_parts_done(a);
    stream_parts_done(b);
    relay_touch(r);
    loop_defer(loop, &r->turn, relay_on_turn);
    return 0;
}

int relay_start(struct loop *loop, struct stream_parts *a, struct stream_parts *b,
                const struct relay_conf *conf, struct relay **ret_relay, struct err *e)
{
    struct relay *r = mem_new(struct relay);
    int error;

    r->loop = loop;
    r->conf = *conf;
    error = a->transport->raw && b->transport->raw ? relay_start_splice(r, a, b, e)
                                                   : relay_start_copies(r, a, b, e);
    if (error == 0 && ret_relay)
        *ret_relay = r;
    return error;
}
