/* pty_replay.h - the last part of a terminal session's output, by offset.
 *
 * Every byte ever printed has an offset, starting at 0. The newest PTY_REPLAY_BYTES_MAX bytes are
 * kept, in memory that grows with the output. If memory runs out, fewer are kept. */
#pragma once

#include "base/str.h"

enum { PTY_REPLAY_BYTES_MAX = 1 << 20 };

struct pty_replay {
    char *p; /* ring buffer: byte k is at k % cap */
    size_t cap;
    uint64_t written; /* bytes ever printed */
    uint64_t oldest;  /* offset of the first byte kept; <= written */
    uint64_t sent;    /* bytes before this offset were sent to a client; <= written */
};

void pty_replay_init(struct pty_replay *r); /* cannot fail, allocates nothing */
/* Discards the bytes and frees their memory; offsets continue. */
void pty_replay_drop(struct pty_replay *r);

void pty_replay_add(struct pty_replay *r, struct str data);

/* Returns what is kept from offset `since` on, in one or two pieces (borrowed until the next add);
 * unused pieces are empty. The result is the offset of the first byte: the oldest one kept if
 * `since` is negative or older than that; `written`, without data, if `since` lies ahead. */
uint64_t pty_replay_get(const struct pty_replay *r, int64_t since, struct str ret_pieces[2]);

/* Blanks the requests to a terminal (pty_query.h) among the bytes that were sent to a client
 * before: its terminal has answered them. */
void pty_replay_silence(struct pty_replay *r);
/* A client has been sent all that was written. */
static inline void pty_replay_mark_sent(struct pty_replay *r)
{
    r->sent = r->written;
}

static inline size_t pty_replay_kept(const struct pty_replay *r)
{
    return (size_t)(r->written - r->oldest);
}
