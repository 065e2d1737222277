/* sock.h - addresses, listeners and connectors for TCP and unix sockets, all non-blocking. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

struct sock_addr {
    socklen_t size; /* 0 = unset */
    /* A unix socket on which this process called listen(), even if another process holds it now.
     * Its name may since belong to another process's socket; connecting to that one is refused
     * (SO_PEERCRED). */
    bool ours;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un path;
    };
};

/* "127.0.0.1:8080", "[::1]:8080", ":8080" (all IPv4 and IPv6), "unix:/run/x.sock",
 * "unix:@abstract". Numeric only: for names see sock_resolve. */
int sock_addr_parse(struct str text, struct sock_addr *ret, struct err *e);
enum { SOCK_ADDR_TEXT_MAX = 128 };
void sock_addr_format(const struct sock_addr *a, char out[SOCK_ADDR_TEXT_MAX]);
bool sock_addr_eq(const struct sock_addr *a, const struct sock_addr *b);
uint16_t sock_addr_port(const struct sock_addr *a); /* 0 for unix */

/* Resolves a name; numeric hosts need no lookup. BLOCKS: for workers and start-up. */
int sock_resolve(const char *host, uint16_t port, struct sock_addr *ret, struct err *e);
/* The same for up to `max` addresses, the best first. Returns their number, at least 1. BLOCKS. */
int sock_resolve_all(const char *host, uint16_t port, struct sock_addr *ret, size_t max,
                     struct err *e);

/* A listening socket. Replaces an existing unix socket file on which no process listens;
 * -EADDRINUSE for one that accepts connections. */
int sock_listen(const struct sock_addr *a, int backlog, struct err *e);
/* The same before listen(): the address is taken, connections are refused. */
int sock_bound(const struct sock_addr *a, struct err *e);
int sock_local_addr(int fd, struct sock_addr *ret); /* the port chosen for ":0" */

/* Starts connecting; EPOLLOUT signals completion, sock_connect_result gives the result. With
 * a->ours, a socket of another process is -ECONNREFUSED. */
int sock_connect_start(const struct sock_addr *a, struct err *e);
/* The same; on_socket (NULL: none) gets the new socket before it connects, and may fail it. */
int sock_connect_start_as(const struct sock_addr *a, int (*on_socket)(void *user, int fd),
                          void *user, struct err *e);
int sock_connect_result(int fd); /* 0 or -errno */
/* Of a connected unix socket: the process that called listen(), or connect(), at the other end
 * (SO_PEERCRED). 0 when unknown. */
pid_t sock_peer_pid(int fd);

/* --- accepting on a loop --- */

struct sock_listener {
    struct loop_io io;
    struct loop_timer pause; /* armed while the process is out of descriptors */
    struct loop *loop;
    /* Takes over fd (non-blocking; TCP_NODELAY set). `peer` is valid during the call. */
    void (*on_accept)(struct sock_listener *l, int fd, const struct sock_addr *peer);
    /* Of a channel: a message without a connection. */
    void (*on_note)(struct sock_listener *l, struct str note);
    bool paused, channel;
};

/* Takes over fd. */
int sock_listener_start(struct sock_listener *l, struct loop *loop, int fd,
                        void (*on_accept)(struct sock_listener *, int, const struct sock_addr *),
                        struct err *e);
/* The same for a connected unix socket, SOCK_SEQPACKET, over which another process passes
 * connections that it accepted, one in a message. Connections have no address of their peer. */
int sock_channel_start(struct sock_listener *l, struct loop *loop, int fd,
                       void (*on_accept)(struct sock_listener *, int, const struct sock_addr *),
                       void (*on_note)(struct sock_listener *, struct str), struct err *e);
void sock_listener_pause(struct sock_listener *l); /* new connections wait in the backlog */
void sock_listener_resume(struct sock_listener *l);
void sock_listener_take(struct sock_listener *l); /* accepts now what waits in the backlog */
void sock_listener_stop(struct sock_listener *l); /* closes; may be called twice */
