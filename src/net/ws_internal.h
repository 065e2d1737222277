/* ws_internal.h - shared by the handshake and the running of a WebSocket. */
#pragma once

#include "net/ws.h"

enum { WS_MASKS_BYTES = 256 }; /* getrandom fills this much without being interrupted */

struct ws {
    struct stream stream; /* from WS_STATE_OPEN on */
    struct loop *loop;
    struct ws_conf conf;
    const struct ws_ops *ops;
    void *user;
    struct ws_decoder decoder;
    struct buf message; /* being collected, or held back by on_piece; before that, the accept value
                           a client expects */
    struct loop_timer timer;
    struct loop_timer idle; /* of conf.idle_ms */
    struct loop_task task;
    struct http_call *call; /* of a client, while connecting */
    int refused_status;     /* of a client whose handshake was refused */
    struct str protocol;    /* one of conf.protocols */
    struct str close_reason;
    struct err *err; /* NULL = no error */
    uint8_t *masks;  /* random bytes; the first masks_left are unused; clients only */
    size_t masks_left;
    uint64_t bytes_seen; /* bytes_in at our ping; while closing, bytes_out at the last check */
    enum ws_state {
        WS_STATE_CONNECTING,
        WS_STATE_OPEN,
        WS_STATE_CLOSING,
        WS_STATE_ENDING,
        WS_STATE_OVER,
    } state;
    uint16_t close_code;
    uint8_t held_opcode, pong_bytes;
    bool held, held_first, held_last; /* `message` holds a piece */
    bool paused, drain_due, in_parts;
    bool ping_out, pong_due; /* our ping is unanswered; their pong waits for room in the queue */
    char pong[WS_CONTROL_BYTES_MAX];
};

/* ws.c */
struct ws *ws_new(struct loop *loop, enum ws_role role, const struct ws_conf *conf,
                  const struct ws_ops *ops, void *user);
void ws_free(struct ws *ws); /* without callbacks */
/* Takes over the connection, sends first_words and calls on_open. */
void ws_open(struct ws *ws, struct stream_parts *parts, struct str first_words);
void ws_note_error(struct ws *ws, int error, const char *story); /* only the first is kept */
void ws_end_soon(struct ws *ws);                                 /* calls on_close, then frees */
