#include "committer/grpc.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/url.h"

enum {
    PREFIX_BYTES = 5, /* of a message: whether it is compressed, and its length */
    WINDOW_BYTES = 4 << 20,
    RECEIVE_BYTES = 64 * 1024,
    STOP_LOOK_MS = 100,
    STATUS_NONE = -1,
    STATUS_TEXT_MAX = 200,
    HEADERS_OF_A_CALL = 7,
};

struct grpc {
    nghttp2_session *session;
    int fd;
    const char *path;
    const volatile sig_atomic_t *stop;
    struct {
        const char *name, *value;
    } headers[GRPC_HEADERS_MAX];
    bool broken;
    /* Of the call in progress: */
    const struct grpc_call *call;
    struct buf out; /* what of the request is not sent yet */
    struct buf in;  /* a message that is not complete */
    int32_t stream;
    int http_status, status;
    char message[STATUS_TEXT_MAX];
    bool closed;
    int error; /* of the receiver of messages, or of ours */
};

/* --- what nghttp2 asks for, and tells --- */

static ssize_t read_request(nghttp2_session *s, int32_t stream, uint8_t *to, size_t room,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct grpc *g = user;
    size_t n = min_size(room, g->out.n);

    memcpy(to, g->out.p, n);
    buf_drop_front(&g->out, n);
    if (g->out.n == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void read_message_text(struct grpc *g, struct str value)
{
    AUTO_BUF(text, 8192);

    if (url_decode(value, 0, &text) < 0)
        buf_clear(&text);
    (void)snprintf(g->message, sizeof(g->message), "%.*s", (int)text.n, text.p);
    for (char *p = g->message; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
    struct grpc *g = user;
    struct str key = str_make((const char *)name, name_n);
    struct str text = str_make((const char *)value, value_n);
    uint64_t number = 0;

    if (frame->hd.stream_id != g->stream)
        return 0;
    if (str_eq(key, STR(":status")) && str_to_u64(text, &number) == 0 && number < 1000)
        g->http_status = (int)number;
    else if (str_eq(key, STR("grpc-status")))
        g->status = str_to_u64(text, &number) == 0 && number < 100 ? (int)number : 2;
    else if (str_eq(key, STR("grpc-message")))
        read_message_text(g, text);
    return 0;
}

/* Hands on what messages are complete. */
static int deliver(struct grpc *g)
{
    while (g->in.n >= PREFIX_BYTES) {
        const uint8_t *p = (const uint8_t *)g->in.p;
        size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        int r;

        if (p[0] != 0) /* compressed, although we offer no way */
            return -EPROTO;
        if (n > GRPC_MESSAGE_BYTES_MAX)
            return -EFBIG;
        if (g->in.n < PREFIX_BYTES + n)
            return 0;
        r = g->call->on_message
                ? g->call->on_message(g->call->user, str_make(g->in.p + PREFIX_BYTES, n))
                : 0;
        if (r < 0)
            return r;
        buf_drop_front(&g->in, PREFIX_BYTES + n);
    }
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t n,
                   void *user)
{
    struct grpc *g = user;

    if (stream != g->stream || g->error)
        return 0;
    g->error = buf_add(&g->in, str_make((const char *)data, n));
    if (g->error == 0)
        g->error = deliver(g);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t code, void *user)
{
    struct grpc *g = user;

    if (stream == g->stream)
        g->closed = true;
    return 0;
}

/* --- the connection --- */

static int connect_to(const char *path, int *ret, struct err *e)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return err_sys(e, errno, "a socket");
    if (str_copy(at.sun_path, sizeof(at.sun_path), str_of(path)) < 0)
        return err_set(e, EINVAL, "the path '%s' is too long for a socket", path);
    if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
        return err_sys(e, errno, "connect to %s", path);
    if (fd_set_nonblock(fd, true) < 0)
        return err_sys(e, errno, "%s", path);
    *ret = take_fd(&fd);
    return 0;
}

static int make_session(struct grpc *g)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH,         0           },
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
    };
    nghttp2_session_callbacks *calls;
    int r;

    if (nghttp2_session_callbacks_new(&calls) != 0)
        return -ENOMEM;
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    r = nghttp2_session_client_new(&g->session, calls, g);
    nghttp2_session_callbacks_del(calls);
    if (r == 0)
        r = nghttp2_submit_settings(g->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings));
    if (r == 0)
        r = nghttp2_session_set_local_window_size(g->session, NGHTTP2_FLAG_NONE, 0, WINDOW_BYTES);
    return r == 0 ? 0 : -ENOMEM;
}

static void detach(struct grpc *g)
{
    if (g->session)
        nghttp2_session_del(g->session);
    g->session = NULL;
    fd_close(take_fd(&g->fd));
}

static int attach(struct grpc *g, struct err *e)
{
    int r;

    detach(g);
    r = connect_to(g->path, &g->fd, e);
    if (r == 0 && make_session(g) < 0)
        r = err_set(e, ENOMEM, "HTTP/2 cannot begin");
    g->broken = r < 0;
    return r;
}

int grpc_open(const struct grpc_conf *conf, struct grpc **ret, struct err *e)
{
    struct grpc *g = mem_new(struct grpc);
    int r;

    g->fd = -EBADF;
    g->path = conf->path;
    g->stop = conf->stop;
    buf_init(&g->out, GRPC_MESSAGE_BYTES_MAX);
    buf_init(&g->in, GRPC_MESSAGE_BYTES_MAX + RECEIVE_BYTES);
    r = attach(g, e);
    if (r < 0) {
        grpc_close(g);
        return r;
    }
    *ret = g;
    return 0;
}

void grpc_close(struct grpc *g)
{
    if (!g)
        return;
    detach(g);
    buf_done(&g->out);
    buf_done(&g->in);
    free(g);
}

void grpc_set_header(struct grpc *g, const char *name, const char *value)
{
    size_t at = 0;

    while (at < GRPC_HEADERS_MAX - 1 && g->headers[at].name &&
           strcmp(g->headers[at].name, name) != 0)
        at++;
    g->headers[at].name = name;
    g->headers[at].value = value;
}

/* --- one call --- */

static int send_all(struct grpc *g)
{
    const uint8_t *p;
    ssize_t n;

    while ((n = nghttp2_session_mem_send(g->session, &p)) > 0) {
        /* What nghttp2 hands out is gone from it: all of it must leave. The socket takes as much as
         * its peer reads, and the peer is a local program that does. */
        while (n > 0) {
            ssize_t sent = send(g->fd, p, (size_t)n, MSG_NOSIGNAL);

            if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
                struct pollfd f = {.fd = g->fd, .events = POLLOUT};

                if (poll(&f, 1, 10 * 1000) <= 0)
                    return -ETIMEDOUT;
                continue;
            }
            if (sent < 0)
                return -errno;
            p += sent;
            n -= sent;
        }
    }
    return n < 0 ? -EPROTO : 0;
}

/* Reads what is there; 0 also when there is nothing. */
static int receive(struct grpc *g)
{
    uint8_t bytes[RECEIVE_BYTES];
    ssize_t n = recv(g->fd, bytes, sizeof(bytes), 0);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -ECONNRESET;
    return nghttp2_session_mem_recv(g->session, bytes, (size_t)n) < 0 ? -EPROTO : 0;
}

static int drive(struct grpc *g, uint64_t deadline)
{
    int r = 0;

    while (!g->closed && r == 0) {
        struct pollfd f = {.fd = g->fd, .events = POLLIN};
        int left = deadline_left_ms(deadline);

        if (g->error)
            return g->error;
        if (g->stop && *g->stop && !g->call->ignores_stop)
            return -EINTR;
        if (left == 0)
            return -ETIMEDOUT;
        r = send_all(g);
        if (r == 0 && poll(&f, 1, left < STOP_LOOK_MS ? left : STOP_LOOK_MS) > 0)
            r = receive(g);
    }
    return r < 0 ? r : g->error;
}

static nghttp2_nv header(const char *name, const char *value)
{
    /* nghttp2 copies both. */
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static int submit(struct grpc *g, const struct grpc_call *call)
{
    const uint32_t n = (uint32_t)call->request.n;
    const char prefix[PREFIX_BYTES] = {0, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
                                       (char)n};
    nghttp2_data_provider body = {.read_callback = read_request};
    nghttp2_nv rows[HEADERS_OF_A_CALL + GRPC_HEADERS_MAX] = {
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", call->path),
        header(":authority", "localhost"),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
        header("user-agent", "opensandbox-image-committer"),
    };
    size_t count = HEADERS_OF_A_CALL;
    int r;

    for (size_t i = 0; i < GRPC_HEADERS_MAX; i++)
        if (g->headers[i].name && g->headers[i].value)
            rows[count++] = header(g->headers[i].name, g->headers[i].value);
    g->call = call;
    buf_clear(&g->in);
    buf_clear(&g->out);
    g->http_status = g->error = 0;
    g->status = STATUS_NONE;
    g->message[0] = '\0';
    g->closed = false;
    r = buf_add(&g->out, str_make(prefix, sizeof(prefix)));
    if (r == 0)
        r = buf_add(&g->out, call->request);
    if (r < 0)
        return r;
    g->stream = nghttp2_submit_request(g->session, NULL, rows, count, &body, NULL);
    return g->stream < 0 ? -EPROTO : 0;
}

/* gRPC's codes, from 0. */
static int code_of(int status)
{
    static const int codes[] = {
        0,         ECANCELED, EIO,     EINVAL, ETIMEDOUT, ENOENT, EEXIST,
        EPERM,     EDQUOT,    EBUSY, /* FAILED_PRECONDITION: such as a task that is paused already */
        ECANCELED, ERANGE,    ENOTSUP, EIO,    EHOSTDOWN, EIO,    EACCES,
    };

    return (size_t)status < ARRAY_LEN(codes) ? codes[status] : EIO;
}

int grpc_do(struct grpc *g, const struct grpc_call *call, struct err *e)
{
    const char *name = strrchr(call->path, '/') + 1;
    int r = g->broken ? attach(g, e) : 0;

    if (r < 0)
        return r;
    r = submit(g, call);
    if (r == 0)
        r = drive(g, deadline_in_ms(call->timeout_ms));
    g->call = NULL;
    g->stream = 0;
    if (r < 0) {
        g->broken = true;
        return err_sys(e, -r, "%s", name);
    }
    if (g->status == STATUS_NONE) {
        g->broken = true;
        return err_set(e, EPROTO, "%s: an answer without a status (HTTP %d)", name, g->http_status);
    }
    if (g->status == 0)
        return 0;
    return err_set(e, code_of(g->status), "%s: %s", name,
                   g->message[0] ? g->message : strerror(code_of(g->status)));
}
