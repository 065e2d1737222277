/* A layer's archive, in pieces whose size comes from its first byte: read or refused, the same
 * whatever the pieces. Names never lead out, content lies inside its file and comes in order, and
 * what was told stays within the limits. */
#include "unpack/layer.h"

#include <errno.h>

#include "fuzz.h"

static const struct unpack_limits limits = {
    .entries = 50,
    .bytes = 1 << 20,
    .depth = 16,
    .xattr_bytes = 4096,
    .ratio = 100,
    .time_ms = 1000,
};

struct seen {
    bool open;
    uint64_t size, end; /* of the current file, and of the content so far */
    uint64_t changes, bytes;
};

/* Relative, without empty, "." and ".." components. */
static void check_path(const char *path)
{
    struct str rest = str_of(path), name;
    uint32_t depth = 0;

    while (rest.n > 0 && str_cut(&rest, '/', &name)) {
        FUZZ_CHECK(name.n > 0 && name.n <= 255);
        FUZZ_CHECK(!str_eq(name, STR(".")) && !str_eq(name, STR("..")));
        FUZZ_CHECK(++depth <= limits.depth);
    }
    FUZZ_CHECK(rest.p == NULL || rest.n == 0);
}

static int see_change(void *ctx, const struct layer_change *c, struct err *e UNUSED)
{
    struct seen *s = ctx;

    FUZZ_CHECK(!s->open);
    check_path(c->path);
    FUZZ_CHECK(c->path[0] || c->kind == LAYER_DIRECTORY || c->kind == LAYER_OPAQUE);
    if (c->kind == LAYER_HARD_LINK) {
        check_path(c->target);
        FUZZ_CHECK(c->target[0]);
    }
    FUZZ_CHECK(c->uid <= 65535 && c->gid <= 65535 && c->mode <= 07777);
    FUZZ_CHECK(c->mtime_ns < 1000000000);
    FUZZ_CHECK(c->size == 0 || c->kind == LAYER_FILE);
    FUZZ_CHECK(c->xattr_count <= LAYER_XATTRS_MAX);
    for (size_t i = 0; i < c->xattr_count; i++) {
        struct str name = c->xattrs[i].name;

        FUZZ_CHECK(name.p[name.n] == '\0' && !str_has_nul(name));
        FUZZ_CHECK((str_starts(name, STR("user.")) && !str_starts(name, STR("user.overlay."))) ||
                   (str_eq(name, STR("security.capability")) && c->xattrs[i].value.n == 20));
    }
    s->open = true;
    s->size = c->size;
    s->end = 0;
    s->bytes += c->size;
    FUZZ_CHECK(++s->changes <= limits.entries && s->bytes <= limits.bytes);
    return 0;
}

static int see_data(void *ctx, uint64_t offset, struct str piece, struct err *e UNUSED)
{
    struct seen *s = ctx;

    if (!s->open || s->size == 0)
        return 0; /* a whiteout may have content, which nobody writes */
    FUZZ_CHECK(piece.n > 0 && offset >= s->end && offset + piece.n <= s->size);
    s->end = offset + piece.n;
    return 0;
}

static int see_end(void *ctx, struct err *e UNUSED)
{
    struct seen *s = ctx;

    FUZZ_CHECK(s->open);
    s->open = false;
    return 0;
}

static const struct layer_ops ops = {see_change, see_data, see_end};

static int read_all(struct str archive, size_t piece, struct seen *s)
{
    static struct layer_reader r;
    struct err e = {0};
    int result = 0;

    layer_reader_init(&r, &limits, &ops, s);
    while (result == 0 && archive.n > 0) {
        size_t n = min_size(piece, archive.n);

        result = layer_reader_feed(&r, str_make(archive.p, n), &e);
        archive = str_skip(archive, n);
    }
    if (result == 0)
        result = layer_reader_end(&r, &e);
    FUZZ_CHECK(result <= 0 && (result == 0) == (e.code == 0));
    layer_reader_done(&r);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str archive = str_make((const char *)data, size);
    struct seen whole = {0}, pieces = {0};
    size_t piece = size > 0 ? 1 + data[0] * 7U : 1;
    int result = read_all(archive, size + 1, &whole);

    FUZZ_CHECK(read_all(archive, piece, &pieces) == result);
    FUZZ_CHECK(whole.changes == pieces.changes && whole.bytes == pieces.bytes);
    return 0;
}
