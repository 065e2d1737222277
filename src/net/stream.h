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

/* How bytes are moved. Plain sockets are the only kind so far; TLS would be another. */
struct stream_transport {
    ssize_t (*recv)(struct stream *s, char *p, size_t n); /* -errno; 0 = end of input */
    ssize_t (*send)(struct stream *s, const char *p, size_t n, bool more);
    bool raw; /* the descriptor carries the plain bytes: sendfile and splice may be used */
};
extern const struct stream_transport stream_plain;

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
    int error;
    enum stream_state {
        STREAM_OPEN,
        STREAM_FINISHING, /* sending the queue; no more input or output is accepted */
        STREAM_LINGERING, /* all is sent; input is discarded */
        STREAM_CLOSED,    /* the descriptor is closed; on_close is due or done */
    } state;
    bool paused, eof, eof_told, offer_again, want_drain, linger;
    bool hangup_held; /* EPOLLRDHUP came while yielded */
};

/* A connection being passed from one owner to the next. */
struct stream_parts {
    int fd;
    struct buf in;  /* received, not taken */
    struct buf out; /* queued, not sent */
};
void stream_parts_done(struct stream_parts *p); /* closes and frees what was not taken over */

/* Takes over a connected, non-blocking socket. ops must stay valid as long as the stream. On
 * failure the descriptor stays with the caller. */
int stream_start(struct stream *s, struct loop *loop, int fd, const struct stream_ops *ops,
                 struct err *e);
/* The same for the parts of stream_detach; empties them. Kept input is offered at the end of the
 * turn. */
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

/* Sends part of a file after the queued output. One at a time; nothing may be queued until it is
 * sent, which on_drain reports. The descriptor is borrowed and must stay open until then. */
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

/* Ends our sending side (shutdown); input still comes. Only while nothing is queued. */
void stream_half_close(struct stream *s);
/* Closes after the queue is sent. With linger the peer gets time to read it before unread input
 * makes the kernel send a reset. */
void stream_finish(struct stream *s, bool linger);
/* Closes now; queued output is lost. on_close gets `error`. */
void stream_close(struct stream *s, int error);
/* The same, and the peer sees a reset instead of a clean end. */
void stream_reset(struct stream *s, int error);
