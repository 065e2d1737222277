/* pty_client.h - a WebSocket connection that views a terminal session. Loop thread only. */
#pragma once

#include "base/list.h"
#include "net/http_server.h"

struct ptys;
struct pty;

enum {
    PTY_PING_MS = 30 * 1000,
    PTY_IDLE_MS = 60 * 1000, /* a client that neither sends nor reads for so long is cut off */
    PTY_CLOSE_MS = 5 * 1000,
    PTY_QUEUE_BYTES_MAX = 64 << 10, /* beyond that, output of the session waits */
    PTY_INPUT_BYTES_MAX = 64 << 10, /* beyond that unread by the shell, the client waits */
};

struct pty_client_conf {
    struct list *clients; /* all clients; contains this one while its connection lives */
    struct ptys *ptys;
    struct pty *pty;
    int64_t since; /* offset of the first byte to replay */
    bool is_pty;   /* a new shell gets a terminal, else pipes */
};

/* Answers a WebSocket handshake. The client becomes the viewer at once if there is none. Otherwise
 * it replaces the current viewer once the handshake is done. */
void pty_client_accept(struct http_req *req, const struct pty_client_conf *conf);

/* Cuts all connections and runs deferred work (loop_settle()). */
void pty_clients_cut(struct list *clients, struct loop *loop);
