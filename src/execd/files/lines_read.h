/* lines_read.h - selects lines of a streamed text.
 *
 * Lines end with '\n'; carriage returns before it are dropped. The selected lines are joined by
 * single newlines, without one at the end. No I/O, constant memory. */
#pragma once

#include "base/buf.h"

struct lines_reader {
    uint64_t skip, take; /* lines still to skip, and then to keep */
    uint64_t returns;    /* '\r' held back: they may end the line */
    bool begun;          /* within a line that is kept */
    bool any;            /* an earlier line was kept */
};

/* Selects `limit` lines from line `offset` on, counted from 1. */
void lines_reader_init(struct lines_reader *l, uint64_t offset, uint64_t limit);

/* Appends what is kept of a piece: at most its length and one byte, plus what was held back. 1 when
 * no further piece can add anything, else 0; -errno of the buffer, after which the state is
 * undefined. */
int lines_reader_feed(struct lines_reader *l, struct str piece, struct buf *out) MUST_USE;
