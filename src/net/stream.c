#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"

enum {
    RECVS_PER_EVENT = 4,      /* then others get their turn */
    SENDFILE_BYTES = 1 << 20, /* per call */
    SENDFILES_PER_TURN = 2,
    FILE_READ_BYTES = 128 * 1024, /* at a time, where sendfile cannot be used */
    LINGER_MS = 2000,
    LINGER_BYTES_MAX = 64 << 20,
};

static void stream_on_turn(struct loop_task *t);
static void stream_on_ready(struct loop_io *io, uint32_t events);

/* --- transport --- */

static ssize_t plain_recv(struct stream *s, char *p, size_t n)
{
    ssize_t r;

    do
        r = recv(s->io.fd, p, n, 0);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static ssize_t plain_send(struct stream *s, const char *p, size_t n, bool more)
{
    ssize_t r;

    do
        r = send(s->io.fd, p, n, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

const struct stream_transport stream_plain = {.recv = plain_recv, .send = plain_send, .raw = true};

const char *stream_problem(const struct stream *s)
{
    return s->session && s->transport->problem ? s->transport->problem(s->session) : NULL;
}

/* Whether something can be received now that no EPOLLIN will announce. */
static bool stream_is_pending(const struct stream *s)
{
    return s->session && !s->opening && !s->eof && s->state == STREAM_OPEN &&
           s->transport->pending(s);
}

/* --- ends --- */

static void stream_watch(struct stream *s, uint32_t set, uint32_t clear)
{
    loop_io_set(s->loop, &s->io, (s->io.events | set) & ~clear);
}

static void stream_on_stall(struct loop_timer *t)
{
    struct stream *s = container_of(t, struct stream, stall);

    stream_close(s, s->state == STREAM_LINGERING ? s->error : ETIMEDOUT);
}

static void stream_arm_stall(struct stream *s, uint32_t ms)
{
    loop_timer_after(s->loop, &s->stall, ms, stream_on_stall);
}

void stream_close(struct stream *s, int error)
{
    int fd = s->io.fd;

    if (s->state == STREAM_CLOSED)
        return;
    /* An orderly end; one that comes with an error must show as a broken one. */
    if (s->session && s->state == STREAM_OPEN && !s->opening && error == 0 && !stream_queued(s))
        (void)s->transport->end(s);
    s->state = STREAM_CLOSED;
    s->error = error;
    loop_timer_stop(s->loop, &s->stall);
    loop_yield_stop(s->loop, &s->yield);
    loop_io_stop(s->loop, &s->io);
    fd_close(fd);
    loop_buf_return(s->loop, &s->out);
    s->out_at = 0;
    s->file_left = 0;
    loop_defer(s->loop, &s->turn, stream_on_turn);
}

void stream_reset(struct stream *s, int error)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (s->state != STREAM_CLOSED)
        (void)setsockopt(s->io.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    stream_close(s, error);
}

void stream_finish(struct stream *s, bool linger)
{
    if (s->state != STREAM_OPEN)
        return;
    s->state = STREAM_FINISHING;
    s->linger = linger;
    stream_flush_soon(s);
}

/* Closing a socket with unread input makes the kernel send a reset, which can destroy our last
 * output. */
bool stream_has_unread(const struct stream *s)
{
    int n = 0;

    return s->in.n > 0 || stream_is_pending(s) || (ioctl(s->io.fd, FIONREAD, &n) == 0 && n > 0);
}

bool stream_has_news(const struct stream *s)
{
    char byte;

    return s->in.n > 0 || stream_is_pending(s) ||
           recv(s->io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

void stream_half_close(struct stream *s)
{
    if (s->state != STREAM_OPEN)
        return;
    s->end_due = true;
    stream_flush_soon(s);
}

/* Tells the peer that all is sent and waits a moment for it to hang up; then on_close gets the
 * error. */
static void stream_linger(struct stream *s, int error)
{
    if (shutdown(s->io.fd, SHUT_WR) < 0) {
        stream_close(s, error);
        return;
    }
    s->error = error;
    s->state = STREAM_LINGERING;
    s->recv_blocked = false;
    s->bytes_in = 0; /* counts what lingering discards */
    stream_watch(s, EPOLLIN, EPOLLOUT);
    stream_arm_stall(s, LINGER_MS);
}

/* Everything is sent: close, or linger. */
static void stream_end_output(struct stream *s)
{
    if (!s->eof && (s->linger || stream_has_unread(s)))
        stream_linger(s, 0);
    else
        stream_close(s, 0);
}

void stream_parts_done(struct stream_parts *p)
{
    if (p->session)
        p->transport->session_free(p->session);
    p->session = NULL;
    fd_close(take_fd(&p->fd));
    buf_done(&p->in);
    buf_done(&p->out);
}

void stream_detach(struct stream *s, struct stream_parts *ret_parts)
{
    assert(s->state == STREAM_OPEN && s->file_left == 0 && !s->opening);
    ret_parts->fd = s->io.fd;
    ret_parts->transport = s->transport;
    ret_parts->session = s->session;
    ret_parts->sendfile_ok = s->sendfile_ok;
    s->transport = &stream_plain;
    s->session = NULL;
    loop_io_stop(s->loop, &s->io);
    ret_parts->in = s->in;
    buf_init(&s->in, s->in.max);
    buf_drop_front(&s->out, s->out_at);
    ret_parts->out = s->out;
    buf_init(&s->out, s->out.max);
    stream_close(s, 0);
}

/* --- output --- */

/* 1 = sent something and may continue, 0 = the socket is full, -errno. */
static int stream_send_queued(struct stream *s)
{
    ssize_t r = s->transport->send(s, s->out.p + s->out_at, s->out.n - s->out_at, s->file_left > 0);

    if (r < 0)
        return r == -EAGAIN ? 0 : (int)r;
    s->bytes_out += (uint64_t)r;
    s->out_at += (size_t)r;
    if (s->out_at == s->out.n) {
        s->out_at = 0;
        loop_buf_return(s->loop, &s->out);
    }
    return 1;
}

/* Where the transport must see the bytes: the next of the file go into the queue. */
static int stream_read_file_piece(struct stream *s)
{
    size_t n = min_size(s->file_left, FILE_READ_BYTES);
    struct buf *out = stream_out(s);
    ssize_t r = buf_reserve(out, n);

    if (r < 0)
        return (int)r;
    r = pread(s->file_fd, out->p + out->n, n, (off_t)s->file_at);
    if (r <= 0)
        return r == 0 ? -EIO : -errno;
    buf_claim(out, (size_t)r);
    s->file_at += r;
    s->file_left -= (uint64_t)r;
    return 1;
}

static int stream_send_file_piece(struct stream *s)
{
    off_t at = (off_t)s->file_at;
    ssize_t r;

    if (!s->sendfile_ok)
        return stream_read_file_piece(s);
    r = sendfile(s->io.fd, s->file_fd, &at, min_size(s->file_left, SENDFILE_BYTES));

    if (r < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (r == 0)
        return -EIO; /* the file was truncated: the announced length cannot be kept */
    s->bytes_out += (uint64_t)r;
    s->file_at = at;
    s->file_left -= (uint64_t)r;
    return 1;
}

/* Sends until done or the socket is full. */
static int stream_send_some(struct stream *s, bool *ret_progress)
{
    int pieces = 0, r = 1;

    while (r > 0 && stream_queued(s) > 0) {
        if (s->out.n)
            r = stream_send_queued(s);
        else if (pieces++ < SENDFILES_PER_TURN)
            r = stream_send_file_piece(s);
        else
            return 0; /* let others run first; EPOLLOUT calls us again */
        if (r > 0)
            *ret_progress = true;
    }
    return r < 0 ? r : 0;
}

/* Before the handshake is over nothing can be sent: what is queued waits, but not for ever. */
static void stream_flush_opening(struct stream *s)
{
    if (s->state == STREAM_FINISHING)
        stream_close(s, 0);
    else if (stream_queued(s) > 0 && !loop_timer_armed(&s->stall))
        stream_arm_stall(s, s->stall_ms);
}

/* The queue is sent and no more will follow: the peer is told so. */
static void stream_flush_end(struct stream *s)
{
    if (s->session && s->transport->end(s) == -EAGAIN) {
        stream_arm_stall(s, s->stall_ms);
        stream_watch(s, EPOLLOUT, 0);
        return;
    }
    s->end_due = false;
    if (s->state == STREAM_FINISHING)
        stream_end_output(s);
    else
        (void)shutdown(s->io.fd, SHUT_WR); /* it fails where the peer is gone: on_close tells */
}

static void stream_flush(struct stream *s)
{
    bool progress = false;
    int r;

    if (s->opening) {
        stream_flush_opening(s);
        return;
    }
    r = stream_send_some(s, &progress);
    if (r < 0) {
        stream_close(s, -r);
        return;
    }
    if (stream_queued(s) > 0) {
        if (progress || !loop_timer_armed(&s->stall))
            stream_arm_stall(s, s->stall_ms);
        stream_watch(s, EPOLLOUT, 0);
    } else {
        loop_timer_stop(s->loop, &s->stall);
        stream_watch(s, 0, s->recv_blocked ? 0 : EPOLLOUT);
        if (s->state == STREAM_FINISHING || s->end_due)
            stream_flush_end(s);
        if (s->state != STREAM_OPEN)
            return;
    }
    if (s->want_drain && stream_queued(s) <= stream_low(s) && s->file_left == 0) {
        s->want_drain = false;
        s->ops->on_drain(s);
    }
}

void stream_flush_soon(struct stream *s)
{
    loop_defer(s->loop, &s->turn, stream_on_turn);
}

/* A queue that is never empty must drop what was sent. Moving only when the unsent part is smaller
 * than the gap moves each byte at most once. */
static void stream_compact(struct stream *s)
{
    if (s->out_at <= s->out.n - s->out_at)
        return;
    buf_drop_front(&s->out, s->out_at);
    s->out_at = 0;
}

struct buf *stream_out(struct stream *s)
{
    if (!s->out.cap)
        loop_buf_borrow(s->loop, &s->out);
    s->out.wipe |= s->secret;
    stream_compact(s);
    return &s->out;
}

void stream_keep_secret(struct stream *s)
{
    s->secret = true;
    s->in.wipe |= s->in.cap > 0;
    s->out.wipe |= s->out.cap > 0;
}

int stream_write(struct stream *s, struct str data)
{
    int r;

    if (s->state != STREAM_OPEN || data.n == 0)
        return 0;
    assert(s->file_left == 0);
    r = buf_add(stream_out(s), data);
    if (r < 0)
        return r;
    stream_flush_soon(s);
    return 0;
}

size_t stream_queued(const struct stream *s)
{
    return s->out.n - s->out_at + s->file_left;
}

size_t stream_room(const struct stream *s)
{
    size_t queued = stream_queued(s);

    return queued < s->high_bytes ? s->high_bytes - queued : 0;
}

size_t stream_low(const struct stream *s)
{
    return s->high_bytes / STREAM_LOW_SHARE;
}

void stream_set_high(struct stream *s, uint32_t high_bytes)
{
    s->high_bytes = high_bytes;
}

void stream_want_drain(struct stream *s)
{
    s->want_drain = true;
    stream_flush_soon(s);
}

void stream_send_file(struct stream *s, int fd, int64_t offset, uint64_t n)
{
    assert(s->file_left == 0);
    if (s->state != STREAM_OPEN)
        return;
    s->file_fd = fd;
    s->file_at = offset;
    s->file_left = n;
    stream_want_drain(s);
}

/* --- input --- */

struct str stream_kept(const struct stream *s)
{
    return buf_str(&s->in);
}

void stream_pause(struct stream *s)
{
    s->paused = true; /* EPOLLIN is cleared only if something arrives meanwhile */
}

void stream_resume(struct stream *s)
{
    if (!s->paused || s->state != STREAM_OPEN)
        return;
    s->paused = false;
    if (s->yield.queued)
        return; /* the yield offers it again */
    if (!s->eof)
        stream_watch(s, EPOLLIN, 0);
    if (s->in.n || (s->eof && !s->eof_told) || stream_is_pending(s)) {
        s->offer_again = true;
        loop_defer(s->loop, &s->turn, stream_on_turn);
    }
}

/* Offers bytes to the owner and keeps the rest. `kept`: they are s->in itself. */
static void stream_offer(struct stream *s, char *p, size_t n, bool kept)
{
    size_t taken = s->ops->on_data(s, p, n);

    assert(taken <= n);
    if (s->state == STREAM_CLOSED)
        return;
    if (kept) {
        buf_drop_front(&s->in, taken);
        if (!s->in.n)
            loop_buf_return(s->loop, &s->in);
    } else if (taken < n) {
        loop_buf_borrow(s->loop, &s->in);
        s->in.wipe |= s->secret;
        if (buf_add(&s->in, str_make(p + taken, n - taken)) < 0)
            stream_close(s, ENOBUFS);
    }
}

/* Calls on_eof once, after all earlier input was offered. */
static void stream_tell_eof(struct stream *s)
{
    if (!s->eof || s->eof_told || s->paused || s->offer_again || s->yield.queued ||
        s->state != STREAM_OPEN)
        return;
    s->eof_told = true;
    if (s->ops->on_eof)
        s->ops->on_eof(s);
    else
        stream_finish(s, false);
}

/* Receives once. Returns whether to receive again now. */
static bool stream_receive(struct stream *s)
{
    size_t room = min_size(s->recv_bytes, STREAM_IN_BYTES_MAX - s->in.n);
    char *p = loop_scratch(s->loop);
    ssize_t r = room ? s->transport->recv(s, p, room) : -ENOBUFS;

    if (r == -EAGAIN)
        return false;
    if (r == -EBUSY) {
        s->recv_blocked = true;
        stream_watch(s, EPOLLOUT, EPOLLIN);
        return false;
    }
    if (r < 0) {
        stream_close(s, (int)-r);
        return false;
    }
    if (r == 0) {
        s->eof = true;
        stream_watch(s, 0, EPOLLIN | EPOLLRDHUP);
        stream_tell_eof(s);
        return false;
    }
    s->bytes_in += (uint64_t)r;
    if (s->in.n == 0)
        stream_offer(s, p, (size_t)r, false);
    else if (buf_add(&s->in, str_make(p, (size_t)r)) == 0)
        stream_offer(s, s->in.p, s->in.n, true);
    else
        stream_close(s, ENOBUFS);
    if (s->secret)
        mem_wipe(p, (size_t)r);
    return (size_t)r == room && s->state == STREAM_OPEN && !stream_is_held(s);
}

static void stream_discard(struct stream *s)
{
    const struct stream_transport *t = s->opening ? &stream_plain : s->transport;
    ssize_t r = t->recv(s, loop_scratch(s->loop), LOOP_SCRATCH_BYTES);

    if (r > 0)
        s->bytes_in += (uint64_t)r;
    if (r == 0 || (r < 0 && r != -EAGAIN) || s->bytes_in > LINGER_BYTES_MAX)
        stream_close(s, s->error);
}

static void stream_on_readable(struct stream *s)
{
    if (s->state == STREAM_LINGERING) {
        stream_discard(s);
        return;
    }
    if (stream_is_held(s) || s->state == STREAM_FINISHING) {
        stream_watch(s, 0, EPOLLIN);
        return;
    }
    for (int i = 0; i < RECVS_PER_EVENT; i++)
        if (!stream_receive(s) && (!stream_is_pending(s) || stream_is_held(s)))
            return;
    if (stream_is_pending(s) && !stream_is_held(s) && !s->recv_blocked)
        stream_yield(s); /* others first */
}

/* --- the handshake --- */

static void stream_handshake(struct stream *s)
{
    uint32_t hangup = s->ops->on_hangup ? EPOLLRDHUP : 0;
    int r = s->transport->handshake(s);

    if (r == -EPROTO && s->linger) { /* a reset would overtake the alert that says why */
        stream_linger(s, EPROTO);
        return;
    }
    if (r < 0) {
        stream_close(s, -r);
        return;
    }
    if (r > 0) { /* only that: the other event may be there all the time */
        stream_watch(s, (uint32_t)r, (EPOLLIN | EPOLLOUT | EPOLLRDHUP) & ~(uint32_t)r);
        return;
    }
    s->opening = false;
    stream_watch(s, EPOLLIN | hangup, EPOLLOUT);
    s->offer_again = true; /* something may have come with the end of the handshake */
    stream_flush_soon(s);
}

/* --- events --- */

static int stream_socket_error(const struct stream *s)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(s->io.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return errno;
    return error;
}

/* A stream that is reading finds the end of input by itself. */
static void stream_on_rdhup(struct stream *s)
{
    if (s->state == STREAM_OPEN && !stream_is_held(s))
        return;
    stream_watch(s, 0, EPOLLRDHUP);
    s->hangup_held = s->yield.queued;
    if (s->state == STREAM_OPEN && !s->hangup_held)
        s->ops->on_hangup(s);
}

static void stream_unblock(struct stream *s)
{
    s->recv_blocked = false;
    if (!s->eof)
        stream_watch(s, EPOLLIN, 0);
    stream_on_readable(s);
}

static void stream_on_ready(struct loop_io *io, uint32_t events)
{
    struct stream *s = container_of(io, struct stream, io);

    if (s->opening && s->state == STREAM_OPEN && events & (EPOLLIN | EPOLLOUT))
        stream_handshake(s);
    else if (events & EPOLLIN)
        stream_on_readable(s);
    else if (s->recv_blocked && events & EPOLLOUT)
        stream_unblock(s);
    if (s->state != STREAM_CLOSED && (events & EPOLLRDHUP))
        stream_on_rdhup(s);
    if (s->state != STREAM_CLOSED && (events & EPOLLOUT))
        stream_flush(s);
    /* Both directions are gone and nothing is left to read that anyone waits for. One that yielded
     * goes on reading in a moment. */
    if (s->state != STREAM_CLOSED && (events & (EPOLLERR | EPOLLHUP)) && !s->yield.queued &&
        !(events & EPOLLIN && !stream_is_held(s))) {
        int error = stream_socket_error(s);

        stream_close(s, error ? error : ECONNRESET);
    }
}

static void stream_offer_again(struct stream *s)
{
    s->offer_again = false;
    if (s->in.n && !stream_is_held(s))
        stream_offer(s, s->in.p, s->in.n, true);
    if (stream_is_pending(s) && !stream_is_held(s))
        stream_on_readable(s);
    stream_tell_eof(s);
}

static void stream_on_yield_over(struct loop_yield *y)
{
    struct stream *s = container_of(y, struct stream, yield);

    if (s->state != STREAM_OPEN)
        return;
    if (s->hangup_held)
        stream_watch(s, EPOLLRDHUP, 0);
    s->hangup_held = false;
    if (s->paused)
        return; /* stream_resume offers */
    if (!s->eof)
        stream_watch(s, EPOLLIN, 0);
    stream_offer_again(s);
}

void stream_yield(struct stream *s)
{
    loop_yield(s->loop, &s->yield, stream_on_yield_over);
}

int stream_pieces_max(const struct stream *s)
{
    return loop_should_yield_early(s->loop) ? STREAM_PIECES_MAX_CROWDED : STREAM_PIECES_MAX;
}

void stream_set_recv(struct stream *s, uint32_t recv_bytes)
{
    s->recv_bytes = recv_bytes;
}

static void stream_on_turn(struct loop_task *t)
{
    struct stream *s = container_of(t, struct stream, turn);
    const struct stream_transport *transport;
    void *session;

    if (s->offer_again && s->state == STREAM_OPEN)
        stream_offer_again(s);
    if (s->state == STREAM_OPEN || s->state == STREAM_FINISHING)
        stream_flush(s);
    if (s->state != STREAM_CLOSED || s->turn.queued)
        return;
    loop_buf_return(s->loop, &s->in);
    loop_buf_return(s->loop, &s->out); /* someone may have written after the end */
    transport = s->transport;
    session = s->session;
    s->ops->on_close(s, s->error); /* may free s */
    if (session)
        transport->session_free(session);
}

int stream_start(struct stream *s, struct loop *loop, int fd, const struct stream_ops *ops,
                 struct err *e)
{
    *s = (struct stream){
        .loop = loop,
        .ops = ops,
        .transport = &stream_plain,
        .file_fd = -EBADF,
        .stall_ms = STREAM_STALL_MS_DEFAULT,
        .high_bytes = STREAM_HIGH_BYTES,
        .recv_bytes = LOOP_SCRATCH_BYTES,
        .sendfile_ok = true,
    };
    buf_init(&s->in, STREAM_IN_BYTES_MAX);
    buf_init(&s->out, STREAM_OUT_BYTES_MAX);
    return loop_io_start(loop, &s->io, fd, EPOLLIN | (ops->on_hangup ? EPOLLRDHUP : 0),
                         stream_on_ready, e);
}

int stream_start_secure(struct stream *s, struct loop *loop, int fd,
                        struct stream_security *security, struct str host,
                        const struct stream_ops *ops, struct err *e)
{
    void *session = NULL;
    int r = security ? security->session_new(security, fd, host, &session, e) : 0;

    if (r < 0)
        return r;
    r = stream_start(s, loop, fd, ops, e);
    if (!security)
        return r;
    if (r < 0) {
        security->transport->session_free(session);
        return r;
    }
    s->transport = security->transport;
    s->session = session;
    s->opening = true;
    s->linger = security->first_event == EPOLLIN;
    s->sendfile_ok = false;
    stream_watch(s, security->first_event, (EPOLLIN | EPOLLRDHUP) & ~security->first_event);
    return 0;
}

int stream_attach(struct stream *s, struct loop *loop, struct stream_parts *parts,
                  const struct stream_ops *ops, struct err *e)
{
    int r = stream_start(s, loop, parts->fd, ops, e);

    if (r < 0)
        return r;
    parts->fd = -EBADF;
    s->transport = parts->transport;
    s->session = parts->session;
    s->sendfile_ok = parts->sendfile_ok;
    parts->session = NULL;
    s->in = parts->in;
    s->out = parts->out;
    buf_init(&parts->in, STREAM_IN_BYTES_MAX);
    buf_init(&parts->out, STREAM_OUT_BYTES_MAX);
    s->offer_again = s->in.n > 0 || stream_is_pending(s);
    stream_flush_soon(s);
    return 0;
}
