/* sock.h - addresses, listeners and connectors for TCP and unix sockets. Everything non-blocking.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sock_addr {
    socklen_t size; /* 0 = unset */
    /* Of a unix socket that this process made listen, whoever holds it by now: a name that it had
     * may be another's since, who is not connected to. */
    bool ours;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    };
};

/* "127.0.0.1:8080", "[::1]:8080", ":8080" (all IPv4 and IPv6), "unix:/run/x.sock",
 * "unix:@abstract". Numeric only: names are looked up by a worker, see sock_resolve. */
int sock_addr_parse(struct str text, struct sock_addr *ret, struct err *e);
enum { SOCK_ADDR_TEXT_MAX = 128 };
void sock_addr_format(const struct sock_addr *a, char out[SOCK_ADDR_TEXT_MAX]);
bool sock_addr_eq(const struct sock_addr *a, const struct sock_addr *b);
uint16_t sock_addr_port(const struct sock_addr *a); /* 0 for unix */

/* Looks a name up; numeric hosts cost nothing. BLOCKS: for workers and start-up. */
int sock_resolve(const char *host, uint16_t port, struct sock_addr *ret, struct err *e);

/* A listening socket. An existing unix socket file nobody listens on is replaced; one that answers
 * is -EADDRINUSE. */
int sock_listen(const struct sock_addr *a, int backlog, struct err *e);
int sock_local_addr(int fd, struct sock_addr *ret); /* to learn the port behind ":0" */

/* Starts connecting; completion shows as EPOLLOUT, its result in sock_connect_result. Another's
 * socket at an address of ours is -ECONNREFUSED. */
int sock_connect_start(const struct sock_addr *a, struct err *e);
int sock_connect_result(int fd); /* 0 or -errno */
/* Of a connected unix socket: who called listen(), or connect(), at the other end. 0 when that
 * cannot be told. */
pid_t sock_peer_pid(int fd);

/* --- accepting on a loop --- */

struct sock_listener {
    struct loop_io io;
    struct loop_timer pause; /* armed while the process is out of descriptors */
    struct loop *loop;
    /* Takes over fd (non-blocking; TCP_NODELAY set). `peer` is valid during the call. */
    void (*on_accept)(struct sock_listener *l, int fd, const struct sock_addr *peer);
    bool paused;
};

/* Owns fd from here on. */
int sock_listener_start(struct sock_listener *l, struct loop *loop, int fd,
                        void (*on_accept)(struct sock_listener *, int, const struct sock_addr *),
                        struct err *e);
void sock_listener_pause(struct sock_listener *l); /* newcomers wait in the backlog */
void sock_listener_resume(struct sock_listener *l);
void sock_listener_stop(struct sock_listener *l); /* closes; stopped is fine */
