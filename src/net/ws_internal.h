/* ws_internal.h - what the opening and the running of a WebSocket share. */
#pragma once

#include "net/ws.h"

enum { WS_MASKS_BYTES = 256 }; /* as much as getrandom gives without ever being interrupted */

struct ws {
    struct stream stream; /* from OPEN on */
    struct loop *loop;
    struct ws_conf conf;
    const struct ws_ops *ops;
    void *user;
    struct ws_decoder decoder;
    struct buf
        message; /* being collected, or held back by on_piece; a client's expected accept before */
    struct loop_timer timer;
    struct loop_timer idle; /* of conf.idle_ms */
    struct loop_task task;
    struct http_call *call; /* a client's, while connecting */
    struct str protocol;    /* one of conf.protocols */
    struct str close_reason;
    struct err *err; /* NULL while all is well */
    uint8_t *masks;  /* random bytes, of which the first masks_left are unused; clients only */
    size_t masks_left;
    uint64_t bytes_seen; /* received when we pinged, or sent when we looked last while closing */
    enum ws_state {
        WS_STATE_CONNECTING,
        WS_STATE_OPEN,
        WS_STATE_CLOSING,
        WS_STATE_ENDING,
        WS_STATE_OVER,
    } state;
    uint16_t close_code;
    uint8_t held_opcode, pong_bytes;
    bool held, held_first, held_last; /* a piece in `message` */
    bool paused, drain_due, in_parts;
    bool ping_out, pong_due; /* ours is unanswered; theirs is, and the queue was full */
    char pong[WS_CONTROL_BYTES_MAX];
};

/* ws.c */
struct ws *ws_new(struct loop *loop, enum ws_role role, const struct ws_conf *conf,
                  const struct ws_ops *ops, void *user);
void ws_free(struct ws *ws); /* one that nobody heard of yet */
/* Takes the connection over, sends first_words and tells the owner. */
void ws_open(struct ws *ws, struct stream_parts *parts, struct str first_words);
void ws_note_error(struct ws *ws, int error, const char *story); /* only the first is kept */
void ws_end_soon(struct ws *ws);                                 /* on_close, then gone */
