/* events.c - a body as a stream of JSON documents: bare lines, or server-sent events with data:. */
#include <errno.h>

#include "sdk.h"

void events_init(struct events *ev, struct exchange *x)
{
    *ev = (struct events){.client = x->client, .x = x};
    buf_init(&ev->rest, SDK_LINE_BYTES_MAX + SDK_IN_BYTES_MAX);
    arena_init(&ev->arena, 8 * (size_t)SDK_LINE_BYTES_MAX);
}

void events_done(struct events *ev)
{
    buf_done(&ev->rest);
    arena_done(&ev->arena);
}

/* Receives more: 1, or 0 at the end of the body. */
static int receive(struct events *ev)
{
    struct str piece;
    int r;

    buf_drop_front(&ev->rest, ev->at);
    ev->at = 0;
    if (ev->rest.n > SDK_LINE_BYTES_MAX)
        return fail(ev->client, EPROTO, "%s: an event of more than %d MiB", ev->x->site->authority,
                    SDK_LINE_BYTES_MAX >> 20);
    r = exchange_next(ev->x, &piece);
    if (r == 1 && buf_add(&ev->rest, piece) < 0)
        return fail(ev->client, ENOMEM, "no memory left for an event");
    return r;
}

/* The next line without its end; the last one may have none. */
static int next_line(struct events *ev, struct str *ret)
{
    size_t searched = 0;

    for (;;) {
        struct str all = str_skip(buf_str(&ev->rest), ev->at);
        size_t n = searched + str_find(str_skip(all, searched), '\n');
        int r;

        if (n < all.n || (ev->at_end && all.n)) {
            *ret = str_make(all.p, min_size(n, all.n));
            ev->at += min_size(n + 1, all.n);
            if (ret->n && ret->p[ret->n - 1] == '\r')
                ret->n--;
            return 1;
        }
        if (ev->at_end)
            return 0;
        searched = all.n;
        r = receive(ev);
        if (r < 0)
            return r;
        ev->at_end = r == 0;
    }
}

int events_next(struct events *ev, struct json **ret, struct str *ret_text)
{
    struct json_limits limits = {.text_bytes_max = SDK_LINE_BYTES_MAX, .replace_invalid = true};
    struct str line;
    struct err e;
    int r;

    while ((r = next_line(ev, &line)) == 1) {
        if (str_starts(line, STR("data:")))
            line = str_trim(str_skip(line, 5));
        if (!str_starts(line, STR("{")) && !str_starts(line, STR("["))) {
            /* Blank lines, comments, and fields of server-sent events that say nothing to us. */
            if (line.n == 0 || line.p[0] == ':' || str_starts(line, STR("event:")) ||
                str_starts(line, STR("id:")) || str_starts(line, STR("retry:")))
                continue;
            return fail(ev->client, EPROTO, "%s: a line of the stream is no event",
                        ev->x->site->authority);
        }
        arena_reset(&ev->arena);
        if (json_parse(&ev->arena, line, &limits, ret, &e) < 0)
            return fail(ev->client, EBADMSG, "%s: an event that is no JSON: %s",
                        ev->x->site->authority, e.msg);
        *ret_text = line;
        return 1;
    }
    return r;
}
