/* pty_frames.h - WebSocket frames between a terminal's client and execd, without payload handling.
 *
 *   to execd    binary 00 BYTES                                  input
 *               text   {"type":"stdin","data":"..."}, "resize", "signal", "ping"
 *   from execd  binary 01 BYTES, 02 BYTES                        stdout; stderr of pipes
 *               binary 03 OFFSET (8 bytes, big endian) BYTES     replay
 *               text   {"type":"connected"}, "exit", "pong", "error", each with a line feed
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
    PTY_TEXT_BYTES_MAX = 1 << 20, /* of a text frame to execd; binary input has no limit */
    PTY_PRINT_BYTES_MAX = 4 << 10,
};

enum pty_frame_type {
    PTY_FRAME_IGNORE, /* not JSON, an invalid value, or a signal that is not allowed */
    PTY_FRAME_UNKNOWN,
    PTY_FRAME_STDIN,
    PTY_FRAME_RESIZE,
    PTY_FRAME_SIGNAL,
    PTY_FRAME_PING,
};

struct pty_frame {
    enum pty_frame_type type;
    struct str text;     /* input, or the name of an unknown type; in the arena */
    uint16_t cols, rows; /* > 0 */
    int signo;
};

/* Parses a text frame. Never fails: invalid frames become PTY_FRAME_IGNORE. */
void pty_frame_read(struct str text, struct arena *a, struct pty_frame *ret);

void pty_print_replay_head(char out[PTY_REPLAY_HEAD_BYTES], uint64_t offset);

/* Each appends a text frame. Return 0, -ENOMEM or -EMSGSIZE. */
int pty_print_connected(struct buf *out, const char *id, bool is_pty);
int pty_print_exit(struct buf *out, int exit_code); /* -1: by a signal */
int pty_print_error(struct buf *out, const char *code, struct str message);
int pty_print_pong(struct buf *out);
