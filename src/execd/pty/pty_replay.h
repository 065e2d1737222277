/* pty_replay.h - the last of what a terminal session printed, by offset.
 *
 * Every byte ever printed has a number, from 0 on. The newest PTY_REPLAY_BYTES_MAX are kept, in
 * memory that grows as output comes; where memory is out, fewer are. */
#pragma once

#include "base/str.h"

enum { PTY_REPLAY_BYTES_MAX = 1 << 20 };

struct pty_replay {
    char *p; /* a ring: byte k is at k % cap */
    size_t cap;
    uint64_t written; /* bytes ever printed */
    uint64_t oldest;  /* number of the first that is kept; <= written */
};

void pty_replay_init(struct pty_replay *r); /* cannot fail, allocates nothing */
/* Forgets the bytes and frees their memory; numbers go on. */
void pty_replay_drop(struct pty_replay *r);

void pty_replay_add(struct pty_replay *r, struct str data);

/* What is kept from number `since` on: in one or two pieces (borrowed until the next add), the
 * others empty. Returns the number of the first byte, which is the oldest kept one where `since` is
 * negative or older than that; `written`, and nothing, where it lies ahead. */
uint64_t pty_replay_get(const struct pty_replay *r, int64_t since, struct str ret_pieces[2]);

static inline size_t pty_replay_kept(const struct pty_replay *r)
{
    return (size_t)(r->written - r->oldest);
}
