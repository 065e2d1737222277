/* An archive, in pieces whose sizes come from its first byte: read or refused, the same whatever
 * the pieces; content adds up, and names are never empty nor too long. */
#include "base/tar.h"

#include <errno.h>

#include "base/err.h"
#include "fuzz.h"

struct seen {
    bool open;
    uint64_t left, entries, bytes;
};

static int see_entry(void *ctx, const struct tar_entry *entry, struct err *e UNUSED)
{
    struct seen *s = ctx;

    FUZZ_CHECK(!s->open);
    FUZZ_CHECK(entry->path.n > 0 && entry->path.n <= TAR_TEXT_BYTES_MAX);
    FUZZ_CHECK(str_find(entry->path, '\0') == entry->path.n);
    FUZZ_CHECK(entry->type >= TAR_FILE && entry->type <= TAR_FIFO && entry->mode <= 07777);
    FUZZ_CHECK(entry->size == 0 || entry->type == TAR_FILE);
    if (entry->type == TAR_LINK || entry->type == TAR_HARD_LINK)
        FUZZ_CHECK(entry->target.n > 0 && entry->target.n <= TAR_TEXT_BYTES_MAX);
    s->open = true;
    s->left = entry->size;
    s->entries++;
    return 0;
}

static int see_data(void *ctx, struct str piece, struct err *e UNUSED)
{
    struct seen *s = ctx;

    FUZZ_CHECK(s->open && piece.n > 0 && piece.n <= s->left);
    s->left -= piece.n;
    s->bytes += piece.n;
    return 0;
}

static int see_end(void *ctx, struct err *e UNUSED)
{
    struct seen *s = ctx;

    FUZZ_CHECK(s->open && s->left == 0);
    s->open = false;
    return 0;
}

static const struct tar_reader_ops ops = {see_entry, see_data, see_end};

static int read_all(struct str archive, size_t piece, struct seen *s)
{
    struct tar_reader r;
    struct err e = {0};
    int result = 0;

    tar_reader_init(&r, &ops, s);
    while (result == 0 && archive.n > 0) {
        size_t n = min_size(piece, archive.n);

        result = tar_reader_feed(&r, str_make(archive.p, n), &e);
        archive = str_skip(archive, n);
    }
    if (result == 0)
        result = tar_reader_end(&r, &e);
    tar_reader_done(&r);
    FUZZ_CHECK(result == 0 || result == -EBADMSG || result == -EOPNOTSUPP || result == -ENOMEM);
    FUZZ_CHECK(result == 0 || e.msg[0] != '\0');
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = {0}, pieces = {0};
    struct str archive = str_make((const char *)data, size);
    size_t piece;

    if (size == 0)
        return 0;
    piece = (size_t)data[0] % 61 * 17 + 1;
    archive = str_skip(archive, 1);
    FUZZ_CHECK(read_all(archive, archive.n + 1, &whole) == read_all(archive, piece, &pieces));
    FUZZ_CHECK(whole.entries == pieces.entries && whole.bytes == pieces.bytes);
    return 0;
}
