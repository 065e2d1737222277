/* ws_frame.h - the frame layer of WebSocket (RFC 6455): bytes to events, and frame headers to
 * bytes.
 *
 * Pure: no I/O, no clock, no allocation. Messages pass through in pieces that are borrowed from the
 * input, so a message of any size needs no buffer here. */
#pragma once

#include "base/str.h"
#include "base/utf8.h"

enum ws_opcode {
    WS_OP_CONTINUATION = 0x0,
    WS_OP_TEXT = 0x1,
    WS_OP_BINARY = 0x2,
    WS_OP_CLOSE = 0x8,
    WS_OP_PING = 0x9,
    WS_OP_PONG = 0xA,
};

enum ws_close_code {
    WS_CLOSE_NORMAL = 1000,
    WS_CLOSE_GOING_AWAY = 1001,
    WS_CLOSE_PROTOCOL_ERROR = 1002,
    WS_CLOSE_NO_STATUS = 1005, /* stands for an empty close payload; never on the wire */
    WS_CLOSE_BAD_TEXT = 1007,
    WS_CLOSE_TOO_BIG = 1009,
    WS_CLOSE_INTERNAL_ERROR = 1011,
};

/* Which end we are: a server receives masked frames, a client unmasked ones. */
enum ws_role { WS_SERVER, WS_CLIENT };

enum {
    WS_HEADER_MAX = 14,
    WS_CONTROL_BYTES_MAX = 125,
    WS_MESSAGE_BYTES_DEFAULT = 16 << 20,
    WS_KEY_CHARS = 24,
    WS_ACCEPT_SIZE = 29, /* 28 characters and a NUL */
};

enum ws_event_type {
    WS_MORE,  /* the input is used up; feed more */
    WS_DATA,  /* a piece of a text or binary message */
    WS_PING,  /* answer with a pong of the same payload */
    WS_PONG,  /* whole payload */
    WS_CLOSE, /* peer's close_code and its reason; what follows is swallowed */
    WS_ERROR, /* send close_code and hang up; every later call repeats it */
};

struct ws_event {
    enum ws_event_type type;
    enum ws_opcode opcode; /* WS_DATA: of the message, text or binary */
    bool first, last;      /* WS_DATA: piece begins / ends its message; an empty one is both */
    uint16_t close_code;   /* WS_CLOSE, WS_ERROR */
    struct str payload;    /* WS_DATA borrows from the input, the others until the next call */
};

struct ws_decoder { /* fields are the decoder's own */
    uint64_t message_bytes_max;
    uint64_t message_bytes; /* announced so far by the frames of the message under way */
    uint64_t payload_left;  /* of the frame under way */
    struct utf8_state utf8; /* validator state of the text message under way */
    uint16_t error_code;
    uint8_t role, stage;
    uint8_t opcode, message_opcode; /* of the frame; of the message under way, 0 = none */
    bool fin, fresh;                /* fresh: no piece of the message was delivered yet */
    uint8_t head_n, head_need, mask_at, control_n;
    uint8_t head[WS_HEADER_MAX], mask[4];
    char control[WS_CONTROL_BYTES_MAX];
};

/* Cannot fail. message_bytes_max bounds the sum of a message's fragments; 0 means
 * WS_MESSAGE_BYTES_DEFAULT. */
void ws_decoder_init(struct ws_decoder *d, enum ws_role role, uint64_t message_bytes_max);

/* Takes bytes from p[0..n), unmasking them in place, until there is something to tell. Returns how
 * many it took; call again with the rest until the event is WS_MORE, which means all of them.
 * Pieces of a text message are valid UTF-8 taken together; a piece may end inside a character. */
size_t ws_decode(struct ws_decoder *d, char *p, size_t n, struct ws_event *ret_event) MUST_USE;

/* Writes the header of a frame of `payload_bytes` and returns its length. The mask is for clients
 * (whose payload then goes through ws_mask), NULL for servers. payload_bytes < 2^63. */
size_t ws_frame_header(char out[WS_HEADER_MAX], enum ws_opcode opcode, bool fin,
                       uint64_t payload_bytes, const uint8_t mask[4]);

/* Masks or unmasks n bytes in place; `offset` is how far into the payload p points. */
void ws_mask(char *p, size_t n, const uint8_t mask[4], size_t offset);

/* True for codes that an endpoint may put into a close frame. */
bool ws_close_code_is_valid(uint16_t code);

/* True for a Sec-WebSocket-Key: 16 bytes in base64. */
bool ws_key_is_valid(struct str key);

/* The Sec-WebSocket-Accept that answers a valid key, as a C string. */
void ws_accept_key(struct str key, char ret_accept[WS_ACCEPT_SIZE]);
