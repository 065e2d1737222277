#include "egress/dns/forward.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "egress/dns/message.h"

enum { LENGTH_BYTES = 2 };

/* One resolver asked. */
struct attempt {
    struct loop_io io;
    struct dns_ask *ask;
    int fd;
    bool sent;
    struct buf in; /* of TCP */
};

struct dns_ask {
    struct list link;
    struct dns_forward *f;
    struct loop_timer timer;
    struct loop_task task;
    dns_done_fn *done;
    void *user;
    struct dns_query asked;
    struct buf query; /* with our id, after the length that TCP sends */
    struct buf result;
    struct attempt attempts[DNS_UPSTREAMS_MAX];
    size_t open; /* attempts without an answer */
    bool tcp, over;
};

struct dns_forward {
    struct dns_forward_conf conf;
    struct list asks;
    struct dns_forward_stats stats;
};

struct dns_forward *dns_forward_new(const struct dns_forward_conf *conf)
{
    struct dns_forward *f = mem_new(struct dns_forward);

    f->conf = *conf;
    list_init(&f->asks);
    return f;
}

static void attempt_end(struct attempt *a)
{
    if (a->fd < 0)
        return;
    loop_io_stop(a->ask->f->conf.loop, &a->io);
    fd_close(take_fd(&a->fd));
    buf_done(&a->in);
    a->ask->open--;
}

static void ask_free(struct dns_ask *ask)
{
    for (size_t i = 0; i < DNS_UPSTREAMS_MAX; i++)
        attempt_end(&ask->attempts[i]);
    loop_timer_stop(ask->f->conf.loop, &ask->timer);
    list_remove(&ask->link);
    ask->f->stats.under_way--;
    buf_done(&ask->query);
    buf_done(&ask->result);
    free(ask);
}

void dns_forward_free(struct dns_forward *f)
{
    if (!f)
        return;
    while (!list_empty(&f->asks)) {
        struct dns_ask *ask = container_of(f->asks.next, struct dns_ask, link);

        ask->done = NULL;
        if (ask->over)
            loop_settle(f->conf.loop); /* frees it */
        else
            ask_free(ask);
    }
    free(f);
}

static void ask_deliver(struct loop_task *task)
{
    struct dns_ask *ask = container_of(task, struct dns_ask, task);

    if (ask->result.n == 0)
        ask->f->stats.failed++;
    if (ask->done)
        ask->done(ask->user, ask->result.n ? buf_str(&ask->result) : STR_NONE);
    ask_free(ask);
}

static void ask_finish(struct dns_ask *ask)
{
    if (ask->over)
        return;
    ask->over = true;
    for (size_t i = 0; i < DNS_UPSTREAMS_MAX; i++)
        attempt_end(&ask->attempts[i]);
    loop_timer_stop(ask->f->conf.loop, &ask->timer);
    loop_defer(ask->f->conf.loop, &ask->task, ask_deliver);
}

void dns_ask_cancel(struct dns_ask *ask)
{
    ask->done = NULL;
    ask_finish(ask);
}

static void on_timeout(struct loop_timer *timer)
{
    struct dns_ask *ask = container_of(timer, struct dns_ask, timer);

    buf_clear(&ask->result);
    ask_finish(ask);
}

static struct str query_of(const struct dns_ask *ask)
{
    return str_skip(buf_str(&ask->query), LENGTH_BYTES);
}

/* An answer of one resolver: a good one ends the ask, of others the last one does. */
static void take_answer(struct attempt *a, struct str answer)
{
    struct dns_ask *ask = a->ask;
    int rcode = dns_answer_read(answer, query_of(ask), &ask->asked, NULL, NULL);

    if (rcode < 0)
        return; /* not an answer to this; the right one may follow */
    attempt_end(a);
    if (rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN) {
        buf_clear(&ask->result);
        (void)buf_add(&ask->result, answer);
        ask_finish(ask);
    } else if (ask->open == 0) {
        ask_finish(ask);
    }
}

static void attempt_failed(struct attempt *a)
{
    struct dns_ask *ask = a->ask;

    attempt_end(a);
    if (ask->open == 0)
        ask_finish(ask);
}

static void on_udp(struct loop_io *io, uint32_t events UNUSED)
{
    struct attempt *a = container_of(io, struct attempt, io);
    char *room = loop_scratch(a->ask->f->conf.loop);
    ssize_t n = recv(a->fd, room, DNS_MESSAGE_MAX, MSG_DONTWAIT);

    if (n >= 0)
        take_answer(a, str_make(room, (size_t)n));
    else if (errno != EAGAIN && errno != EINTR)
        attempt_failed(a);
}

static void tcp_receive(struct attempt *a)
{
    char *room = loop_scratch(a->ask->f->conf.loop);
    ssize_t n = recv(a->fd, room, DNS_MESSAGE_MAX, MSG_DONTWAIT);
    size_t length;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || buf_add(&a->in, str_make(room, (size_t)n)) < 0) {
        attempt_failed(a);
        return;
    }
    if (a->in.n < LENGTH_BYTES)
        return;
    length = (size_t)((uint8_t)a->in.p[0] << 8 | (uint8_t)a->in.p[1]);
    if (a->in.n < LENGTH_BYTES + length)
        return;
    memcpy(room, a->in.p + LENGTH_BYTES, length); /* the attempt frees its own with its end */
    take_answer(a, str_make(room, length));
    if (a->fd >= 0)
        attempt_failed(a);
}

static void on_tcp(struct loop_io *io, uint32_t events)
{
    struct attempt *a = container_of(io, struct attempt, io);
    struct str out = buf_str(&a->ask->query);

    if (a->sent) {
        tcp_receive(a);
    } else if (events & (EPOLLERR | EPOLLHUP) || sock_connect_result(a->fd) < 0 ||
               send(a->fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.n) {
        attempt_failed(a); /* a query fits into an empty socket's buffer */
    } else {
        a->sent = true;
        loop_io_set(a->ask->f->conf.loop, &a->io, EPOLLIN);
    }
}

struct upstream {
    const struct dns_forward_conf *conf;
    const struct sock_addr *to;
};

static int prepare(void *user, int fd)
{
    const struct upstream *u = user;

    return u->conf->on_socket ? u->conf->on_socket(u->conf->user, fd, u->to) : 0;
}

static int open_udp(const struct upstream *u, struct str query)
{
    const struct sock_addr *to = u->to;
    auto_fd fd = socket(to->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || prepare((void *)(uintptr_t)u, fd) < 0 || connect(fd, &to->any, to->size) < 0 ||
        send(fd, query.p, query.n, MSG_NOSIGNAL) != (ssize_t)query.n)
        return -errno;
    return take_fd(&fd);
}

static void attempt_start(struct dns_ask *ask, struct attempt *a, const struct sock_addr *to)
{
    struct loop *loop = ask->f->conf.loop;
    struct upstream u = {&ask->f->conf, to};
    int fd = ask->tcp ? sock_connect_start_as(to, prepare, &u, NULL) : open_udp(&u, query_of(ask));

    if (fd < 0)
        return;
    if (loop_io_start(loop, &a->io, fd, ask->tcp ? EPOLLOUT : EPOLLIN, ask->tcp ? on_tcp : on_udp,
                      NULL) < 0) {
        fd_close(fd);
        return;
    }
    a->fd = fd;
    ask->open++;
}

struct dns_ask *dns_forward_ask(struct dns_forward *f, struct str query, bool tcp,
                                dns_done_fn *done, void *user)
{
    const char length[LENGTH_BYTES] = {(char)(query.n >> 8), (char)query.n};
    struct dns_ask *ask;

    if (f->stats.under_way >= f->conf.asks_max || query.n > DNS_MESSAGE_MAX)
        return NULL;
    ask = mem_new(struct dns_ask);
    *ask = (struct dns_ask){.f = f, .done = done, .user = user, .tcp = tcp};
    buf_init(&ask->query, LENGTH_BYTES + DNS_MESSAGE_MAX);
    buf_init(&ask->result, DNS_MESSAGE_MAX);
    for (size_t i = 0; i < DNS_UPSTREAMS_MAX; i++) {
        ask->attempts[i] = (struct attempt){.ask = ask, .fd = -EBADF};
        buf_init(&ask->attempts[i].in, LENGTH_BYTES + 2 * DNS_MESSAGE_MAX);
    }
    list_push(&f->asks, &ask->link);
    f->stats.under_way++;
    f->stats.asked++;
    if (dns_query_read(query, &ask->asked) != 0 ||
        buf_add(&ask->query, str_make(length, sizeof(length))) < 0 ||
        buf_add(&ask->query, query) < 0 || getrandom(ask->query.p + LENGTH_BYTES, 2, 0) != 2) {
        ask_free(ask);
        return NULL;
    }
    for (size_t i = 0; i < f->conf.upstream_count; i++)
        attempt_start(ask, &ask->attempts[i], &f->conf.upstreams[i]);
    if (ask->open == 0)
        ask_finish(ask);
    else
        loop_timer_after(f->conf.loop, &ask->timer, f->conf.timeout_ms, on_timeout);
    return ask;
}

void dns_forward_stats(const struct dns_forward *f, struct dns_forward_stats *ret)
{
    *ret = f->stats;
}
