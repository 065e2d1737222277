/* pty_frames.h - what a terminal's client and we say to each other, less the bytes themselves.
 *
 *   to us      binary 00 BYTES                                       input
 *              text   {"type":"stdin","data":"..."}, "resize", "signal", "ping"
 *   from us    binary 01 BYTES, 02 BYTES                             output; stderr of pipes
 *              binary 03 OFFSET (8 bytes, big endian) BYTES          replay
 *              text   {"type":"connected"}, "exit", "pong", "error", and a line feed behind each
 *
 * Pure: no I/O. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum pty_channel {
    PTY_CHANNEL_STDIN = 0x00,
    PTY_CHANNEL_STDOUT = 0x01,
    PTY_CHANNEL_STDERR = 0x02,
    PTY_CHANNEL_REPLAY = 0x03,
};

enum {
    PTY_REPLAY_HEAD_BYTES = 1 + 8,
    PTY_TEXT_BYTES_MAX = 1 << 20, /* of a text frame to us; input of any size goes binary */
    PTY_PRINT_BYTES_MAX = 4 << 10,
};

enum pty_frame_type {
    PTY_FRAME_IGNORE, /* no JSON, a value that does not fit, a signal nobody may send */
    PTY_FRAME_UNKNOWN,
    PTY_FRAME_STDIN,
    PTY_FRAME_RESIZE,
    PTY_FRAME_SIGNAL,
    PTY_FRAME_PING,
};

struct pty_frame {
    enum pty_frame_type type;
    struct str text;     /* the input, or the name of an unknown type; in the arena */
    uint16_t cols, rows; /* > 0 */
    int signo;
};

/* Reads a text frame; never fails, as what cannot be read is ignored. */
void pty_frame_read(struct str text, struct arena *a, struct pty_frame *ret);

void pty_print_replay_head(char out[PTY_REPLAY_HEAD_BYTES], uint64_t offset);

/* Each appends a text frame; 0 or -ENOMEM, -EMSGSIZE. */
int pty_print_connected(struct buf *out, const char *id, bool is_pty);
int pty_print_exit(struct buf *out, int exit_code); /* -1: by a signal */
int pty_print_error(struct buf *out, const char *code, struct str message);
int pty_print_pong(struct buf *out);
