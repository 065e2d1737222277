#include "execd/code/jupyter/zmtp_conn.h"

#include <errno.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/stream.h"

enum {
    RETRY_FIRST_MS = 2,
    RETRY_MAX_MS = 20,
    STALL_MS = 10 * 60 * 1000, /* a kernel may compute for minutes without reading */
};

struct zmtp_conn {
    struct loop *loop;
    const struct zmtp_conn_ops *ops; /* NULL once it is freed */
    void *user;
    const char *socket_type;
    char identity[ZMTP_IDENTITY_MAX];
    struct sock_addr to;
    struct loop_io connecting;
    struct loop_timer retry;
    uint32_t retry_ms;
    struct stream stream;
    struct zmtp_reader reader;
    enum { CONN_WAITING, CONN_CONNECTING, CONN_STREAM } phase;
    bool ready;
    struct err why; /* why it ended, if we ended it */
};

static void conn_try(struct zmtp_conn *c);

/* --- connecting --- */

static void conn_on_retry(struct loop_timer *t)
{
    conn_try(container_of(t, struct zmtp_conn, retry));
}

static void conn_retry_soon(struct zmtp_conn *c)
{
    c->phase = CONN_WAITING;
    loop_timer_after(c->loop, &c->retry, c->retry_ms, conn_on_retry);
    c->retry_ms = (uint32_t)min_size(2 * (size_t)c->retry_ms, RETRY_MAX_MS);
}

/* --- the protocol --- */

static void conn_fail(struct zmtp_conn *c, int r)
{
    stream_close(&c->stream, -r);
}

static int conn_say_hello(struct zmtp_conn *c)
{
    return zmtp_write_ready(stream_out(&c->stream), str_of(c->socket_type), str_of(c->identity));
}

/* In ZMTP 3.0 a subscription is a message: a byte 1 and the prefix, here empty. */
static int conn_subscribe(struct zmtp_conn *c)
{
    return strcmp(c->socket_type, "SUB") == 0
               ? zmtp_write_frame(stream_out(&c->stream), STR("\1"), false)
               : 0;
}

/* Checks that the socket types fit, among those that kernels use. */
static int conn_check_peer(struct zmtp_conn *c)
{
    static const struct {
        const char *ours, *theirs;
    } pairs[] = {
        {"DEALER", "ROUTER"},
        {"SUB",    "PUB"   },
        {"SUB",    "XPUB"  },
    };
    struct str theirs = STR_NONE;

    (void)!zmtp_property(c->reader.data, STR("Socket-Type"), &theirs);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++)
        if (strcmp(pairs[i].ours, c->socket_type) == 0 && str_eq(theirs, str_of(pairs[i].theirs)))
            return 0;
    return err_set(&c->why, EPROTO, "a %s cannot talk to a '%.*s'", c->socket_type,
                   STR_ARG(theirs));
}

static int conn_on_command(struct zmtp_conn *c)
{
    int r;

    if (str_eq(c->reader.name, STR("PING")))
        return zmtp_write_pong(stream_out(&c->stream), c->reader.data);
    if (str_eq(c->reader.name, STR("ERROR")))
        return err_set(&c->why, EPROTO, "the peer refused: %.*s", STR_ARG(c->reader.data));
    if (c->ready || !str_eq(c->reader.name, STR("READY")))
        return 0;
    r = conn_check_peer(c);
    if (r >= 0)
        r = conn_subscribe(c);
    if (r < 0)
        return r;
    c->ready = true;
    c->ops->on_ready(c->user, c);
    return 0;
}

static int conn_on_event(struct zmtp_conn *c, enum zmtp_event event)
{
    switch (event) {
    case ZMTP_EVENT_GREETING:
        return conn_say_hello(c);
    case ZMTP_EVENT_COMMAND:
        return conn_on_command(c);
    case ZMTP_EVENT_MESSAGE:
        if (!c->ready)
            return err_set(&c->why, EPROTO, "a message before READY");
        c->ops->on_message(c->user, c, &c->reader);
        return 0;
    case ZMTP_EVENT_NONE:
    default:
        return 0;
    }
}

static size_t conn_on_data(struct stream *s, char *p, size_t n)
{
    struct zmtp_conn *c = container_of(s, struct zmtp_conn, stream);
    struct str in = str_make(p, n);
    enum zmtp_event event = ZMTP_EVENT_GREETING;
    int r = 0;

    /* A callback may pause or free this connection. */
    while (r >= 0 && event != ZMTP_EVENT_NONE && c->ops && !s->paused) {
        r = zmtp_read(&c->reader, &in, &event, &c->why);
        if (r >= 0)
            r = conn_on_event(c, event);
    }
    zmtp_reader_release(&c->reader);
    if (r < 0)
        conn_fail(c, r);
    stream_flush_soon(s);
    return n - in.n;
}

static void conn_on_close(struct stream *s, int error)
{
    struct zmtp_conn *c = container_of(s, struct zmtp_conn, stream);

    if (!c->ops) {
        zmtp_reader_done(&c->reader);
        free(c);
        return;
    }
    if (!c->why.code && error)
        err_sys(&c->why, error, "the connection broke");
    c->ready = false;
    c->ops->on_close(c->user, c, c->why.code ? c->why.msg : "the peer closed the connection");
}

static const struct stream_ops conn_stream_ops = {.on_data = conn_on_data,
                                                  .on_close = conn_on_close};

static void conn_begin(struct zmtp_conn *c, int fd)
{
    int r;

    if (stream_start(&c->stream, c->loop, fd, &conn_stream_ops, NULL) < 0) {
        fd_close(fd);
        conn_retry_soon(c);
        return;
    }
    c->phase = CONN_STREAM;
    c->stream.stall_ms = STALL_MS;
    r = zmtp_write_greeting(stream_out(&c->stream));
    if (r < 0)
        conn_fail(c, r);
    stream_flush_soon(&c->stream);
}

static void conn_on_connected(struct loop_io *io, uint32_t events UNUSED)
{
    struct zmtp_conn *c = container_of(io, struct zmtp_conn, connecting);
    int fd = io->fd;

    loop_io_stop(c->loop, io);
    if (sock_connect_result(fd) == 0) {
        conn_begin(c, fd);
        return;
    }
    fd_close(fd);
    conn_retry_soon(c);
}

static void conn_try(struct zmtp_conn *c)
{
    int fd = sock_connect_start(&c->to, NULL);

    if (fd >= 0 &&
        loop_io_start(c->loop, &c->connecting, fd, EPOLLOUT, conn_on_connected, NULL) >= 0) {
        c->phase = CONN_CONNECTING;
        return;
    }
    fd_close(fd);
    conn_retry_soon(c);
}

/* --- public functions --- */

struct zmtp_conn *zmtp_conn_new(struct loop *loop, const struct sock_addr *to,
                                const struct zmtp_conn_conf *conf)
{
    struct zmtp_conn *c = mem_new(struct zmtp_conn);

    c->loop = loop;
    c->ops = conf->ops;
    c->user = conf->user;
    c->socket_type = conf->socket_type;
    c->to = *to;
    c->retry_ms = RETRY_FIRST_MS;
    (void)snprintf(c->identity, sizeof(c->identity), "%s", conf->identity);
    zmtp_reader_init(&c->reader, 0);
    conn_retry_soon(c);
    return c;
}

void zmtp_conn_free(struct zmtp_conn *c)
{
    int fd;

    if (!c)
        return;
    c->ops = NULL;
    switch (c->phase) {
    case CONN_STREAM:
        if (c->stream.state == STREAM_CLOSED && !c->stream.turn.queued)
            break; /* on_close was called */
        stream_close(&c->stream, 0);
        return; /* conn_on_close() frees it */
    case CONN_CONNECTING:
        fd = c->connecting.fd;
        loop_io_stop(c->loop, &c->connecting);
        fd_close(fd);
        break;
    case CONN_WAITING:
        loop_timer_stop(c->loop, &c->retry);
        break;
    }
    zmtp_reader_done(&c->reader);
    free(c);
}

bool zmtp_conn_is_ready(const struct zmtp_conn *c)
{
    return c && c->ready;
}

int zmtp_conn_send(struct zmtp_conn *c, struct str frames)
{
    if (!zmtp_conn_is_ready(c))
        return -ENOTCONN;
    return stream_write(&c->stream, frames);
}

void zmtp_conn_pause(struct zmtp_conn *c, bool pause)
{
    if (!c || c->phase != CONN_STREAM)
        return;
    if (pause)
        stream_pause(&c->stream);
    else
        stream_resume(&c->stream);
}
