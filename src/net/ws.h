/* ws.h - WebSocket connections (RFC 6455) on a loop, client or server. No extensions, no
 * compression.
 *
 *   static void echo(struct ws *ws, enum ws_opcode opcode, struct str data)
 *   {
 *       (void)ws_send(ws, opcode, data);
 *       if (ws_room(ws) == 0)
 *           ws_pause(ws); // and ws_resume from on_drain
 *   }
 *
 * A connection lives until on_close, which comes exactly once, at the end of a turn; it is freed
 * afterwards. Pings are answered automatically. Loop thread only. */
#pragma once

#include "base/err.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/ws_frame.h"

struct ws;

struct ws_piece {
    enum ws_opcode opcode; /* of the message: text or binary */
    bool first, last;      /* of its message; `last` may come with no bytes */
    struct str data;       /* borrowed; text may end inside a character */
};

/* Any may be NULL. */
struct ws_ops {
    void (*on_open)(struct ws *ws); /* the handshake is done; ws_send works from here on */
    /* A complete message (borrowed); text is valid UTF-8. */
    void (*on_message)(struct ws *ws, enum ws_opcode opcode, struct str data);
    /* Replaces on_message and gets messages as they arrive, without collecting them. Returns bytes
     * taken; fewer stops the peer until ws_resume, which offers the rest again. */
    size_t (*on_piece)(struct ws *ws, const struct ws_piece *piece);
    void (*on_drain)(struct ws *ws); /* room again after ws_room was 0 */
    /* code and reason are the peer's; after a violation those we sent; 1006 without a close
     * handshake. error is NULL after a clean close. Comes also without on_open, when the handshake
     * fails. */
    void (*on_close)(struct ws *ws, uint16_t code, struct str reason, const struct err *error);
    /* The peer hung up while we are paused: its earlier data can still be read. At most once. */
    void (*on_hangup)(struct ws *ws);
};

enum { WS_CLOSE_ABNORMAL = 1006 /* a broken connection; never sent */ };

struct ws_conf {
    /* Subprotocols: a server picks the client's first that is listed, a client offers all of them.
     * They must outlive the connection. */
    const struct str *protocols;
    size_t protocol_count;

    /* 0 means the default given in the comment. */
    uint64_t message_bytes_max; /* 16 MiB; also for messages taken in pieces */
    uint32_t ping_ms;           /* none; interval of our empty pings */
    uint32_t pong_ms;  /* 10 s within which something must be received; unused with idle_ms */
    uint32_t idle_ms;  /* none; without input for this long, the peer counts as gone */
    uint32_t close_ms; /* 2 s for the peer to answer a close */
    uint32_t stall_ms; /* 30 s during which the peer reads nothing of the queue */
    uint32_t queue_bytes_max; /* STREAM_HIGH_BYTES; ws_room is 0 from this on */
};

/* Answers an upgrade request, from a handler that has not replied. 0: on_open or on_close will
 * come, and the handler no longer owns the request. -EPROTO: it was not a WebSocket request; the
 * client got an error, and no callback comes. */
int ws_accept(struct http_req *req, const struct ws_conf *conf, const struct ws_ops *ops,
              void *user);

struct ws_connect_spec {
    const struct sock_addr *addr;
    struct stream_security *tls; /* wss: as in http_call_spec; NULL = plain */
    struct str tls_host;
    struct str target;                 /* "/path?query" */
    struct str host;                   /* value of the Host header */
    const struct http_header *headers; /* more headers, at most WS_CONNECT_HEADERS_MAX */
    size_t header_count;
    uint32_t open_ms; /* for the server to answer; 0 = 10 s */
    struct ws_conf conf;
};
enum { WS_CONNECT_HEADERS_MAX = 32 };

/* Strings are copied, except the subprotocols. On failure no callback comes; else on_open follows,
 * or only on_close. */
int ws_connect(struct http_client *client, const struct ws_connect_spec *spec,
               const struct ws_ops *ops, void *user, struct ws **ret_ws, struct err *e);

void *ws_user(const struct ws *ws);
/* For on_close of a client: the status with which the server refused the handshake, else 0. */
int ws_refused_status(const struct ws *ws);
struct str ws_protocol(const struct ws *ws); /* as agreed; STR_NONE if none */

/* Queues a message. -EAGAIN when the queue is full (on_drain will come), -EPIPE after the close
 * began, -EMSGSIZE for one that can never be queued, -ENOMEM; then nothing was queued. The caller
 * guarantees that text is UTF-8. */
int ws_send(struct ws *ws, enum ws_opcode opcode, struct str data);
/* Sends a message made of several pieces as one frame, even when the queue is full: for a producer
 * with bounded bursts that checks ws_room between them. Otherwise fails as ws_send. */
int ws_push(struct ws *ws, enum ws_opcode opcode, const struct str *pieces, size_t count);
/* Sends a message in parts, one frame each, when its length is not known; the first part's opcode
 * counts. No ws_send before the last part. */
int ws_send_part(struct ws *ws, enum ws_opcode opcode, struct str data, bool last);
/* At most 125 bytes, else -EMSGSIZE. */
int ws_ping(struct ws *ws, struct str data);

size_t ws_room(const struct ws *ws);   /* how much a sender should add now */
size_t ws_queued(const struct ws *ws); /* bytes not sent yet */

void ws_pause(struct ws *ws);  /* no more messages, nor pings, nor the peer's close */
void ws_resume(struct ws *ws); /* from the end of this turn on */

/* Sends a close after the queued output, and ends when the peer answered or close_ms passed. No
 * more messages are delivered. The code must be allowed in a close frame, or 0 for none; a reason
 * longer than 123 bytes is cut. Closing twice is allowed, also while connecting. */
void ws_close(struct ws *ws, uint16_t code, struct str reason);
/* Ends without a close frame; on_close still comes, with `error` (a positive errno). */
void ws_cut(struct ws *ws, int error);
