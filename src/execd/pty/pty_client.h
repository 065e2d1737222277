/* pty_client.h - a WebSocket that views a terminal session: frames both ways. Loop thread only. */
#pragma once

#include "base/list.h"
#include "net/http_server.h"

struct ptys;
struct pty;

enum {
    PTY_PING_MS = 30 * 1000,
    PTY_IDLE_MS = 60 * 1000, /* a client that says nothing, or takes nothing, for so long is gone */
    PTY_CLOSE_MS = 5 * 1000,
    PTY_QUEUE_BYTES_MAX = 64 << 10, /* then the session's output waits */
    PTY_INPUT_BYTES_MAX = 64 << 10, /* for a shell that does not read; then the client waits */
};

struct pty_client_conf {
    struct list *clients; /* of all; it is in there as long as its connection lives */
    struct ptys *ptys;
    struct pty *pty;
    int64_t since; /* number of the first byte it wants again */
    bool is_pty;   /* what a new shell gets: a terminal, or pipes */
};

/* Answers a request to switch protocols. The session is held from here on, unless somebody else
 * holds it: who then loses it once the handshake is done. */
void pty_client_accept(struct http_req *req, const struct pty_client_conf *conf);

/* Cuts every connection; settles the loop. */
void pty_clients_cut(struct list *clients, struct loop *loop);
