#include "execd/files/lines_read.h"

enum { RETURNS_MAX = 1024 }; /* held back at most; no line ends with more */

void lines_reader_init(struct lines_reader *l, uint64_t offset, uint64_t limit)
{
    *l = (struct lines_reader){.skip = offset - 1, .take = limit};
}

/* Appends part of a kept line, without the line end. */
static int line_add(struct lines_reader *l, struct str part, struct buf *out)
{
    size_t body = part.n;
    int r = 0;

    if (!l->begun) {
        l->begun = true;
        if (l->any)
            r = buf_add_char(out, '\n');
        l->any = true;
    }
    while (body > 0 && part.p[body - 1] == '\r')
        body--;
    if (body > 0 || l->returns > RETURNS_MAX) /* those held back were not at the line end */
        for (; r == 0 && l->returns > 0; l->returns--)
            r = buf_add_char(out, '\r');
    l->returns += part.n - body;
    return r < 0 ? r : buf_add(out, str_make(part.p, body));
}

int lines_reader_feed(struct lines_reader *l, struct str piece, struct buf *out)
{
    while (piece.n > 0 && l->take > 0) {
        size_t n = str_find(piece, '\n');
        bool ends = n < piece.n;
        int r = l->skip > 0 ? 0 : line_add(l, str_make(piece.p, n), out);

        if (r < 0)
            return r;
        piece = str_skip(piece, n + ends);
        if (!ends)
            break;
        if (l->skip > 0)
            l->skip--;
        else
            l->take--;
        l->begun = false;
        l->returns = 0;
    }
    return l->take == 0;
}
