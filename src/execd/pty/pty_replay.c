#include "execd/pty/pty_replay.h"

#include <assert.h>

#include "base/mem.h"
#include "execd/pty/pty_query.h"

enum { FIRST_BYTES = 4 << 10 };

void pty_replay_init(struct pty_replay *r)
{
    *r = (struct pty_replay){0};
}

void pty_replay_drop(struct pty_replay *r)
{
    free(r->p);
    r->p = NULL;
    r->cap = 0;
    r->oldest = r->written;
}

/* Copies `data` into the ring at offset `at`; `data` must fit. */
static void ring_put(char *ring, size_t cap, uint64_t at, struct str data)
{
    size_t from = (size_t)(at % cap), first = min_size(data.n, cap - from);

    memcpy(ring + from, data.p, first);
    memcpy(ring, data.p + first, data.n - first);
}

/* Enlarges the ring to `need` bytes and copies what is kept. Without memory nothing changes. */
static void replay_grow(struct pty_replay *r, size_t need)
{
    size_t cap = r->cap ? r->cap : FIRST_BYTES;
    struct str kept[2];
    uint64_t at;
    char *p;

    while (cap < need && cap < PTY_REPLAY_BYTES_MAX)
        cap *= 2;
    if (cap == r->cap)
        return;
    p = mem_try_realloc(NULL, cap);
    if (!p)
        return;
    at = pty_replay_get(r, -1, kept);
    ring_put(p, cap, at, kept[0]);
    ring_put(p, cap, at + kept[0].n, kept[1]);
    free(r->p);
    r->p = p;
    r->cap = cap;
}

void pty_replay_add(struct pty_replay *r, struct str data)
{
    replay_grow(r, pty_replay_kept(r) + data.n);
    r->written += data.n;
    data = str_skip(data, data.n - min_size(data.n, r->cap));
    if (data.n)
        ring_put(r->p, r->cap, r->written - data.n, data);
    if (pty_replay_kept(r) > r->cap)
        r->oldest = r->written - r->cap;
}

uint64_t pty_replay_get(const struct pty_replay *r, int64_t since, struct str ret_pieces[2])
{
    uint64_t at = since < 0 || (uint64_t)since < r->oldest ? r->oldest : (uint64_t)since;
    size_t n, from, first;

    ret_pieces[0] = ret_pieces[1] = STR("");
    if (at >= r->written)
        return r->written;
    assert(r->cap > 0);
    n = (size_t)(r->written - at);
    from = (size_t)(at % r->cap);
    first = min_size(n, r->cap - from);
    ret_pieces[0] = str_make(r->p + from, first);
    ret_pieces[1] = str_make(r->p, n - first);
    return at;
}

void pty_replay_silence(struct pty_replay *r)
{
    if (r->sent > r->oldest)
        pty_query_blank(r->p, r->cap, r->oldest, r->sent);
}
