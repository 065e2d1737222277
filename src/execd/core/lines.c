#include "execd/core/lines.h"

#include <errno.h>

#include "base/utf8.h"

void lines_init(struct lines *l, void (*give)(void *, struct str, bool), void *user)
{
    *l = (struct lines){.user = user, .give = give};
    buf_init(&l->part, LINES_PIECE_MAX);
}

void lines_done(struct lines *l)
{
    buf_done(&l->part);
}

static void give_piece(struct lines *l, struct str text)
{
    l->give(l->user, text, l->begun);
    l->begun = true;
}

/* Ends the line; `rest` is its part that is not in l->part. */
static int end_line(struct lines *l, struct str rest)
{
    struct str text = rest;

    if (l->part.n > 0) {
        if (buf_add(&l->part, rest) < 0)
            return -ENOMEM; /* never -EMSGSIZE: feed_part makes room first */
        text = buf_str(&l->part);
    }
    if (text.n > 0)
        give_piece(l, text);
    else if (!l->begun)
        l->give(l->user, STR("\n"), false);
    l->begun = false;
    buf_clear(&l->part);
    return 0;
}

static void flush_except(struct lines *l, size_t kept)
{
    struct str text = str_make(l->part.p, l->part.n - kept);

    if (text.n == 0)
        return;
    l->open = true;
    give_piece(l, text);
    l->open = false;
    buf_drop_front(&l->part, text.n);
}

/* Keeps a part of a line; gives what was kept before when it gets too long. */
static int keep_part(struct lines *l, struct str text)
{
    while (text.n > 0) {
        size_t n = min_size(text.n, LINES_PIECE_MAX - l->part.n);

        if (buf_add(&l->part, str_make(text.p, n)) < 0)
            return -ENOMEM;
        text = str_skip(text, n);
        if (l->part.n == LINES_PIECE_MAX)
            flush_except(l, utf8_cut_tail(buf_str(&l->part)));
    }
    return 0;
}

static size_t line_length(struct str s)
{
    size_t n = str_find(s, '\n');
    const char *cr = n ? memchr(s.p, '\r', n) : NULL;

    return cr ? (size_t)(cr - s.p) : n;
}

int lines_feed(struct lines *l, struct str data)
{
    bool skip = l->after_cr && data.n > 0 && data.p[0] == '\n';
    int r = 0;

    l->after_cr = l->after_cr && data.n == 0;
    data = str_skip(data, skip);
    while (data.n > 0) {
        size_t n = line_length(data);
        struct str text = str_make(data.p, n);
        bool ended = n < data.n;
        int k = 0;

        if (!ended || l->part.n + n > LINES_PIECE_MAX) {
            k = keep_part(l, text);
            text = STR("");
        }
        if (ended) {
            size_t end = str_starts(str_skip(data, n), STR("\r\n")) ? 2 : 1;

            k = k < 0 ? k : end_line(l, text);
            l->after_cr = data.p[n] == '\r' && n + 1 == data.n;
            n += end;
        }
        r = k < 0 ? k : r;
        data = str_skip(data, n);
    }
    return r;
}

void lines_flush(struct lines *l)
{
    flush_except(l, utf8_cut_tail(buf_str(&l->part)));
}

void lines_end(struct lines *l)
{
    flush_except(l, 0);
}
