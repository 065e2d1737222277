#include "kube/watch_decode.h"

#include <errno.h>

#include "base/arena.h"

enum { LINE_BYTES_MAX = KUBE_OBJECT_BYTES_MAX + 1024, DEPTH_MAX = 129 };

void kube_watch_decoder_init(struct kube_watch_decoder *d,
                             int (*on_event)(void *user, enum kube_event_kind kind,
                                             struct kube_object *o, struct err *e),
                             void *user)
{
    buf_init(&d->line, LINE_BYTES_MAX);
    d->on_event = on_event;
    d->user = user;
}

void kube_watch_decoder_done(struct kube_watch_decoder *d)
{
    buf_done(&d->line);
}

static int kind_of(struct str type, enum kube_event_kind *ret)
{
    static const char *const names[] = {
        [KUBE_ADDED] = "ADDED",       [KUBE_MODIFIED] = "MODIFIED", [KUBE_DELETED] = "DELETED",
        [KUBE_BOOKMARK] = "BOOKMARK", [KUBE_ERROR] = "ERROR",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (str_eq(type, str_of(names[i]))) {
            *ret = (enum kube_event_kind)i;
            return 0;
        }
    return -EBADMSG;
}

static int decode_line(struct kube_watch_decoder *d, struct str line, struct err *e)
{
    const struct json_limits limits = {
        .text_bytes_max = LINE_BYTES_MAX,
        .nodes_max = 4 << 20,
        .depth_max = DEPTH_MAX,
        .duplicates = JSON_DUPLICATES_LAST,
        .replace_invalid = true,
    };
    AUTO_ARENA(arena, (size_t)LINE_BYTES_MAX * 48);
    struct kube_object *o = NULL;
    enum kube_event_kind kind;
    struct json *root;
    int r;

    line = str_trim(line);
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!line.n)
        return 0;
    r = json_parse(&arena, line, &limits, &root, e);
    if (r < 0)
        return err_wrap(e, r, "an event of a watch");
    if (kind_of(kube_str(root, "type"), &kind) < 0)
        return err_set(e, EBADMSG, "an event of a watch has the type '%.*s'",
                       STR_ARG(kube_str(root, "type")));
    r = kube_object_copy(json_get(root, STR("object")), &o, e);
    arena_done(&arena); /* on_event may take its time */
    if (r < 0)
        return err_wrap(e, r, "an event of a watch");
    r = d->on_event(d->user, kind, o, e);
    kube_object_unref(o);
    return r;
}

int kube_watch_decode(struct kube_watch_decoder *d, struct str piece, struct err *e)
{
    while (piece.n) {
        size_t end = str_find(piece, '\n');
        struct str line = str_make(piece.p, end);
        int r = 0;

        if (end == piece.n || d->line.n) {
            r = buf_add(&d->line, line);
            if (r < 0)
                return err_set(e, -r, "an event of a watch is longer than %d bytes",
                               LINE_BYTES_MAX);
            line = buf_str(&d->line);
        }
        if (end == piece.n)
            return 0;
        piece = str_skip(piece, end + 1);
        r = decode_line(d, line, e);
        /* A large event is rare: its memory is not kept. */
        if (d->line.cap > 64 << 10)
            buf_done(&d->line);
        buf_clear(&d->line);
        if (r < 0)
            return r;
    }
    return 0;
}
