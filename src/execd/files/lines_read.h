/* lines_read.h - picks some lines of a text that streams by.
 *
 * Lines end with '\n'; carriage returns before it are dropped. What is kept is joined by single
 * newlines, without one at the end. Pure: no I/O, constant memory. */
#pragma once

#include "base/buf.h"

struct lines_reader {
    uint64_t skip, take; /* lines still to leave out, and then to keep */
    uint64_t returns;    /* '\r' held back: they may belong to the end of the line */
    bool begun;          /* within a line that is kept */
    bool any;            /* a line was kept before */
};

/* From line `offset` (counted from 1), `limit` lines. */
void lines_reader_init(struct lines_reader *l, uint64_t offset, uint64_t limit);

/* Appends what is kept of a piece: at most its length and one byte, plus what was held back. 1 when
 * no further piece can add anything, 0 when it may; -errno of the buffer, after which the state is
 * lost. */
int lines_reader_feed(struct lines_reader *l, struct str piece, struct buf *out) MUST_USE;
