/* zmtp_conn.h - one connection of a ZeroMQ client: a DEALER or a SUB with a single peer. Loop
 * thread only.
 *
 *   waiting for the peer to listen --greeting, READY--> ready --on_message...--> closed
 *
 * The peer may not listen yet: connecting is retried until zmtp_conn_free(). A connection that was
 * established once is not re-established: the owner must know that messages were lost. */
#pragma once

#include "execd/code/jupyter/zmtp.h"
#include "net/sock.h"

struct zmtp_conn;

struct zmtp_conn_ops {
    void (*on_ready)(void *user, struct zmtp_conn *c); /* messages may be sent */
    /* The frames are in the reader, borrowed for the call, which may free the connection. */
    void (*on_message)(void *user, struct zmtp_conn *c, const struct zmtp_reader *m);
    void (*on_close)(void *user, struct zmtp_conn *c, const char *why); /* once; then free it */
};

struct zmtp_conn_conf {
    const char *socket_type; /* "DEALER", "SUB"; static */
    const char *identity;    /* of a DEALER; copied; ZMTP_IDENTITY_MAX - 1 bytes at most */
    const struct zmtp_conn_ops *ops;
    void *user;
};

enum { ZMTP_IDENTITY_MAX = 64 };

/* Starts to connect; no callback from within this call. A SUB subscribes to everything. */
struct zmtp_conn *zmtp_conn_new(struct loop *loop, const struct sock_addr *to,
                                const struct zmtp_conn_conf *conf);
void zmtp_conn_free(struct zmtp_conn *c); /* NULL is fine; no more callbacks */

bool zmtp_conn_is_ready(const struct zmtp_conn *c);
/* Queues frames made by zmtp_write_frame(), only complete messages. -ENOTCONN unless it is ready;
 * -EMSGSIZE: too much waits to be sent; -ENOMEM. */
int zmtp_conn_send(struct zmtp_conn *c, struct str frames) MUST_USE;
/* Stops reading until resumed; a publishing peer then drops what it cannot queue. */
void zmtp_conn_pause(struct zmtp_conn *c, bool pause);
