#include "execd/tree/sparse.h"

#include <errno.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

enum { BLOCK_BYTES = 4096 }; /* smaller holes save nothing */

static bool is_zero(struct str s)
{
    return s.p[0] == '\0' && memcmp(s.p, s.p + 1, s.n - 1) == 0;
}

/* The part of the piece within the block of file offset `at`. */
static struct str next_block(uint64_t at, struct str piece)
{
    return str_make(piece.p, min_size(piece.n, BLOCK_BYTES - (size_t)(at % BLOCK_BYTES)));
}

/* Length of the leading blocks of the piece that are all zero, or that are not. */
static size_t run_length(uint64_t at, struct str piece, bool zero)
{
    size_t n = 0;

    while (n < piece.n) {
        struct str block = next_block(at + n, str_skip(piece, n));

        if (is_zero(block) != zero)
            break;
        n += block.n;
    }
    return n;
}

int sparse_write(struct sparse *s, int fd, struct str piece)
{
    while (piece.n > 0) {
        size_t zeros = run_length(s->at, piece, true), n;
        int r;

        s->at += zeros;
        s->hole += zeros;
        piece = str_skip(piece, zeros);
        n = run_length(s->at, piece, false);
        if (n == 0)
            continue;
        if (s->hole > 0 && lseek(fd, (off_t)s->at, SEEK_SET) < 0)
            return -errno;
        r = io_write_full(fd, str_make(piece.p, n), DEADLINE_NEVER);
        if (r < 0)
            return r;
        s->at += n;
        s->hole = 0;
        piece = str_skip(piece, n);
    }
    return 0;
}

int sparse_end(struct sparse *s, int fd)
{
    return s->hole > 0 && ftruncate(fd, (off_t)s->at) < 0 ? -errno : 0;
}
