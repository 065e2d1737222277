/* ws_frame.c - a byte-driven frame decoder, and the encoder of frame headers.
 *
 *    0               1               2 ...
 *   +-+---+---------+-+-------------+---------------+------+---------+
 *   |F|RSV| opcode  |M| length (7)  | 16 or 64 bits | mask | payload |
 *   +-+---+---------+-+-------------+---------------+------+---------+
 *
 * A frame is HEAD, then PAYLOAD. Each header byte is checked as soon as possible, so a peer that
 * speaks another protocol gets an error at its first byte. */
#include "net/ws_frame.h"

#include <assert.h>

#include "base/codec.h"
#include "base/sha.h"

enum { STAGE_HEAD, STAGE_PAYLOAD, STAGE_CLOSED, STAGE_FAILED };

enum {
    BIT_FIN = 0x80,
    BITS_RSV = 0x70,
    BITS_OPCODE = 0x0F,
    BIT_CONTROL = 0x08,
    BIT_MASKED = 0x80,
    BITS_LENGTH = 0x7F,
    LENGTH_16 = 126, /* the length is in the next 2 bytes */
    LENGTH_64 = 127, /* ... the next 8 */
};

void ws_decoder_init(struct ws_decoder *d, enum ws_role role, uint64_t message_bytes_max)
{
    *d = (struct ws_decoder){
        .message_bytes_max = message_bytes_max ? message_bytes_max : WS_MESSAGE_BYTES_DEFAULT,
        .role = (uint8_t)role,
        .stage = STAGE_HEAD,
    };
}

static void fail(struct ws_decoder *d, uint16_t code, struct ws_event *ret_event)
{
    d->stage = STAGE_FAILED;
    d->error_code = code;
    *ret_event = (struct ws_event){.type = WS_ERROR, .close_code = code};
}

/* The checks of a header return the close code to fail with, or 0. */
static uint16_t check_first_byte(const struct ws_decoder *d, uint8_t c)
{
    uint8_t opcode = c & BITS_OPCODE;

    if (c & BITS_RSV)
        return WS_CLOSE_PROTOCOL_ERROR; /* no extension is ever negotiated */
    switch (opcode) {
    case WS_OP_CONTINUATION:
        return d->message_opcode ? 0 : WS_CLOSE_PROTOCOL_ERROR;
    case WS_OP_TEXT:
    case WS_OP_BINARY:
        return d->message_opcode ? WS_CLOSE_PROTOCOL_ERROR : 0;
    case WS_OP_CLOSE:
    case WS_OP_PING:
    case WS_OP_PONG:
        return c & BIT_FIN ? 0 : WS_CLOSE_PROTOCOL_ERROR;
    default:
        return WS_CLOSE_PROTOCOL_ERROR;
    }
}

static uint16_t check_second_byte(const struct ws_decoder *d, uint8_t c)
{
    uint8_t length = c & BITS_LENGTH;

    if (!(c & BIT_MASKED) != (d->role == WS_CLIENT))
        return WS_CLOSE_PROTOCOL_ERROR;
    if (d->head[0] & BIT_CONTROL) {
        if (length > WS_CONTROL_BYTES_MAX)
            return WS_CLOSE_PROTOCOL_ERROR;
        if ((d->head[0] & BITS_OPCODE) == WS_OP_CLOSE && length == 1)
            return WS_CLOSE_PROTOCOL_ERROR; /* half a close code */
    }
    return 0;
}

static size_t length_bytes(uint8_t second)
{
    switch (second & BITS_LENGTH) {
    case LENGTH_16:
        return 2;
    case LENGTH_64:
        return 8;
    default:
        return 0;
    }
}

static uint16_t read_length(const struct ws_decoder *d, uint64_t *ret_length)
{
    static const uint64_t least[] = {[2] = LENGTH_16, [8] = UINT64_C(1) << 16};
    size_t n = length_bytes(d->head[1]);
    uint64_t length = 0;

    if (n == 0) {
        *ret_length = d->head[1] & BITS_LENGTH;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        length = length << 8 | d->head[2 + i];
    if (length < least[n] || length >> 63)
        return WS_CLOSE_PROTOCOL_ERROR;
    *ret_length = length;
    return 0;
}

/* Sets up the current frame from a complete header. */
static uint16_t begin_frame(struct ws_decoder *d)
{
    uint16_t code;

    code = read_length(d, &d->payload_left);
    if (code)
        return code;
    d->opcode = d->head[0] & BITS_OPCODE;
    d->fin = d->head[0] & BIT_FIN;
    d->mask_at = 0;
    if (d->role == WS_SERVER)
        memcpy(d->mask, d->head + d->head_need - sizeof(d->mask), sizeof(d->mask));
    d->head_n = 0;
    d->stage = STAGE_PAYLOAD;

    if (d->opcode & BIT_CONTROL) {
        d->control_n = 0;
        return 0;
    }
    if (d->opcode != WS_OP_CONTINUATION) {
        d->message_opcode = d->opcode;
        d->message_bytes = 0;
        d->utf8 = (struct utf8_state){0};
        d->fresh = true;
    }
    if (d->payload_left > d->message_bytes_max - d->message_bytes)
        return WS_CLOSE_TOO_BIG;
    d->message_bytes += d->payload_left;
    return 0;
}

static uint16_t take_head_byte(struct ws_decoder *d, uint8_t c)
{
    uint16_t code;

    d->head[d->head_n++] = c;
    if (d->head_n == 1)
        return check_first_byte(d, c);
    if (d->head_n == 2) {
        code = check_second_byte(d, c);
        if (code)
            return code;
        d->head_need = (uint8_t)(2 + length_bytes(c) + (c & BIT_MASKED ? sizeof(d->mask) : 0));
    }
    return d->head_n < d->head_need ? 0 : begin_frame(d);
}

/* Takes the available part of the frame's payload and unmasks it. */
static struct str take_payload(struct ws_decoder *d, char *p, size_t n)
{
    size_t taken = d->payload_left < n ? (size_t)d->payload_left : n;

    if (d->role == WS_SERVER)
        ws_mask(p, taken, d->mask, d->mask_at);
    d->mask_at = (d->mask_at + taken) & 3;
    d->payload_left -= taken;
    if (d->payload_left == 0)
        d->stage = STAGE_HEAD;
    return str_make(p, taken);
}

static size_t take_data(struct ws_decoder *d, char *p, size_t n, struct ws_event *ret_event)
{
    struct str piece = take_payload(d, p, n);
    bool last = d->fin && d->payload_left == 0;

    if (d->message_opcode == WS_OP_TEXT) {
        if (utf8_feed(&d->utf8, piece) < 0 || (last && !utf8_at_boundary(&d->utf8))) {
            fail(d, WS_CLOSE_BAD_TEXT, ret_event);
            return piece.n;
        }
    }
    if (piece.n || last) {
        *ret_event = (struct ws_event){
            .type = WS_DATA,
            .opcode = d->message_opcode,
            .first = d->fresh,
            .last = last,
            .payload = piece,
        };
        d->fresh = false;
    }
    if (last)
        d->message_opcode = 0;
    return piece.n;
}

static void end_close(struct ws_decoder *d, struct ws_event *ret_event)
{
    struct str reason = str_make(d->control, d->control_n);
    uint16_t code = WS_CLOSE_NO_STATUS;

    if (reason.n) {
        code = (uint16_t)((uint8_t)reason.p[0] << 8 | (uint8_t)reason.p[1]);
        reason = str_skip(reason, 2);
        if (!ws_close_code_is_valid(code)) {
            fail(d, WS_CLOSE_PROTOCOL_ERROR, ret_event);
            return;
        }
        if (!utf8_valid(reason)) {
            fail(d, WS_CLOSE_BAD_TEXT, ret_event);
            return;
        }
    }
    d->stage = STAGE_CLOSED;
    *ret_event = (struct ws_event){.type = WS_CLOSE, .close_code = code, .payload = reason};
}

static size_t take_control(struct ws_decoder *d, char *p, size_t n, struct ws_event *ret_event)
{
    struct str piece = take_payload(d, p, n);

    if (piece.n)
        memcpy(d->control + d->control_n, piece.p, piece.n);
    d->control_n = (uint8_t)(d->control_n + piece.n);
    if (d->payload_left)
        return piece.n;
    if (d->opcode == WS_OP_CLOSE) {
        end_close(d, ret_event);
    } else {
        *ret_event = (struct ws_event){
            .type = d->opcode == WS_OP_PING ? WS_PING : WS_PONG,
            .payload = str_make(d->control, d->control_n),
        };
    }
    return piece.n;
}

size_t ws_decode(struct ws_decoder *d, char *p, size_t n, struct ws_event *ret_event)
{
    size_t used = 0;
    uint16_t code;

    *ret_event = (struct ws_event){.type = WS_MORE};
    if (d->stage == STAGE_FAILED)
        fail(d, d->error_code, ret_event);
    if (d->stage == STAGE_FAILED || d->stage == STAGE_CLOSED)
        return n;

    /* Only an empty fragment that does not end its message gives no event. */
    do {
        while (d->stage == STAGE_HEAD && used < n) {
            code = take_head_byte(d, (uint8_t)p[used++]);
            if (code) {
                fail(d, code, ret_event);
                return used;
            }
        }
        if (d->stage == STAGE_PAYLOAD)
            used += (d->opcode & BIT_CONTROL ? take_control : take_data)(d, p + used, n - used,
                                                                         ret_event);
    } while (ret_event->type == WS_MORE && used < n);
    return used;
}

size_t ws_frame_header(char out[WS_HEADER_MAX], enum ws_opcode opcode, bool fin,
                       uint64_t payload_bytes, const uint8_t mask[4])
{
    uint8_t short_length = payload_bytes < LENGTH_16           ? (uint8_t)payload_bytes
                           : payload_bytes < UINT64_C(1) << 16 ? LENGTH_16
                                                               : LENGTH_64;
    size_t ext = length_bytes(short_length);
    size_t n = 0;

    assert(payload_bytes >> 63 == 0);
    assert(!(opcode & BIT_CONTROL) || (fin && payload_bytes <= WS_CONTROL_BYTES_MAX));

    out[n++] = (char)((fin ? BIT_FIN : 0) | opcode);
    out[n++] = (char)((mask ? BIT_MASKED : 0) | short_length);
    for (size_t i = ext; i > 0; i--)
        out[n++] = (char)(payload_bytes >> (8 * (i - 1)));
    if (mask) {
        memcpy(out + n, mask, 4);
        n += 4;
    }
    return n;
}

void ws_mask(char *p, size_t n, const uint8_t mask[4], size_t offset)
{
    uint8_t key[8];
    uint64_t wide, word;
    size_t i = 0;

    for (size_t k = 0; k < sizeof(key); k++)
        key[k] = mask[(offset + k) & 3];
    memcpy(&wide, key, sizeof(wide));
    for (; n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, p + i, sizeof(word));
        word ^= wide;
        memcpy(p + i, &word, sizeof(word));
    }
    for (; i < n; i++)
        p[i] = (char)((uint8_t)p[i] ^ key[i & 7]);
}

bool ws_close_code_is_valid(uint16_t code)
{
    static const struct {
        uint16_t first, last;
    } valid[] = {
        {1000, 1003}, /* 1004 is reserved; 1005, 1006 and 1015 are never sent */
        {1007, 1014},
        {3000, 4999}, /* registered by libraries, or private */
    };

    for (size_t i = 0; i < ARRAY_LEN(valid); i++) {
        if (code >= valid[i].first && code <= valid[i].last)
            return true;
    }
    return false;
}

/* Checks only the shape: the last character of a key may have unused bits set, as in clients'
 * random strings, which our base64 decoder refuses. */
bool ws_key_is_valid(struct str key)
{
    if (key.n != WS_KEY_CHARS || !str_ends(key, STR("==")))
        return false;
    for (size_t i = 0; i < key.n - 2; i++) {
        char c = key.p[i];

        if (!ascii_is_alpha(c) && !ascii_is_digit(c) && c != '+' && c != '/')
            return false;
    }
    return true;
}

void ws_accept_key(struct str key, char ret_accept[WS_ACCEPT_SIZE])
{
    static const char salt[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455, 1.3 */
    char text[WS_KEY_CHARS + sizeof(salt) - 1];
    uint8_t digest[SHA1_BYTES];

    static_assert(WS_ACCEPT_SIZE == BASE64_TEXT_MAX(SHA1_BYTES), "room for the digest");
    assert(key.n == WS_KEY_CHARS);
    memcpy(text, key.p, WS_KEY_CHARS);
    memcpy(text + WS_KEY_CHARS, salt, sizeof(salt) - 1);
    sha1_of(str_make(text, sizeof(text)), digest);
    base64_encode(str_make((const char *)digest, sizeof(digest)), BASE64_STD, ret_accept);
}
