#include "net/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

enum {
    ACCEPTS_PER_EVENT = 64,
    NOTE_BYTES_MAX = 64,
    OUT_OF_FDS_PAUSE_NS = 100 * 1000 * 1000,
    KEEPALIVE_IDLE_S = 60,
    KEEPALIVE_EVERY_S = 15,
    KEEPALIVE_COUNT = 4,
};

static const size_t unix_path_at = offsetof(struct sockaddr_un, sun_path);

/* --- addresses --- */

static int addr_parse_unix(struct str path, struct sock_addr *ret, struct err *e)
{
    struct sock_addr a = {.path = {.sun_family = AF_UNIX}};
    bool abstract = path.n && path.p[0] == '@';

    if (path.n == 0 || path.n >= sizeof(a.path.sun_path) || str_find(path, '\0') != path.n)
        return err_set(e, EINVAL, "unix socket path must have 1 to %zu bytes",
                       sizeof(a.path.sun_path) - 1);
    memcpy(a.path.sun_path, path.p, path.n);
    if (abstract)
        a.path.sun_path[0] = '\0';
    a.size = (socklen_t)(unix_path_at + path.n + !abstract);
    *ret = a;
    return 0;
}

static void addr_set_v4(struct sock_addr *a, struct in_addr host, uint16_t port)
{
    *a = (struct sock_addr){
        .size = sizeof(a->v4),
        .v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host},
    };
}

static void addr_set_v6(struct sock_addr *a, struct in6_addr host, uint16_t port)
{
    *a = (struct sock_addr){
        .size = sizeof(a->v6),
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = host},
    };
}

static int addr_from_host(struct str host, uint16_t port, struct sock_addr *ret)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct in_addr v4;

    if (host.n == 0) {
        addr_set_v6(ret, in6addr_any, port);
        return 0;
    }
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']') {
        if (str_copy(text, sizeof(text), str_make(host.p + 1, host.n - 2)) < 0 ||
            inet_pton(AF_INET6, text, &v6) != 1)
            return -EINVAL;
        addr_set_v6(ret, v6, port);
        return 0;
    }
    if (str_copy(text, sizeof(text), host) < 0 || inet_pton(AF_INET, text, &v4) != 1)
        return -EINVAL;
    addr_set_v4(ret, v4, port);
    return 0;
}

int sock_addr_parse(struct str text, struct sock_addr *ret, struct err *e)
{
    size_t colon = text.n;
    uint16_t port;

    if (str_starts(text, STR("unix:")))
        return addr_parse_unix(str_skip(text, 5), ret, e);
    while (colon > 0 && text.p[colon - 1] != ':')
        colon--;
    if (colon == 0 || str_to_u16(str_skip(text, colon), &port) < 0 ||
        addr_from_host(str_make(text.p, colon - 1), port, ret) < 0)
        return err_set(e, EINVAL,
                       "'%.*s' is not an address: expected IPV4:PORT, [IPV6]:PORT, :PORT or "
                       "unix:PATH",
                       (int)min_size(text.n, 100), text.p);
    return 0;
}

void sock_addr_format(const struct sock_addr *a, char out[SOCK_ADDR_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (a->size == 0) {
        snprintf(out, SOCK_ADDR_TEXT_MAX, "-");
    } else if (a->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof(host));
        snprintf(out, SOCK_ADDR_TEXT_MAX, "%s:%u", host, ntohs(a->v4.sin_port));
    } else if (a->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof(host));
        snprintf(out, SOCK_ADDR_TEXT_MAX, "[%s]:%u", host, ntohs(a->v6.sin6_port));
    } else {
        size_t n = a->size > unix_path_at ? a->size - unix_path_at : 0;
        bool abstract = n && a->path.sun_path[0] == '\0';

        snprintf(out, SOCK_ADDR_TEXT_MAX, "unix:%s%.*s", abstract ? "@" : "", (int)(n - abstract),
                 a->path.sun_path + abstract);
    }
}

bool sock_addr_eq(const struct sock_addr *a, const struct sock_addr *b)
{
    return a->size == b->size && memcmp(&a->any, &b->any, a->size) == 0;
}

uint16_t sock_addr_port(const struct sock_addr *a)
{
    if (a->size == 0)
        return 0;
    if (a->any.sa_family == AF_INET)
        return ntohs(a->v4.sin_port);
    return a->any.sa_family == AF_INET6 ? ntohs(a->v6.sin6_port) : 0;
}

int sock_resolve_all(const char *host, uint16_t port, struct sock_addr *ret, size_t max,
                     struct err *e)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char service[8];
    int r, n = 0;

    snprintf(service, sizeof(service), "%u", port);
    r = getaddrinfo(host, service, &hints, &found);
    if (r)
        return err_set(e, r == EAI_AGAIN ? EAGAIN : EHOSTUNREACH, "look up '%s': %s", host,
                       gai_strerror(r));
    for (struct addrinfo *at = found; at && (size_t)n < max; at = at->ai_next, n++) {
        ret[n] = (struct sock_addr){.size = at->ai_addrlen};
        memcpy(&ret[n].any, at->ai_addr, at->ai_addrlen);
    }
    freeaddrinfo(found);
    return n;
}

int sock_resolve(const char *host, uint16_t port, struct sock_addr *ret, struct err *e)
{
    int n = sock_resolve_all(host, port, ret, 1, e);

    return n < 0 ? n : 0;
}

/* --- listening and connecting --- */

static int sock_new(const struct sock_addr *a)
{
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

static void sock_set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value)); /* optional: failure is ignored */
}

/* Accepted sockets inherit these options at no cost. Keepalive detects a peer that vanished
 * silently: tunnels have no other deadline. */
static void sock_set_accepted(int fd)
{
    sock_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    sock_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    sock_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
    sock_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
}

/* Removes a unix socket file left behind by a dead process. */
static int sock_clear_stale(const struct sock_addr *a)
{
    auto_fd probe = sock_new(a);
    struct stat st;

    if (probe < 0)
        return probe;
    /* Connecting to a regular file fails like connecting to a dead socket. */
    if (lstat(a->path.sun_path, &st) < 0)
        return -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EADDRINUSE;
    if (connect(probe, &a->any, a->size) == 0 || errno == EAGAIN)
        return -EADDRINUSE;
    if (errno != ECONNREFUSED)
        return -errno;
    return unlink(a->path.sun_path) < 0 ? -errno : 0;
}

static int sock_bind(int fd, const struct sock_addr *a)
{
    bool file = a->any.sa_family == AF_UNIX && a->path.sun_path[0];
    int r;

    if (bind(fd, &a->any, a->size) == 0)
        return 0;
    r = -errno;
    if (r != -EADDRINUSE || !file)
        return r;
    r = sock_clear_stale(a);
    if (r < 0)
        return r;
    return bind(fd, &a->any, a->size) < 0 ? -errno : 0;
}

int sock_bound(const struct sock_addr *a, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    auto_fd fd = sock_new(a);
    int r = fd;

    sock_addr_format(a, text);
    if (fd < 0)
        return err_sys(e, -r, "listen on %s", text);
    sock_set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (a->any.sa_family == AF_INET6)
        sock_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    if (a->any.sa_family != AF_UNIX)
        sock_set_accepted(fd);
    r = sock_bind(fd, a);
    if (r < 0)
        return err_sys(e, -r, "listen on %s", text);
    return take_fd(&fd);
}

int sock_listen(const struct sock_addr *a, int backlog, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    auto_fd fd = sock_bound(a, e);

    if (fd < 0)
        return fd;
    sock_addr_format(a, text);
    return listen(fd, backlog) < 0 ? err_sys(e, errno, "listen on %s", text) : take_fd(&fd);
}

int sock_local_addr(int fd, struct sock_addr *ret)
{
    *ret = (struct sock_addr){.size = sizeof(ret->path)};
    return getsockname(fd, &ret->any, &ret->size) < 0 ? -errno : 0;
}

pid_t sock_peer_pid(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? 0 : peer.pid;
}

int sock_connect_start(const struct sock_addr *a, struct err *e)
{
    return sock_connect_start_as(a, NULL, NULL, e);
}

int sock_connect_start_as(const struct sock_addr *a, int (*on_socket)(void *user, int fd),
                          void *user, struct err *e)
{
    char text[SOCK_ADDR_TEXT_MAX];
    auto_fd fd = sock_new(a);
    int r;

    sock_addr_format(a, text);
    if (fd < 0)
        return err_sys(e, -fd, "connect to %s", text);
    if (a->any.sa_family != AF_UNIX)
        sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    r = on_socket ? on_socket(user, fd) : 0;
    if (r < 0)
        return err_sys(e, -r, "prepare a socket to %s", text);
    if (connect(fd, &a->any, a->size) < 0 && errno != EINPROGRESS)
        return err_sys(e, errno, "connect to %s", text);
    if (a->ours && sock_peer_pid(fd) != getpid()) /* connect on a unix socket completes at once */
        return err_sys(e, ECONNREFUSED, "connect to %s: another process listens there now", text);
    return take_fd(&fd);
}

int sock_connect_result(int fd)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
}

/* --- accepting --- */

static void listener_on_pause_over(struct loop_timer *t)
{
    struct sock_listener *l = container_of(t, struct sock_listener, pause);

    if (!l->paused)
        loop_io_set(l->loop, &l->io, EPOLLIN);
}

/* One message of a channel: a connection, or -1 with errno. A note is EINTR: there may be more. */
static int channel_receive(struct sock_listener *l)
{
    char note[NOTE_BYTES_MAX];
    int fds[FD_SEND_MAX];
    size_t n = 0, count = 0;
    int r = fd_recv(l->io.fd, note, sizeof(note), &n, fds, &count);

    while (r == 0 && count > 1)
        fd_close(fds[--count]);
    if (r == 0 && count == 1 && fd_set_nonblock(fds[0], true) == 0)
        return fds[0];
    if (r == 0 && n == 0)
        loop_io_set(l->loop, &l->io, 0); /* the other side is gone */
    else if (r == 0 && count == 0 && l->on_note)
        l->on_note(l, str_make(note, n));
    errno = r == -EMSGSIZE || (r == 0 && n > 0) ? EINTR : r == 0 ? EAGAIN : -r;
    return -1;
}

static int listener_accept(struct sock_listener *l, struct sock_addr *peer)
{
    if (!l->channel)
        return accept4(l->io.fd, &peer->any, &peer->size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    peer->size = sizeof(peer->any.sa_family);
    peer->any.sa_family = AF_UNIX;
    return channel_receive(l);
}

static void listener_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct sock_listener *l = container_of(io, struct sock_listener, io);

    for (int i = 0; i < ACCEPTS_PER_EVENT && !l->paused && io->fd >= 0; i++) {
        struct sock_addr peer = {.size = sizeof(peer.path)};
        int fd = listener_accept(l, &peer);

        if (fd >= 0) {
            if (peer.any.sa_family != AF_UNIX)
                sock_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
            l->on_accept(l, fd, &peer);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The new connection stays in the backlog; retrying at once would only spin. */
            loop_io_set(l->loop, io, 0);
            loop_timer_set(l->loop, &l->pause, loop_now_ns(l->loop) + OUT_OF_FDS_PAUSE_NS,
                           listener_on_pause_over);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

int sock_listener_start(struct sock_listener *l, struct loop *loop, int fd,
                        void (*on_accept)(struct sock_listener *, int, const struct sock_addr *),
                        struct err *e)
{
    *l = (struct sock_listener){.loop = loop, .on_accept = on_accept};
    return loop_io_start(loop, &l->io, fd, EPOLLIN, listener_on_ready, e);
}

int sock_channel_start(struct sock_listener *l, struct loop *loop, int fd,
                       void (*on_accept)(struct sock_listener *, int, const struct sock_addr *),
                       void (*on_note)(struct sock_listener *, struct str), struct err *e)
{
    *l = (struct sock_listener){
        .loop = loop, .on_accept = on_accept, .on_note = on_note, .channel = true};
    return loop_io_start(loop, &l->io, fd, EPOLLIN, listener_on_ready, e);
}

void sock_listener_pause(struct sock_listener *l)
{
    l->paused = true;
    loop_io_set(l->loop, &l->io, 0);
}

void sock_listener_resume(struct sock_listener *l)
{
    l->paused = false;
    if (!loop_timer_armed(&l->pause))
        loop_io_set(l->loop, &l->io, EPOLLIN);
}

void sock_listener_take(struct sock_listener *l)
{
    listener_on_ready(&l->io, EPOLLIN);
}

void sock_listener_stop(struct sock_listener *l)
{
    int fd = l->io.fd;

    if (!l->loop || fd < 0)
        return;
    loop_timer_stop(l->loop, &l->pause);
    loop_io_stop(l->loop, &l->io);
    fd_close(fd);
}
