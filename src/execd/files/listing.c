#include "execd/files/listing.h"

#include <errno.h>

#include "execd/core/answer.h"

enum {
    PIECE_BYTES = 32 << 10,
    ROW_BYTES_MAX = 1 << 20, /* of one row's JSON, with every byte of its path escaped */
};

struct listing_row {
    struct listing_row *next;
    struct file_facts facts;
    uint32_t path_n;
    char path[];
};

void listing_init(struct listing *l)
{
    *l = (struct listing){.tail = &l->first};
    arena_init(&l->arena, LISTING_BYTES_MAX);
}

void listing_done(struct listing *l)
{
    arena_done(&l->arena);
    *l = (struct listing){.tail = &l->first};
}

int listing_add(struct listing *l, struct str path, const struct stat *st, struct err *e)
{
    struct listing_row *row = NULL;

    if (l->count < LISTING_FILES_MAX)
        row = arena_alloc(&l->arena, sizeof(*row) + path.n);
    if (!row)
        return err_set(e, E2BIG, "more than %zu entries; ask for less at a time", l->count);
    row->next = NULL;
    row->facts = file_facts_of(st);
    row->path_n = (uint32_t)path.n;
    memcpy(row->path, path.p, path.n);
    *l->tail = row;
    l->tail = &row->next;
    l->count++;
    return 0;
}

/* Appends rows until the piece is full, and the closing bracket after the last one. */
static int listing_write(struct listing *l, struct buf *piece)
{
    int r = l->begun ? 0 : buf_add_char(piece, '[');

    for (bool first = !l->begun; r == 0 && l->first && piece->n < PIECE_BYTES; first = false) {
        struct listing_row *row = l->first;
        struct json_writer w;

        if (!first)
            r = buf_add_char(piece, ',');
        if (r < 0)
            break;
        json_write_begin(&w, piece);
        file_info_write(&w, str_make(row->path, row->path_n), &row->facts, &l->users);
        r = json_write_end(&w);
        l->first = row->next;
    }
    return r == 0 && !l->first ? buf_add_char(piece, ']') : r;
}

bool listing_reply(struct listing *l, struct http_req *req)
{
    AUTO_BUF(piece, PIECE_BYTES + ROW_BYTES_MAX);
    struct listing_row *from = l->first;
    int r;

    if (l->begun && !from)
        return false;
    r = listing_write(l, &piece);
    if (r == 0 && !l->begun && !l->first) { /* the whole reply at once */
        l->begun = l->head = true;
        http_reply(req, 200, ANSWER_JSON, buf_str(&piece));
        return false;
    }
    if (!l->head) {
        l->head = true;
        http_reply_begin(req, 200, ANSWER_JSON, HTTP_UNKNOWN_LENGTH);
    }
    if (r == 0)
        r = http_reply_write_all(req, buf_str(&piece));
    if (r == -EAGAIN) {
        l->first = from; /* the same rows again later */
        return false;
    }
    l->begun = true;
    if (r < 0 || !l->first)
        http_reply_end(req, r < 0 ? -r : 0);
    return r == 0 && l->first;
}
