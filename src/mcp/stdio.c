/* stdio.c - lines in, lines out. */
#include "mcp/stdio.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "base/fd.h"

enum { QUEUE_BYTES_MAX = 256 << 20, READ_BYTES = 64 << 10 };

struct stdio {
    struct channel channel; /* of all requests */
    struct mcp *mcp;
    struct session session;
    struct buf in, out;
    struct loop_io read_io, write_io;
    bool in_is_file, out_is_file; /* which are always ready, and no loop can watch */
    bool ended, skipping;         /* skipping the rest of a line that is too long */
};

/* --- out --- */

/* Writes no more than a pipe that is ready takes at once, so the descriptor may be blocking. */
static void write_some(struct stdio *s)
{
    ssize_t n = write(STDOUT_FILENO, s->out.p, min_size(s->out.n, PIPE_BUF));

    if (n >= 0)
        buf_drop_front(&s->out, (size_t)n);
    else if (errno != EINTR && errno != EAGAIN)
        s->ended = true; /* the client does not read any more */
}

static void on_writable(struct loop_io *io, uint32_t events UNUSED)
{
    struct stdio *s = container_of(io, struct stdio, write_io);

    if (s->out.n)
        write_some(s);
    if (!s->out.n)
        loop_io_set(s->mcp->loop, io, 0);
}

static void on_send(struct channel *c, struct str message, bool is_answer UNUSED)
{
    struct stdio *s = container_of(c, struct stdio, channel);

    if (buf_add(&s->out, message) < 0 || buf_add_char(&s->out, '\n') < 0)
        s->ended = true; /* it does not read, and memory has a limit */
    if (!s->out_is_file)
        loop_io_set(s->mcp->loop, &s->write_io, EPOLLOUT);
    while (s->out_is_file && s->out.n && !s->ended)
        write_some(s);
}

static void on_end(struct channel *c UNUSED)
{
}

/* --- in --- */

static void take_line(struct stdio *s, struct str line)
{
    struct rpc_message *message;
    enum rpc_code code;
    struct err e = {0};

    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (str_trim(line).n == 0)
        return;
    if (rpc_read(line, &message, &code, &e) == 0) {
        mcp_handle(s->mcp, &s->session, &s->channel, message);
        return;
    }
    mcp_refuse(&s->channel, message->id, code, e.msg, STR(""));
    rpc_free(message);
}

static void too_long(struct stdio *s)
{
    buf_clear(&s->in);
    s->skipping = true;
    mcp_refuse(&s->channel, NULL, RPC_PARSE_ERROR, "Parse error: a message may have at most 16 MiB",
               STR(""));
}

static void take_input(struct stdio *s, struct str data)
{
    while (data.n && !s->ended) {
        size_t at = str_find(data, '\n');
        bool whole = at < data.n;

        if (!s->skipping && buf_add(&s->in, str_make(data.p, at)) < 0)
            too_long(s);
        if (whole && !s->skipping)
            take_line(s, buf_str(&s->in));
        if (whole) {
            buf_clear(&s->in);
            s->skipping = false;
        }
        data = str_skip(data, whole ? at + 1 : at);
    }
}

static void read_some(struct stdio *s)
{
    char *data = loop_scratch(s->mcp->loop);
    ssize_t n = read(STDIN_FILENO, data, READ_BYTES);

    if (n > 0)
        take_input(s, str_make(data, (size_t)n));
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        s->ended = true;
}

static void on_readable(struct loop_io *io, uint32_t events UNUSED)
{
    read_some(container_of(io, struct stdio, read_io));
}

/* --- both --- */

/* 1 for a file. */
static int watch(struct stdio *s, struct loop_io *io, int fd, uint32_t events,
                 void (*on_ready)(struct loop_io *, uint32_t), struct err *e)
{
    int r = loop_io_start(s->mcp->loop, io, fd, events, on_ready, e);

    return r == -EPERM ? 1 : r;
}

/* What is queued, before the process ends. */
static void flush(struct stdio *s)
{
    uint64_t deadline = deadline_in_ms(MCP_END_MS);

    while (s->out.n && !deadline_passed(deadline)) {
        struct pollfd out = {STDOUT_FILENO, POLLOUT, 0};

        if (poll(&out, 1, deadline_left_ms(deadline)) != 1 || !(out.revents & POLLOUT))
            return;
        s->ended = false;
        write_some(s);
        if (s->ended)
            return;
    }
}

int stdio_serve(struct mcp *m, const bool *stop, struct err *e)
{
    struct stdio s = {
        .channel = {on_send, on_end},
          .mcp = m, .read_io.fd = -EBADF, .write_io.fd = -EBADF
    };
    int r;

    session_init(&s.session);
    buf_init(&s.in, RPC_MESSAGE_BYTES_MAX);
    buf_init(&s.out, QUEUE_BYTES_MAX);
    r = watch(&s, &s.read_io, STDIN_FILENO, EPOLLIN, on_readable, e);
    s.in_is_file = r == 1;
    if (r >= 0)
        r = watch(&s, &s.write_io, STDOUT_FILENO, 0, on_writable, e);
    s.out_is_file = r == 1;
    while (r >= 0 && !s.ended && !*stop) {
        r = mcp_turn(m, s.in_is_file ? 0 : -1, e);
        if (r >= 0 && s.in_is_file)
            read_some(&s);
    }
    loop_io_stop(m->loop, &s.read_io);
    mcp_finish(m);
    loop_io_stop(m->loop, &s.write_io);
    flush(&s);
    buf_done(&s.in);
    buf_done(&s.out);
    return r < 0 ? r : 0;
}
