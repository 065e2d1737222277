/* ws_frame.h - the frame layer of WebSocket (RFC 6455): decodes frames, encodes frame headers.
 *
 * Pure: no I/O, no clock, no allocation. Messages are passed on in pieces borrowed from the input,
 * so a message of any size needs no buffer here. */
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
    WS_CLOSE_NO_STATUS = 1005, /* means an empty close payload; never sent */
    WS_CLOSE_BAD_TEXT = 1007,
    WS_CLOSE_TOO_BIG = 1009,
    WS_CLOSE_INTERNAL_ERROR = 1011,
};

/* Our side: a server receives masked frames, a client unmasked ones. */
enum ws_role { WS_SERVER, WS_CLIENT };

enum {
    WS_HEADER_MAX = 14,
    WS_CONTROL_BYTES_MAX = 125,
    WS_MESSAGE_BYTES_DEFAULT = 16 << 20,
    WS_KEY_CHARS = 24,
    WS_ACCEPT_SIZE = 29, /* 28 characters and a NUL */
};

enum ws_event_type {
    WS_MORE,  /* all input was consumed; feed more */
    WS_DATA,  /* a piece of a text or binary message */
    WS_PING,  /* answer with a pong of the same payload */
    WS_PONG,  /* complete payload */
    WS_CLOSE, /* the peer's close_code and reason; later input is dropped */
    WS_ERROR, /* send close_code and close; every later call repeats it */
};

struct ws_event {
    enum ws_event_type type;
    enum ws_opcode opcode; /* WS_DATA: of the message, text or binary */
    bool first, last;      /* WS_DATA: piece begins / ends its message; an empty one is both */
    uint16_t close_code;   /* WS_CLOSE, WS_ERROR */
    struct str payload;    /* WS_DATA: borrowed from the input; others: valid until the next call */
};

struct ws_decoder { /* the fields are private */
    uint64_t message_bytes_max;
    uint64_t message_bytes; /* announced so far by the frames of the current message */
    uint64_t payload_left;  /* of the current frame */
    struct utf8_state utf8; /* of the current text message */
    uint16_t error_code;
    uint8_t role, stage;
    uint8_t opcode, message_opcode; /* of the frame; of the current message, 0 = none */
    bool fin, fresh;                /* fresh: no piece of the message was delivered yet */
    uint8_t head_n, head_need, mask_at, control_n;
    uint8_t head[WS_HEADER_MAX], mask[4];
    char control[WS_CONTROL_BYTES_MAX];
};

/* Cannot fail. message_bytes_max limits the sum of a message's fragments; 0 means
 * WS_MESSAGE_BYTES_DEFAULT. */
void ws_decoder_init(struct ws_decoder *d, enum ws_role role, uint64_t message_bytes_max);

/* Consumes bytes from p[0..n), unmasking them in place, until there is an event. Returns how many
 * it consumed; call again with the rest until the event is WS_MORE, which means all of them. The
 * pieces of a text message together are valid UTF-8; a piece may end inside a character. */
size_t ws_decode(struct ws_decoder *d, char *p, size_t n, struct ws_event *ret_event) MUST_USE;

/* Writes the header of a frame of `payload_bytes` and returns its length. Clients pass a mask (and
 * apply ws_mask to the payload), servers NULL. payload_bytes < 2^63. */
size_t ws_frame_header(char out[WS_HEADER_MAX], enum ws_opcode opcode, bool fin,
                       uint64_t payload_bytes, const uint8_t mask[4]);

/* Masks or unmasks n bytes in place; `offset` is the position of p in the payload. */
void ws_mask(char *p, size_t n, const uint8_t mask[4], size_t offset);

/* True for codes that an endpoint may put into a close frame. */
bool ws_close_code_is_valid(uint16_t code);

/* True for a Sec-WebSocket-Key: 16 bytes in base64. */
bool ws_key_is_valid(struct str key);

/* The Sec-WebSocket-Accept that answers a valid key, as a C string. */
void ws_accept_key(struct str key, char ret_accept[WS_ACCEPT_SIZE]);
