/* zmtp_conn.h - one connection of a ZeroMQ client: a DEALER or a SUB to a single peer. Loop thread
 * only.
 *
 *   waiting for the peer to listen --greeting, READY--> ready --on_message...--> closed
 *
 * The peer may be still on its way: connecting is tried again until zmtp_conn_free(). A connection
 * that was once made is not made again: whoever reads a kernel must know that something is lost. */
#pragma once

#include "execd/code/jupyter/zmtp.h"
#include "net/sock.h"

struct zmtp_conn;

struct zmtp_conn_ops {
    void (*on_ready)(void *user, struct zmtp_conn *c); /* messages may be sent */
    /* The frames are in the reader, lent for the call. The connection may be freed in it. */
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

/* Starts connecting; nothing is told from within this call. A SUB subscribes to everything. */
struct zmtp_conn *zmtp_conn_new(struct loop *loop, const struct sock_addr *to,
                                const struct zmtp_conn_conf *conf);
void zmtp_conn_free(struct zmtp_conn *c); /* NULL is fine; no more calls */

bool zmtp_conn_is_ready(const struct zmtp_conn *c);
/* Queues frames as zmtp_write_frame() made them, whole messages. -ENOTCONN unless it is ready;
 * -EMSGSIZE when too much waits to be sent; -ENOMEM. */
int zmtp_conn_send(struct zmtp_conn *c, struct str frames) MUST_USE;
/* Reads no more until resumed; a peer that publishes then drops what it cannot queue. */
void zmtp_conn_pause(struct zmtp_conn *c, bool pause);
