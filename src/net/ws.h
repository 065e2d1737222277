/* ws.h - WebSocket connections (RFC 6455) on a loop, either end. No extensions, so no compression.
 *
 *     static void echo(struct ws *ws, enum ws_opcode opcode, struct str data)
 *     {
 *         (void)ws_send(ws, opcode, data);
 *         if (ws_room(ws) == 0)
 *             ws_pause(ws); // and ws_resume from on_drain
 *     }
 *
 * A connection lives until on_close, which comes exactly once, at the end of a turn; it is gone
 * afterwards. Pings are answered here. Loop thread only. */
#pragma once

#include "base/err.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/ws_frame.h"

struct ws;

struct ws_piece {
    enum ws_opcode opcode; /* of the message: text or binary */
    bool first, last;      /* of its message; `last` may come with no bytes */
    struct str data;       /* borrowed; text may be cut inside a character */
};

/* Any may be NULL. */
struct ws_ops {
    void (*on_open)(struct ws *ws); /* the handshake is done; ws_send works from here on */
    /* A complete message (borrowed), its text valid UTF-8. */
    void (*on_message)(struct ws *ws, enum ws_opcode opcode, struct str data);
    /* Takes the place of on_message and gets messages as they arrive, without collecting them.
     * Returns bytes taken; fewer stops the peer until ws_resume, which offers the rest again. */
    size_t (*on_piece)(struct ws *ws, const struct ws_piece *piece);
    void (*on_drain)(struct ws *ws); /* there is room again after ws_room was 0 */
    /* code and reason as the peer closed; after a violation those we sent; 1006 when no close was
     * exchanged. error is NULL after an orderly close. Comes also without on_open, when a handshake
     * that began does not succeed. */
    void (*on_close)(struct ws *ws, uint16_t code, struct str reason, const struct err *error);
    /* The peer hung up while we are paused: what it sent before is still to be had. At most once.
     */
    void (*on_hangup)(struct ws *ws);
};

enum { WS_CLOSE_ABNORMAL = 1006 /* stands for a connection that broke; never on the wire */ };

struct ws_conf {
    /* Subprotocols: a server takes the client's first that is listed, a client asks for them all.
     * They outlive the connection. */
    const struct str *protocols;
    size_t protocol_count;

    /* 0 means the default named beside it. */
    uint64_t message_bytes_max; /* 16 MiB; also of messages taken in pieces */
    uint32_t ping_ms;           /* between two empty pings of ours; none */
    uint32_t pong_ms;           /* 10 s in which something must come back; not with idle_ms */
    uint32_t idle_ms;           /* without a byte of the peer's, who is then gone; for ever */
    uint32_t close_ms;          /* 2 s for the peer to answer a close */
    uint32_t stall_ms;          /* 30 s during which the peer takes nothing of what is queued */
    uint32_t queue_bytes_max;   /* STREAM_HIGH_BYTES; ws_room is 0 from there on */
};

/* Answers a request to switch protocols, from a handler that has not replied. 0: on_open or
 * on_close will come, and the request is not the handler's any more. -EPROTO: the request was none,
 * the client has been told, and no callback comes. */
int ws_accept(struct http_req *req, const struct ws_conf *conf, const struct ws_ops *ops,
              void *user);

struct ws_connect_spec {
    const struct sock_addr *addr;
    struct str target;                 /* "/path?query" */
    struct str host;                   /* of the Host header */
    const struct http_header *headers; /* others, at most WS_CONNECT_HEADERS_MAX */
    size_t header_count;
    uint32_t open_ms; /* for the server to answer; 0 = 10 s */
    struct ws_conf conf;
};
enum { WS_CONNECT_HEADERS_MAX = 32 };

/* Strings are copied, but for the subprotocols. On failure no callback comes. Else on_open follows,
 * or on_close alone. */
int ws_connect(struct http_client *client, const struct ws_connect_spec *spec,
               const struct ws_ops *ops, void *user, struct ws **ret_ws, struct err *e);

void *ws_user(const struct ws *ws);
struct str ws_protocol(const struct ws *ws); /* as agreed; STR_NONE if none */

/* Queues a message. -EAGAIN when the queue is full (on_drain will come), -EPIPE once the end began,
 * -EMSGSIZE for one that could never be queued, -ENOMEM; then nothing was queued. Text is the
 * caller's promise of UTF-8. */
int ws_send(struct ws *ws, enum ws_opcode opcode, struct str data);
/* A message that lies in several places, as one frame. Takes it also when the queue is full: for a
 * producer whose bursts are bounded, and who asks ws_room between them. Else fails as ws_send. */
int ws_push(struct ws *ws, enum ws_opcode opcode, const struct str *pieces, size_t count);
/* A message in parts, one frame each, for what is not known whole; the first names the opcode. No
 * ws_send before the last. */
int ws_send_part(struct ws *ws, enum ws_opcode opcode, struct str data, bool last);
/* At most 125 bytes, else -EMSGSIZE. */
int ws_ping(struct ws *ws, struct str data);

size_t ws_room(const struct ws *ws);   /* what a polite sender may add now */
size_t ws_queued(const struct ws *ws); /* bytes not sent yet */

void ws_pause(struct ws *ws);  /* no more messages, nor pings, nor the peer's close */
void ws_resume(struct ws *ws); /* from the end of this turn on */

/* Sends a close behind what is queued, and ends once the peer answered, or did not in time. No
 * message is delivered any more. The code is one that may travel, or 0 for a close without; a
 * reason beyond 123 bytes is cut. Closing twice is fine, also while connecting. */
void ws_close(struct ws *ws, uint16_t code, struct str reason);
/* Ends without a word; on_close still comes, with `error` (a positive errno). */
void ws_cut(struct ws *ws, int error);
