/* stream.h - a connected socket on a loop: borrowed input, a bounded output queue, safe ends.
 *
 * Embedded in its owner (an HTTP connection, a WebSocket, a tunnel). All on the loop's thread.
 *
 *   input    received into the loop's scratch memory and offered to on_data; what the owner does
 * not take is kept and offered again with what follows. An idle stream owns no buffer. output
 * appended to a queue that is sent once at the end of the turn. Producers of long output ask
 * stream_room and wait for on_drain; a peer that stops reading stops them. end      on_close comes
 * exactly once, at the end of a turn, after which the owner frees. */
#pragma once

#include "base/buf.h"
#include "net/loop.h"

struct stream;

struct stream_ops {
    /* Bytes arrived (writable, valid during the call). Returns how many were taken. Fewer than n
     * means "not without more", or that the owner paused the stream. */
    size_t (*on_data)(struct stream *s, char *p, size_t n);
    /* The peer will send no more; writing still works. Comes once, after all input was offered.
     * Default (NULL): close once output is sent. */
    void (*on_eof)(struct stream *s);
    /* The queue is nearly empty again after stream_want_drain. */
    void (*on_drain)(struct stream *s);
    /* The stream is over and its descriptor closed. error: 0, or a positive errno. */
    void (*on_close)(struct stream *s, int error);
    /* The peer closed its side, or is gone, while the stream is paused: its last bytes may not have
     * been offered yet, and on_eof will still come. At most once. With NULL nobody looks. */
    void (*on_hangup)(struct stream *s);
};

/* How bytes move. Plain sockets are the only kind yet; TLS will be another row of functions. */
struct stream_transport {
    ssize_t (*recv)(struct stream *s, char *p, size_t n); /* -errno; 0 = end */
    ssize_t (*send)(struct stream *s, const char *p, size_t n, bool more);
    bool raw; /* the descriptor carries our very bytes: sendfile and splice may be used */
};
extern const struct stream_transport stream_plain;

enum {
    STREAM_HIGH_BYTES = 256 * 1024,      /* stream_room is 0 from here on */
    STREAM_LOW_SHARE = 4,                /* on_drain comes at a quarter of that */
    STREAM_OUT_BYTES_MAX = 32 << 20,     /* hard ceiling of the queue */
    STREAM_IN_BYTES_MAX = 256 * 1024,    /* hard ceiling of what was offered and not taken */
    STREAM_STALL_MS_DEFAULT = 30 * 1000, /* a peer that takes nothing for so long is gone */
    STREAM_PIECES_MAX = 1024,            /* of input that one on_data handles, then it yields */
    STREAM_PIECES_MAX_CROWDED = 64,      /* the same while others wait that have yielded */
};

struct stream {
    struct loop *loop;
    const struct stream_ops *ops;
    const struct stream_transport *transport;
    struct loop_io io;
    struct loop_task turn;   /* send, offer kept input again, or report the end */
    struct loop_timer stall; /* armed while the peer takes nothing */
    struct loop_yield yield; /* queued: kept input is offered again when it runs */
    struct buf in, out;
    size_t out_at; /* sent already */
    int file_fd;   /* being sent behind `out`; borrowed */
    uint32_t stall_ms, high_bytes, recv_bytes;
    int64_t file_at;
    uint64_t file_left;
    uint64_t bytes_in, bytes_out;
    int error;
    enum stream_state {
        STREAM_OPEN,
        STREAM_FINISHING, /* the queue is sent, nothing more is taken in or queued */
        STREAM_LINGERING, /* all is sent; the peer's last bytes are discarded */
        STREAM_CLOSED,    /* no descriptor any more; on_close is due or done */
    } state;
    bool paused, eof, eof_told, offer_again, want_drain, linger;
    bool hangup_held; /* EPOLLRDHUP came while the stream had yielded */
};

/* A connection on its way from one owner to the next. */
struct stream_parts {
    int fd;
    struct buf in;  /* received, not taken */
    struct buf out; /* queued, not sent */
};
void stream_parts_done(struct stream_parts *p); /* closes and frees what was not taken over */

/* Takes over a connected, non-blocking socket. ops stay valid as long as the stream. On failure the
 * descriptor stays the caller's. */
int stream_start(struct stream *s, struct loop *loop, int fd, const struct stream_ops *ops,
                 struct err *e);
/* The same for what stream_detach gave; empties the parts. Kept input is offered at the turn's end.
 */
int stream_attach(struct stream *s, struct loop *loop, struct stream_parts *parts,
                  const struct stream_ops *ops, struct err *e);
/* Gives socket, kept input and queued output to a new owner. Not from within on_data, whose bytes
 * are not accounted for yet. on_close still comes, with error 0. */
void stream_detach(struct stream *s, struct stream_parts *ret_parts);

static inline bool stream_is_open(const struct stream *s)
{
    return s->state == STREAM_OPEN;
}

/* Nothing is received now: it is paused, or it yielded. */
static inline bool stream_is_held(const struct stream *s)
{
    return s->paused || s->yield.queued;
}

/* Queues a copy. -EMSGSIZE past the hard ceiling, -ENOMEM; then nothing was queued and the caller
 * decides (usually stream_close). A closed stream swallows. */
int stream_write(struct stream *s, struct str data);
/* The queue itself, to format into directly; follow with stream_flush_soon. */
struct buf *stream_out(struct stream *s);
void stream_flush_soon(struct stream *s);

size_t stream_queued(const struct stream *s); /* bytes and file bytes not yet sent */
size_t stream_room(const struct stream *s);   /* what a polite producer may add now */
size_t stream_low(const struct stream *s);    /* on_drain comes with no more than this queued */
void stream_want_drain(struct stream *s);     /* call on_drain once, when there is room again */
/* Lets stream_room end earlier than STREAM_HIGH_BYTES: where thousands of peers may lag. */
void stream_set_high(struct stream *s, uint32_t high_bytes);

/* Sends part of a file behind what is queued. One at a time, nothing may be queued until it is
 * sent; on_drain tells. The descriptor stays the caller's and must stay open until then. */
void stream_send_file(struct stream *s, int fd, int64_t offset, uint64_t n);

void stream_pause(struct stream *s);  /* no more on_data */
void stream_resume(struct stream *s); /* offers kept input again, at the end of the turn */

/* From on_data, before it returns fewer bytes than it was offered: the rest of the input is offered
 * again after other connections had their turn. Until then nothing more is received. */
void stream_yield(struct stream *s);
/* How many pieces (chunks, frames) on_data may handle before it yields. */
int stream_pieces_max(const struct stream *s);
/* Receives at most so many bytes at a time, LOOP_SCRATCH_BYTES at most: what a stream that yields
 * or is paused may have to keep. */
void stream_set_recv(struct stream *s, uint32_t recv_bytes);

/* What was received and not taken yet. */
struct str stream_kept(const struct stream *s);
/* Whether the peer said something that nobody took: kept, or still in the kernel. */
bool stream_has_unread(const struct stream *s);

/* Tells the peer that nothing more will be written (shutdown); its bytes still come. Only while
 * nothing is queued. */
void stream_half_close(struct stream *s);
/* Ends after the queue is sent. With linger the peer gets a moment to read the rest before its
 * unread input turns into a reset. */
void stream_finish(struct stream *s, bool linger);
/* Ends now; queued output is lost. error is what on_close will be told. */
void stream_close(struct stream *s, int error);
/* The same, and the peer sees a reset instead of an orderly end. */
void stream_reset(struct stream *s, int error);
