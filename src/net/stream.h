/* stream.h - a connected socket on a loop: borrowed input, a bounded output queue, a safe close.
 *
 * Embedded in its owner (an HTTP connection, a WebSocket, a tunnel). Loop thread only.
 *
 * - Input is received into the loop's scratch memory and offered to on_data. What the owner does
 *   not take is kept and offered again with what follows. An idle stream owns no buffer.
 * - Output is appended to a queue that is sent once at the end of the turn. Producers of long
 *   output check stream_room and wait for on_drain, so a peer that stops reading stops them.
 * - At the end on_close comes exactly once, at the end of a turn; then the owner frees the stream.
 */
#pragma once

#include "base/buf.h"
#include "net/loop.h"

struct stream;

struct stream_ops {
    /* Bytes arrived (writable, valid during the call). Returns how many were taken. Fewer than n
     * means that the owner needs more input, or paused the stream. */
    size_t (*on_data)(struct stream *s, char *p, size_t n);
    /* The peer will send no more; writing still works. Comes once, after all input was offered.
     * Default (NULL): close once output is sent. */
    void (*on_eof)(struct stream *s);
    /* After stream_want_drain: the queue is nearly empty again. */
    void (*on_drain)(struct stream *s);
    /* The stream is over and its descriptor closed. error: 0, or a positive errno. */
    void (*on_close)(struct stream *s, int error);
    /* The peer closed its sending side (EPOLLRDHUP), or is gone, while the stream is paused: its
     * last bytes may not have been offered yet, and on_eof will still come. At most once. NULL: not
     * watched. */
    void (*on_hangup)(struct stream *s);
};

/* How bytes move: stream_plain is the socket itself, tls.h has the other one. */
struct stream_transport {
    /* Bytes received; 0 = the peer's orderly end; -EAGAIN; -EBUSY: first the socket must take
     * output (EPOLLOUT); any other -errno is the end of the connection. */
    ssize_t (*recv)(struct stream *s, char *p, size_t n);
    ssize_t (*send)(struct stream *s, const char *p, size_t n, bool more); /* -errno */
    bool raw; /* the descriptor carries our very bytes: splice may be used */

    /* The rest belongs to transports that have a session, and is NULL for plain sockets. */

    /* 0 = both sides agreed; EPOLLIN or EPOLLOUT = call again when that comes; -errno. */
    int (*handshake)(struct stream *s);
    /* Tells the peer that no more will be sent (close_notify): 0, -EAGAIN, or -errno. */
    int (*end)(struct stream *s);
    /* Whether recv has something to return that no EPOLLIN will announce. */
    bool (*pending)(const struct stream *s);
    /* Why the session failed, for people; NULL when the errno says it all. */
    const char *(*problem)(const void *session);
    void (*session_free)(void *session);
};
extern const struct stream_transport stream_plain;

/* Makes the sessions of one transport, such as a TLS context with its certificates. */
struct stream_security {
    const struct stream_transport *transport;
    uint32_t first_event; /* EPOLLIN when the peer speaks first, else EPOLLOUT */
    /* host: the name that the peer must prove to have; a server side ignores it. */
    int (*session_new)(struct stream_security *security, int fd, struct str host,
                       void **ret_session, struct err *e);
};

enum {
    STREAM_HIGH_BYTES = 256 * 1024,      /* stream_room is 0 from this on */
    STREAM_LOW_SHARE = 4,                /* on_drain comes at 1/4 of the high mark */
    STREAM_OUT_BYTES_MAX = 32 << 20,     /* hard limit of the queue */
    STREAM_IN_BYTES_MAX = 256 * 1024,    /* hard limit of input offered and not taken */
    STREAM_STALL_MS_DEFAULT = 30 * 1000, /* without reading, a peer counts as gone after this */
    STREAM_PIECES_MAX = 1024,            /* of input that one on_data handles before it yields */
    STREAM_PIECES_MAX_CROWDED = 64,      /* the same while other yielded work waits */
};

struct stream {
    struct loop *loop;
    const struct stream_ops *ops;
    const struct stream_transport *transport;
    void *session; /* the transport's; NULL for plain sockets */
    struct loop_io io;
    struct loop_task turn;   /* sends, offers kept input again, or reports the end */
    struct loop_timer stall; /* armed while the peer reads nothing */
    struct loop_yield yield; /* queued: offers kept input again */
    struct buf in, out;
    size_t out_at; /* bytes of `out` sent already */
    int file_fd;   /* sent after `out`; borrowed */
    uint32_t stall_ms, high_bytes, recv_bytes;
    int64_t file_at;
    uint64_t file_left;
    uint64_t bytes_in, bytes_out;
    int error; /* for on_close: known while it lingers already */
    enum stream_state {
        STREAM_OPEN,
        STREAM_FINISHING, /* sending the queue; no more input or output is accepted */
        STREAM_LINGERING, /* all is sent; input is discarded */
        STREAM_CLOSED,    /* the descriptor is closed; on_close is due or done */
    } state;
    bool paused, eof, eof_told, offer_again, want_drain, linger;
    bool hangup_held;  /* EPOLLRDHUP came while the stream had yielded */
    bool opening;      /* the handshake is not over: nothing is offered or sent yet */
    bool recv_blocked; /* recv returned -EBUSY: it is called again at EPOLLOUT */
    bool end_due;      /* stream_half_close: once the queue is sent */
    bool sendfile_ok;  /* what sendfile puts into the descriptor arrives as it is */
    bool secret;       /* stream_keep_secret */
};

/* A connection being passed from one owner to the next. */
struct stream_parts {
    int fd;
    struct buf in;  /* received, not taken */
    struct buf out; /* queued, not sent */
    const struct stream_transport *transport;
    void *session; /* the transport's, which goes with the socket */
    bool sendfile_ok;
};
void stream_parts_done(struct stream_parts *p); /* closes and frees what was not taken over */

/* Takes over a connected, non-blocking socket. ops must stay valid as long as the stream. On
 * failure the descriptor stays with the caller. */
int stream_start(struct stream *s, struct loop *loop, int fd, const struct stream_ops *ops,
                 struct err *e);
/* The same with a session of `security` (NULL: none): the handshake goes first, whatever is written
 * meanwhile waits, and its failure ends the stream: at once, or, where the peer spoke first, after
 * it had a moment to read why. The owner sets the deadline. `security` outlives the stream. */
int stream_start_secure(struct stream *s, struct loop *loop, int fd,
                        struct stream_security *security, struct str host,
                        const struct stream_ops *ops, struct err *e);
/* The same for what stream_detach gave; empties the parts. Kept input is offered at the turn's end.
 */
int stream_attach(struct stream *s, struct loop *loop, struct stream_parts *parts,
                  const struct stream_ops *ops, struct err *e);
/* Gives socket, kept input and queued output to a new owner. Not allowed within on_data, as its
 * input is not accounted for yet. on_close still comes, with error 0. */
void stream_detach(struct stream *s, struct stream_parts *ret_parts);

static inline bool stream_is_open(const struct stream *s)
{
    return s->state == STREAM_OPEN;
}

/* Whether nothing is received now: the stream is paused or yielded. */
static inline bool stream_is_held(const struct stream *s)
{
    return s->paused || s->yield.queued;
}

/* Queues a copy. -EMSGSIZE past the hard limit, -ENOMEM; then nothing was queued and the caller
 * decides (usually stream_close). On a closed stream the data is dropped. */
int stream_write(struct stream *s, struct str data);
/* The queue itself, to format into directly; follow with stream_flush_soon. */
struct buf *stream_out(struct stream *s);
void stream_flush_soon(struct stream *s);

size_t stream_queued(const struct stream *s); /* bytes and file bytes not yet sent */
size_t stream_room(const struct stream *s);   /* how much a producer should add now */
size_t stream_low(const struct stream *s);    /* on_drain comes when at most this much is queued */
void stream_want_drain(struct stream *s);     /* calls on_drain once, when there is room again */
/* Makes stream_room 0 earlier than STREAM_HIGH_BYTES: for thousands of peers that may lag. */
void stream_set_high(struct stream *s, uint32_t high_bytes);

/* From now on buffers of this stream are overwritten before they are reused, and the loop's scratch
 * after each on_data: what passes holds secrets. */
void stream_keep_secret(struct stream *s);

/* For on_close: why the transport's session failed, or NULL. Valid until on_close returns. */
const char *stream_problem(const struct stream *s);

/* Sends part of a file behind what is queued. One at a time, nothing may be queued until it is
 * sent; on_drain tells. The descriptor stays the caller's and must stay open until then. */
void stream_send_file(struct stream *s, int fd, int64_t offset, uint64_t n);

void stream_pause(struct stream *s);  /* no more on_data */
void stream_resume(struct stream *s); /* offers kept input again, at the end of the turn */

/* Called from on_data, which then returns fewer bytes than it was offered: the rest is offered
 * again after other connections had their turn. Until then nothing more is received. */
void stream_yield(struct stream *s);
/* How many pieces (chunks, frames) on_data may handle before it yields. */
int stream_pieces_max(const struct stream *s);
/* Receives at most this many bytes at a time (limit LOOP_SCRATCH_BYTES), which a stream that yields
 * or is paused may have to keep. */
void stream_set_recv(struct stream *s, uint32_t recv_bytes);

/* Input received and not taken yet. */
struct str stream_kept(const struct stream *s);
/* Whether there is input that was not taken: kept, or still in the kernel. */
bool stream_has_unread(const struct stream *s);
/* Whether the socket has input, the peer's end or an error that no callback was told of. */
bool stream_has_news(const struct stream *s);

/* Tells the peer that nothing more will be written (shutdown), once what is queued was sent; its
 * bytes still come. Nothing may be queued afterwards. */
void stream_half_close(struct stream *s);
/* Closes after the queue is sent. With linger the peer gets time to read it before unread input
 * makes the kernel send a reset. */
void stream_finish(struct stream *s, bool linger);
/* Closes now; queued output is lost. on_close gets `error`. */
void stream_close(struct stream *s, int error);
/* The same, and the peer sees a reset instead of a clean end. */
void stream_reset(struct stream *s, int error);
