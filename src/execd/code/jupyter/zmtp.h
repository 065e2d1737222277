/* zmtp.h - the wire of ZeroMQ (ZMTP 3.0, mechanism NULL): bytes to messages, and messages to bytes.
 *
 *   greeting   FF 00*8 7F | 3 0 | "NULL" 0*16 | 0 | 0*31                64 bytes, from both sides
 *   frame      flags, size (1 byte, or 8 when long), body               flags: 1 more, 2 long, 4
 * command command    a frame: length of the name, name, data                  READY, PING, ...
 *   message    frames with "more", and one without
 *
 * Pure: no I/O, no clock. A reader holds one message of up to ZMTP_MESSAGE_BYTES_MAX; of a larger
 * one it keeps the frames that came before the limit, and says that it was cut. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    ZMTP_GREETING_BYTES = 64,
    ZMTP_HEADER_BYTES_MAX = 9,
    ZMTP_COMMAND_BYTES_MAX = 4096,
    ZMTP_FRAMES_MAX = 16, /* those behind are counted as cut */
    ZMTP_MESSAGE_BYTES_MAX = 32 << 20,
    ZMTP_KEPT_BYTES_MAX = 16 << 10, /* memory that a reader keeps between messages */
};

enum zmtp_flags { ZMTP_MORE = 1, ZMTP_LONG = 2, ZMTP_COMMAND = 4 };

enum zmtp_event {
    ZMTP_EVENT_NONE,     /* the input is used up; feed more */
    ZMTP_EVENT_GREETING, /* the peer speaks ZMTP 3 and mechanism NULL */
    ZMTP_EVENT_COMMAND,  /* name and data are in the reader */
    ZMTP_EVENT_MESSAGE,  /* its frames are in the reader */
};

struct zmtp_reader {
    uint8_t head[ZMTP_GREETING_BYTES]; /* the greeting, then the header of a frame under way */
    size_t head_n;
    uint64_t left; /* bytes of the frame's body still to come */
    uint8_t flags; /* of that frame */
    bool greeted, in_body;
    bool skip;          /* this frame is not kept */
    bool told;          /* what was last told is still in the buffers */
    struct buf message; /* bodies of its frames, one behind the other */
    struct buf command;
    size_t message_bytes_max;

    /* Valid after ZMTP_EVENT_MESSAGE, until the next call. */
    struct str frames[ZMTP_FRAMES_MAX];
    size_t frame_count;
    uint64_t message_bytes; /* of all its frames, kept or not */
    bool cut;               /* some frame is missing; those there are whole, and the first ones */

    /* Valid after ZMTP_EVENT_COMMAND, until the next call. */
    struct str name, data;

    size_t frame_ends[ZMTP_FRAMES_MAX]; /* in `message`, while it grows */
};

/* Cannot fail, allocates nothing. message_bytes_max 0 means ZMTP_MESSAGE_BYTES_MAX. */
void zmtp_reader_init(struct zmtp_reader *r, size_t message_bytes_max);
void zmtp_reader_done(struct zmtp_reader *r);

/* Takes bytes off *in until there is something to tell. -EPROTO for what is not ZMTP 3.0 with
 * mechanism NULL; the connection is then of no use. */
int zmtp_read(struct zmtp_reader *r, struct str *in, enum zmtp_event *ret, struct err *e) MUST_USE;

/* Forgets what was told last, and gives up memory that a large message took. */
void zmtp_reader_release(struct zmtp_reader *r);

/* Finds a property of a READY command ("Socket-Type"); names in any case. -ENOENT when absent,
 * -EPROTO when the data is malformed. */
int zmtp_property(struct str data, struct str name, struct str *ret) MUST_USE;

/* Each appends all of it, or nothing: 0, -EMSGSIZE past the ceiling of `out`, -ENOMEM. */
int zmtp_write_greeting(struct buf *out) MUST_USE;
int zmtp_write_ready(struct buf *out, struct str socket_type, struct str identity) MUST_USE;
int zmtp_write_pong(struct buf *out, struct str ping) MUST_USE; /* the data of the PING */
int zmtp_write_frame(struct buf *out, struct str body, bool more) MUST_USE;
