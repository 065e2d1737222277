/* redis.c - the connection, and the requests on it.
 *
 *   IDLE ──► FINDING ──► CONNECTING ──► OPEN ──► IDLE, by an error or the end of the connection
 *        call       address        socket
 *
 * AUTH and SELECT go first on a new connection; their replies are the first `greetings`. */
#include "net/redis.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "net/sock.h"

enum {
    OUT_BYTES_MAX = 16 << 20,
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 5000,
};

struct request {
    redis_done_fn *done;
    void *user;
    uint64_t deadline_ns;
};

struct redis {
    struct loop *loop;
    struct redis_conf conf;
    enum { REDIS_IDLE, REDIS_FINDING, REDIS_CONNECTING, REDIS_OPEN, REDIS_CLOSING } state;
    struct stream stream;
    struct loop_io connecting;
    struct loop_timer due; /* of the oldest request */
    struct pool_job lookup;
    struct sock_addr addr;
    int lookup_error;
    uint64_t retry_ns; /* no attempt before */
    uint32_t pause_ms;
    size_t greetings;                          /* replies to skip */
    struct buf out;                            /* requests given before the connection is there */
    struct request waiting[REDIS_WAITING_MAX]; /* a ring */
    size_t first, count;
    bool freed;
    char problem[160];
};

static void redis_reset(struct redis *r, const char *why);

/* --- requests --- */

static void set_due(struct redis *r)
{
    if (r->count)
        loop_timer_set(r->loop, &r->due, r->waiting[r->first].deadline_ns, r->due.on_due);
    else
        loop_timer_stop(r->loop, &r->due);
}

static void pop(struct redis *r, const struct resp *reply, const char *why)
{
    struct request request = r->waiting[r->first];

    r->first = (r->first + 1) % REDIS_WAITING_MAX;
    r->count--;
    if (request.done)
        request.done(request.user, reply, why);
}

static void on_due(struct loop_timer *t)
{
    struct redis *r = container_of(t, struct redis, due);

    redis_reset(r, "no reply in time");
}

/* --- the connection --- */

static size_t on_data(struct stream *s, char *p, size_t n)
{
    struct redis *r = container_of(s, struct redis, stream);
    size_t at = 0;

    while (at < n && r->state == REDIS_OPEN) {
        struct resp reply;
        ssize_t used = resp_read(str_make(p + at, n - at), &reply);

        if (used == 0)
            break;
        if (used < 0 || (r->greetings == 0 && r->count == 0)) {
            redis_reset(r, "bytes that are no reply");
            return n;
        }
        at += (size_t)used;
        if (r->greetings) {
            if (reply.type == RESP_ERROR) {
                (void)snprintf(r->problem, sizeof(r->problem), "refused the login: %.*s",
                               (int)min_size(reply.text.n, 100), reply.text.p);
                redis_reset(r, r->problem);
                return n;
            }
            r->greetings--;
            r->pause_ms = 0;
        } else {
            r->pause_ms = 0;
            pop(r, &reply, NULL);
        }
    }
    if (r->state == REDIS_OPEN)
        set_due(r);
    return r->state == REDIS_OPEN ? at : n;
}

static void on_eof(struct stream *s)
{
    redis_reset(container_of(s, struct redis, stream), "Redis closed the connection");
}

static void redis_open(struct redis *r);

static void on_close(struct stream *s, int error UNUSED)
{
    struct redis *r = container_of(s, struct redis, stream);
    bool open = r->state == REDIS_OPEN;

    if (r->freed) {
        buf_done(&r->out);
        free(r);
        return;
    }
    r->state = REDIS_IDLE;
    if (open)
        redis_reset(r, "the connection broke");
    else if (r->count)
        redis_open(r);
}

static const struct stream_ops ops = {.on_data = on_data, .on_eof = on_eof, .on_close = on_close};

/* Ends the connection; all requests fail. Some of them may have had their effect. */
static void redis_reset(struct redis *r, const char *why)
{
    char text[sizeof(r->problem)];
    size_t count = r->count;

    (void)snprintf(text, sizeof(text), "%s", why);
    loop_timer_stop(r->loop, &r->due);
    if (r->state == REDIS_CONNECTING) {
        int fd = r->connecting.fd;

        loop_io_stop(r->loop, &r->connecting);
        fd_close(fd);
        r->state = REDIS_IDLE;
    } else if (r->state == REDIS_OPEN) {
        r->state = REDIS_CLOSING;
        stream_close(&r->stream, ECANCELED);
    }
    r->greetings = 0;
    buf_done(&r->out);
    r->pause_ms = r->pause_ms ? r->pause_ms * 2 : PAUSE_MIN_MS;
    if (r->pause_ms > PAUSE_MAX_MS)
        r->pause_ms = PAUSE_MAX_MS;
    r->retry_ns = time_mono_ns() + r->pause_ms * TIME_NS_PER_MS;
    while (count--)
        pop(r, NULL, text);
}

static int add_greetings(struct redis *r, struct buf *out)
{
    const struct redis_dsn *d = &r->conf.dsn;
    struct str auth[3] = {STR("AUTH"), str_of(d->user), str_of(d->password)};
    struct str select[2] = {STR("SELECT")};
    char db[16];
    int n = snprintf(db, sizeof(db), "%u", d->db), e = 0;

    select[1] = str_make(db, (size_t)n);
    r->greetings = 0;
    if (d->password[0] && !d->user[0]) {
        auth[1] = auth[2];
        e = resp_write(out, auth, 2);
        r->greetings++;
    } else if (d->password[0]) {
        e = resp_write(out, auth, 3);
        r->greetings++;
    }
    if (e == 0 && d->db) {
        e = resp_write(out, select, 2);
        r->greetings++;
    }
    return e;
}

static void on_connected(struct loop_io *io, uint32_t events UNUSED)
{
    struct redis *r = container_of(io, struct redis, connecting);
    int fd = io->fd, e = sock_connect_result(fd);
    struct err why = {0};

    loop_io_stop(r->loop, io);
    r->state = REDIS_IDLE;
    if (e == 0)
        e = stream_start_secure(&r->stream, r->loop, fd, r->conf.dsn.tls ? r->conf.tls : NULL,
                                str_of(r->conf.dsn.host), &ops, &why);
    if (e < 0) {
        fd_close(fd);
        redis_reset(r, "Redis cannot be reached");
        return;
    }
    r->state = REDIS_OPEN;
    stream_keep_secret(&r->stream);
    if (add_greetings(r, stream_out(&r->stream)) < 0 ||
        stream_write(&r->stream, buf_str(&r->out)) < 0) {
        redis_reset(r, "out of memory");
        return;
    }
    buf_done(&r->out);
    stream_flush_soon(&r->stream);
}

static void redis_connect(struct redis *r)
{
    int fd = sock_connect_start(&r->addr, NULL);

    r->state = REDIS_CONNECTING;
    r->connecting.fd = -EBADF;
    if (fd < 0 || loop_io_start(r->loop, &r->connecting, fd, EPOLLOUT, on_connected, NULL) < 0) {
        fd_close(fd);
        r->state = REDIS_IDLE;
        redis_reset(r, "Redis cannot be reached");
    }
}

static void lookup_work(struct pool_job *job)
{
    struct redis *r = container_of(job, struct redis, lookup);

    r->lookup_error = sock_resolve(r->conf.dsn.host, r->conf.dsn.port, &r->addr, NULL);
}

static void lookup_done(struct pool_job *job, int error)
{
    struct redis *r = container_of(job, struct redis, lookup);

    if (r->freed) {
        buf_done(&r->out);
        free(r);
        return;
    }
    r->state = REDIS_IDLE;
    if (error || r->lookup_error < 0)
        redis_reset(r, "the host of Redis has no address");
    else
        redis_connect(r);
}

static void redis_open(struct redis *r)
{
    const struct redis_dsn *d = &r->conf.dsn;
    char text[REDIS_TEXT_MAX + 16];
    struct sock_addr addr;

    (void)snprintf(text, sizeof(text),
                   d->is_path             ? "unix:%s"
                   : strchr(d->host, ':') ? "[%s]:%u"
                                          : "%s:%u",
                   d->host, d->port);
    if (sock_addr_parse(str_of(text), &addr, NULL) == 0) {
        r->addr = addr;
        redis_connect(r);
        return;
    }
    r->state = REDIS_FINDING;
    if (!r->conf.pool ||
        pool_submit(r->conf.pool, &r->lookup, r->loop, lookup_work, lookup_done, 0) < 0) {
        r->state = REDIS_IDLE;
        redis_reset(r, "the host of Redis cannot be looked up");
    }
}

/* --- for callers --- */

int redis_call(struct redis *r, const struct str *words, size_t count, redis_done_fn *done,
               void *user)
{
    struct buf *out = r->state == REDIS_OPEN ? stream_out(&r->stream) : &r->out;
    int e;

    if (r->count == REDIS_WAITING_MAX)
        return -EAGAIN;
    if (r->state == REDIS_IDLE && !r->count && time_mono_ns() < r->retry_ns)
        return -EHOSTUNREACH;
    if (r->state == REDIS_OPEN && stream_queued(&r->stream) > OUT_BYTES_MAX)
        return -EAGAIN;
    e = resp_write(out, words, count);
    if (e < 0)
        return e;
    r->waiting[(r->first + r->count++) % REDIS_WAITING_MAX] = (struct request){
        .done = done,
        .user = user,
        .deadline_ns = deadline_in_ms(r->conf.call_ms),
    };
    if (r->count == 1)
        set_due(r);
    if (r->state == REDIS_OPEN)
        stream_flush_soon(&r->stream);
    else if (r->state == REDIS_IDLE)
        redis_open(r);
    return 0;
}

size_t redis_waiting(const struct redis *r)
{
    return r->count;
}

int redis_new(struct loop *loop, const struct redis_conf *conf, struct redis **ret, struct err *e)
{
    struct redis *r;

    if (conf->dsn.tls && !conf->tls)
        return err_set(e, EINVAL, "rediss needs TLS");
    r = mem_new(struct redis);
    r->loop = loop;
    r->conf = *conf;
    if (!r->conf.call_ms)
        r->conf.call_ms = REDIS_CALL_MS;
    r->due.on_due = on_due;
    r->connecting.fd = -EBADF;
    buf_init(&r->out, OUT_BYTES_MAX);
    *ret = r;
    return 0;
}

void redis_free(struct redis *r)
{
    if (!r)
        return;
    redis_reset(r, "the client was closed");
    r->freed = true;
    if (r->state == REDIS_CLOSING || r->state == REDIS_FINDING)
        return; /* on_close or lookup_done frees it */
    buf_done(&r->out);
    free(r);
}
