/* lines.h - splits a program's output into the lines of an event stream. Allocates up to
 * LINES_PIECE_MAX.
 *
 * - end: LF, CR and CRLF end a line, also when CRLF arrives in two reads
 * - empty: an empty line is given as "\n", since an event needs a text
 * - long: a line that reaches LINES_PIECE_MAX is given in pieces, cut between characters
 * - idle: lines_flush gives the present part of an unfinished line
 *
 * A piece that continues the line of the previous piece says so (`continues`). If only the end of a
 * line follows its pieces, nothing is given for it. So the texts, joined by LF except before those
 * that continue, are the output again, with LF for every line end. */
#pragma once

#include "base/buf.h"

enum { LINES_PIECE_MAX = 512 * 1024 };

struct lines {
    struct buf part; /* of the unfinished line, not given yet */
    bool after_cr;   /* a following LF belongs to that CR */
    bool begun;      /* pieces of the current line were given */
    bool open;       /* within give: the line of this text has not ended */
    void *user;
    void (*give)(void *user, struct str text, bool continues); /* borrowed, never empty */
};

void lines_init(struct lines *l, void (*give)(void *, struct str, bool), void *user);
void lines_done(struct lines *l);

/* -ENOMEM when a part cannot be kept: that part is lost. */
int lines_feed(struct lines *l, struct str data) MUST_USE;
void lines_flush(struct lines *l); /* gives whole characters only and keeps the rest */
void lines_end(struct lines *l);   /* end of output: gives everything */

/* Whether lines_flush may have something to give. */
static inline bool lines_pending(const struct lines *l)
{
    return l->part.n > 0;
}
