/* zmtp.h - the wire format of ZeroMQ (ZMTP 3.0, mechanism NULL): parses and writes messages.
 *
 *   greeting   FF 00*8 7F | 3 0 | "NULL" 0*16 | 0 | 0*31      64 bytes, from both sides
 *   frame      flags, size (1 byte, or 8 if long), body       flags: 1 more, 2 long, 4 command
 *   command    a frame: length of the name, name, data        READY, PING, ...
 *   message    frames with "more", and one without
 *
 * Pure: no I/O, no clock. A reader holds one message of up to ZMTP_MESSAGE_BYTES_MAX. Of a larger
 * one it keeps the frames before the limit, and sets `cut`. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    ZMTP_GREETING_BYTES = 64,
    ZMTP_HEADER_BYTES_MAX = 9,
    ZMTP_COMMAND_BYTES_MAX = 4096,
    ZMTP_FRAMES_MAX = 16, /* further frames are cut */
    ZMTP_MESSAGE_BYTES_MAX = 32 << 20,
    ZMTP_KEPT_BYTES_MAX = 16 << 10, /* memory kept between messages */
};

enum zmtp_flags { ZMTP_MORE = 1, ZMTP_LONG = 2, ZMTP_COMMAND = 4 };

enum zmtp_event {
    ZMTP_EVENT_NONE,     /* all input was consumed; feed more */
    ZMTP_EVENT_GREETING, /* the peer uses ZMTP 3 and mechanism NULL */
    ZMTP_EVENT_COMMAND,  /* name and data are in the reader */
    ZMTP_EVENT_MESSAGE,  /* its frames are in the reader */
};

struct zmtp_reader {
    uint8_t head[ZMTP_GREETING_BYTES]; /* the greeting, then the header of the current frame */
    size_t head_n;
    uint64_t left; /* bytes of the frame's body still to come */
    uint8_t flags; /* of the current frame */
    bool greeted, in_body;
    bool skip;          /* the current frame is not kept */
    bool told;          /* the last event's data is still in the buffers */
    struct buf message; /* bodies of its frames, concatenated */
    struct buf command;
    size_t message_bytes_max;

    /* Valid after ZMTP_EVENT_MESSAGE until the next call. */
    struct str frames[ZMTP_FRAMES_MAX];
    size_t frame_count;
    uint64_t message_bytes; /* of all frames, kept or not */
    bool cut;               /* later frames are missing; those present are complete */

    /* Valid after ZMTP_EVENT_COMMAND until the next call. */
    struct str name, data;

    size_t frame_ends[ZMTP_FRAMES_MAX]; /* offsets in `message` while it grows */
};

/* Cannot fail, does not allocate. message_bytes_max 0 means ZMTP_MESSAGE_BYTES_MAX. */
void zmtp_reader_init(struct zmtp_reader *r, size_t message_bytes_max);
void zmtp_reader_done(struct zmtp_reader *r);

/* Consumes bytes of *in up to the next event. -EPROTO if the input is not ZMTP 3.0 with mechanism
 * NULL; the connection is then useless. */
int zmtp_read(struct zmtp_reader *r, struct str *in, enum zmtp_event *ret, struct err *e) MUST_USE;

/* Discards the data of the last event, and frees memory that a large message took. */
void zmtp_reader_release(struct zmtp_reader *r);

/* Finds a property of a READY command ("Socket-Type"), ignoring case. -ENOENT: absent; -EPROTO:
 * malformed data. */
int zmtp_property(struct str data, struct str name, struct str *ret) MUST_USE;

/* Each appends everything or nothing: 0, -EMSGSIZE beyond the limit of `out`, -ENOMEM. */
int zmtp_write_greeting(struct buf *out) MUST_USE;
int zmtp_write_ready(struct buf *out, struct str socket_type, struct str identity) MUST_USE;
int zmtp_write_pong(struct buf *out, struct str ping) MUST_USE; /* the data of the PING */
int zmtp_write_frame(struct buf *out, struct str body, bool more) MUST_USE;
