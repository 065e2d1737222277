#include "unpack/sparse.h"

#include <errno.h>

enum { SHOWN_BYTES = 120 };

static int damaged(const struct layer_reader *r, struct err *e, const char *why)
{
    struct str name = buf_str(&r->given);

    return err_set(e, EBADMSG, "'%.*s': its map of a sparse file %s",
                   (int)min_size(name.n, SHOWN_BYTES), name.p, why);
}

static int piece_add(struct layer_reader *r, uint64_t offset, uint64_t bytes, struct err *e)
{
    struct layer_piece piece = {offset, bytes};

    return buf_add(&r->pieces, str_make((const char *)&piece, sizeof(piece))) < 0
               ? err_set(e, E2BIG, "a sparse file has more than %d pieces", LAYER_PIECES_MAX)
               : 0;
}

static size_t piece_count(const struct layer_reader *r)
{
    return r->pieces.n / sizeof(struct layer_piece);
}

static struct layer_piece piece_get(const struct layer_reader *r, size_t i)
{
    struct layer_piece piece;

    memcpy(&piece, r->pieces.p + i * sizeof(piece), sizeof(piece));
    return piece;
}

static int number(struct str value, uint64_t *ret, struct err *e)
{
    return str_to_u64_range(value, 0, INT64_MAX, ret) < 0
               ? err_set(e, EBADMSG, "a sparse file has a bad number")
               : 0;
}

/* --- records --- */

/* "offset,length,offset,length" */
static int map_read(struct layer_reader *r, struct str value, struct err *e)
{
    struct str offset, bytes;

    if (value.n == 0)
        return 0;
    while (str_cut(&value, ',', &offset)) {
        uint64_t at, n;
        int bad = str_cut(&value, ',', &bytes)
                      ? number(offset, &at, e)
                      : err_set(e, EBADMSG, "the map of a sparse file ends half way");

        if (bad == 0)
            bad = number(bytes, &n, e);
        if (bad == 0)
            bad = piece_add(r, at, n, e);
        if (bad < 0)
            return bad;
    }
    return 0;
}

static int length_read(struct layer_reader *r, struct str value, struct err *e)
{
    uint64_t n;
    int bad = r->has_sparse_offset ? number(value, &n, e)
                                   : err_set(e, EBADMSG,
                                             "a sparse file has a length without an "
                                             "offset");

    r->has_sparse_offset = false;
    return bad < 0 ? bad : piece_add(r, r->sparse_offset, n, e);
}

int sparse_record(struct layer_reader *r, struct str key, struct str value, struct err *e)
{
    r->sparse = true;
    if (str_eq(key, STR("realsize")) || str_eq(key, STR("size")))
        return number(value, &r->sparse_size, e);
    if (str_eq(key, STR("map")))
        return map_read(r, value, e);
    if (str_eq(key, STR("offset"))) {
        r->has_sparse_offset = true;
        return number(value, &r->sparse_offset, e);
    }
    if (str_eq(key, STR("numbytes")))
        return length_read(r, value, e);
    if (str_eq(key, STR("name"))) {
        buf_clear(&r->sparse_name);
        if (value.n == 0 || str_has_nul(value) || buf_add(&r->sparse_name, value) < 0)
            return err_set(e, EBADMSG, "a sparse file has a bad name");
        return 0;
    }
    if (str_eq(key, STR("major")))
        r->sparse_in_content = str_eq(value, STR("1"));
    return 0; /* "minor", "numblocks": follow from the rest */
}

/* --- content --- */

/* Pieces must be in order, inside the file, and have as many bytes as the content. */
static int map_check(const struct layer_reader *r, uint64_t content, struct err *e)
{
    uint64_t end = 0, sum = 0;

    for (size_t i = 0; i < piece_count(r); i++) {
        struct layer_piece p = piece_get(r, i);

        if (p.offset < end || p.bytes > r->sparse_size || p.offset > r->sparse_size - p.bytes)
            return damaged(r, e, "has pieces that overlap or lie outside the file");
        end = p.offset + p.bytes;
        sum += p.bytes;
    }
    return sum == content ? 0 : damaged(r, e, "does not fit its content");
}

int sparse_begin(struct layer_reader *r, struct err *e)
{
    return r->sparse_in_content ? 0 : map_check(r, r->content_left, e);
}

/* Takes a number of the list in the content: their count, then offsets and lengths. */
static int map_number(struct layer_reader *r, struct err *e)
{
    uint64_t value = r->map_value;
    bool is_length = r->map_numbers > 0 && r->map_numbers % 2 == 0;

    if (r->map_numbers == 0) {
        if (value > LAYER_PIECES_MAX)
            return damaged(r, e, "has too many pieces");
        r->map_count = value;
    }
    r->map_value = 0;
    r->map_digits = false;
    if (r->map_numbers++ == 0)
        return 0;
    if (!is_length) {
        r->sparse_offset = value;
        return 0;
    }
    return piece_add(r, r->sparse_offset, value, e);
}

static bool map_is_whole(const struct layer_reader *r)
{
    return r->map_numbers > 0 && r->map_numbers == 1 + 2 * r->map_count;
}

/* Reads the list, up to the end of its last block. Returns the number of bytes it took. */
static ssize_t map_take(struct layer_reader *r, struct str piece, struct err *e)
{
    size_t n = 0;
    int bad = 0;

    for (; n < piece.n && !map_is_whole(r); n++) {
        char c = piece.p[n];

        r->map_bytes++;
        if (c == '\n' && r->map_digits)
            bad = map_number(r, e);
        else if (c >= '0' && c <= '9' && r->map_value < (uint64_t)INT64_MAX / 16)
            r->map_value = r->map_value * 10 + (uint64_t)(c - '0');
        else
            bad = damaged(r, e, "is no list of numbers");
        r->map_digits = c != '\n';
        if (bad < 0)
            return bad;
    }
    while (n < piece.n && r->map_bytes % TAR_BLOCK_BYTES) {
        r->map_bytes++;
        n++;
    }
    return (ssize_t)n;
}

static bool map_is_read(const struct layer_reader *r)
{
    return !r->sparse_in_content || (map_is_whole(r) && r->map_bytes % TAR_BLOCK_BYTES == 0);
}

static int content_tell(struct layer_reader *r, struct str piece, struct err *e)
{
    while (piece.n > 0 && r->piece < piece_count(r)) {
        struct layer_piece p = piece_get(r, r->piece);
        size_t n = (size_t)(p.bytes - r->piece_at < piece.n ? p.bytes - r->piece_at : piece.n);
        int bad = n ? r->ops->data(r->ctx, p.offset + r->piece_at, str_make(piece.p, n), e) : 0;

        if (bad < 0)
            return bad;
        r->file_bytes += n;
        r->piece_at += n;
        piece = str_skip(piece, n);
        if (r->piece_at == p.bytes) {
            r->piece++;
            r->piece_at = 0;
        }
    }
    return piece.n > 0 ? damaged(r, e, "does not fit its content") : 0;
}

int sparse_data(struct layer_reader *r, struct str piece, struct err *e)
{
    ssize_t n = 0;
    int bad;

    if (!map_is_read(r)) {
        n = map_take(r, piece, e);
        if (n < 0)
            return (int)n;
        if (!map_is_read(r))
            return 0;
        piece = str_skip(piece, (size_t)n);
        bad = map_check(r, r->content_left + piece.n, e);
        if (bad < 0)
            return bad;
    }
    return content_tell(r, piece, e);
}

int sparse_end(struct layer_reader *r, struct err *e)
{
    return map_is_read(r) ? 0 : damaged(r, e, "ends half way");
}
