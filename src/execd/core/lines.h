/* lines.h - a program's output as the lines of an event stream. Allocates up to LINES_PIECE_MAX.
 *
 *   end     LF, CR and CRLF end a line, also when CRLF arrives in two pieces
 *   empty   a line of nothing is given as "\n", since an event has a text
 *   long    what reaches LINES_PIECE_MAX without an end is given in pieces, cut between characters
 *   idle    lines_flush gives what there is of a line that did not end yet
 *
 * A piece that goes on with the line of the piece before says so (`continues`). When a line was
 * given in pieces and then only its end comes, nothing is given for that. So texts joined by LF,
 * save before those that continue, are the output again, with LF for every end. */
#pragma once

#include "base/buf.h"

enum { LINES_PIECE_MAX = 512 * 1024 };

struct lines {
    struct buf part; /* of the line that has not ended, and was not given yet */
    bool after_cr;   /* an LF that follows belongs to it */
    bool begun;      /* pieces of the current line were given */
    void *user;
    void (*give)(void *user, struct str text, bool continues); /* borrowed, never empty */
};

void lines_init(struct lines *l, void (*give)(void *, struct str, bool), void *user);
void lines_done(struct lines *l);

/* -ENOMEM when what must be kept cannot be: that piece is lost. */
int lines_feed(struct lines *l, struct str data) MUST_USE;
void lines_flush(struct lines *l); /* whole characters only; the rest waits */
void lines_end(struct lines *l);   /* there will be no more: gives everything */

/* Whether lines_flush would have something to give, perhaps. */
static inline bool lines_pending(const struct lines *l)
{
    return l->part.n > 0;
}
