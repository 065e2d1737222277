/* archive_scan.c - finds the files of an image in an archive, and copies them to the store. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/tar.h"
#include "image/archive_internal.h"

enum { PIECE_BYTES = 1 << 20, PATH_BYTES_MAX = 512 };

static void part_free(void *value)
{
    struct archive_part *p = value;

    free(p->target);
    free(p);
}

void archive_done(struct archive *a)
{
    map_done(&a->parts);
}

/* --- scanning --- */

/* Whether an image's archive may have such a file; of a root directory's archive there are few. */
static bool is_part(struct str path)
{
    return str_eq(path, STR("index.json")) || str_eq(path, STR("oci-layout")) ||
           str_eq(path, STR("manifest.json")) || str_eq(path, STR("repositories")) ||
           str_starts(path, STR("blobs/sha256/")) || str_starts(path, STR("blobs/sha512/")) ||
           str_ends(path, STR("/layer.tar")) || str_ends(path, STR(".json")) ||
           str_ends(path, STR(".tar")) || str_ends(path, STR("/json")) ||
           str_ends(path, STR("/VERSION"));
}

static struct str clean(struct str path)
{
    while (str_starts(path, STR("./")) || str_starts(path, STR("/")))
        path = str_skip(path, path.p[0] == '/' ? 1 : 2);
    return path;
}

static int on_entry(void *ctx, const struct tar_entry *entry, struct err *e)
{
    struct archive *a = ctx;
    struct str path = clean(entry->path);
    struct archive_part *part;

    a->last = NULL;
    if (entry->type == TAR_DIRECTORY)
        return 0;
    if (path.n == 0 || path.n > PATH_BYTES_MAX || !is_part(path) ||
        (entry->type != TAR_FILE && entry->type != TAR_LINK && entry->type != TAR_HARD_LINK)) {
        a->others++;
        return 0;
    }
    part = mem_new(struct archive_part);
    part->bytes = entry->size;
    if (entry->type != TAR_FILE) {
        part->target = mem_alloc(entry->target.n + 1);
        memcpy(part->target, entry->target.p, entry->target.n);
        part->target[entry->target.n] = '\0';
    }
    if (map_set(&a->parts, path, part) < 0) {
        part_free(part);
        if (a->parts.n >= ARCHIVE_PARTS_MAX) {
            a->others++; /* so many are no image */
            return 0;
        }
        return err_set(e, ENOMEM, "no memory for the list of an archive");
    }
    a->last = part;
    a->at_content = true;
    return 0;
}

static int on_data(void *ctx, struct str piece, struct err *e UNUSED)
{
    struct archive *a = ctx;

    if (a->last && a->at_content)
        a->last->offset = a->piece_at + (uint64_t)(piece.p - a->piece);
    a->at_content = false;
    return 0;
}

static int on_end(void *ctx UNUSED, struct err *e UNUSED)
{
    return 0;
}

/* Sparse files are of root directories. */
static int on_extra(void *ctx UNUSED, struct str key UNUSED, struct str value UNUSED,
                    struct err *e UNUSED)
{
    return 0;
}

static const struct tar_reader_ops scan_ops = {on_entry, on_data, on_end, on_extra};

static bool is_compressed(const char *p, size_t n)
{
    return (n >= 2 && memcmp(p, "\x1f\x8b", 2) == 0) ||
           (n >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0);
}

static int scan_pieces(struct archive *a, struct tar_reader *tar, char *piece,
                       const volatile bool *cancel, struct err *e)
{
    struct image_hash hash;
    size_t n = 0;
    int r = 0;

    image_hash_init(&hash);
    for (;;) {
        r = io_pread_full(a->fd, piece, PIECE_BYTES, (off_t)a->piece_at, &n);
        if (r < 0)
            return err_sys(e, -r, "read the archive");
        if (cancel && *cancel)
            return err_set(e, ECANCELED, "cancelled");
        if (n == 0)
            break;
        if (a->piece_at == 0)
            a->compressed = is_compressed(piece, n);
        a->piece = piece;
        image_hash_add(&hash, str_make(piece, n));
        r = a->compressed ? 0 : tar_reader_feed(tar, str_make(piece, n), e);
        if (r < 0)
            return r;
        a->piece_at += n;
    }
    image_hash_end(&hash, &a->digest);
    return a->compressed ? 0 : tar_reader_end(tar, e);
}

int archive_scan(struct archive *a, int fd, const volatile bool *cancel, struct err *e)
{
    auto_free char *piece = mem_alloc(PIECE_BYTES);
    struct tar_reader tar;
    int r;

    *a = (struct archive){.fd = fd};
    map_init(&a->parts, ARCHIVE_PARTS_MAX, part_free);
    tar_reader_init(&tar, &scan_ops, a);
    r = scan_pieces(a, &tar, piece, cancel, e);
    tar_reader_done(&tar);
    return r;
}

/* --- files --- */

/* The path that a link leads to: relative to the directory it is in, "../" at its begin only. */
static int link_resolve(struct str path, struct str target, struct buf *out)
{
    size_t up = path.n;

    while (up > 0 && path.p[up - 1] != '/')
        up--;
    while (str_starts(target, STR("../")) && up > 0) {
        target = str_skip(target, 3);
        up--;
        while (up > 0 && path.p[up - 1] != '/')
            up--;
    }
    return buf_add(out, str_make(path.p, up)) < 0 ? -EMSGSIZE : buf_add(out, target);
}

const struct archive_part *archive_find(const struct archive *a, struct str path)
{
    AUTO_BUF(leads, 2 * PATH_BYTES_MAX);
    const struct archive_part *part = map_get(&a->parts, clean(path));

    if (!part || !part->target)
        return part;
    if (link_resolve(clean(path), str_of(part->target), &leads) < 0)
        return NULL;
    part = map_get(&a->parts, buf_str(&leads));
    return part && !part->target ? part : NULL;
}

static int part_open(const struct archive *a, struct str path, const struct archive_part **ret,
                     struct err *e)
{
    *ret = archive_find(a, path);
    return *ret ? 0
                : err_set(e, EBADMSG, "the archive lacks '%.*s'", (int)min_size(path.n, 100),
                          path.p);
}

int archive_read(const struct archive *a, struct str path, size_t bytes_max, struct buf *out,
                 struct err *e)
{
    const struct archive_part *part;
    size_t n = 0;
    int r = part_open(a, path, &part, e);

    if (r < 0)
        return r;
    if (part->bytes > bytes_max)
        return err_set(e, EFBIG, "'%.*s' of the archive has more than %zu bytes",
                       (int)min_size(path.n, 100), path.p, bytes_max);
    r = buf_reserve(out, (size_t)part->bytes);
    if (r == 0)
        r = io_pread_full(a->fd, out->p + out->n, (size_t)part->bytes, (off_t)part->offset, &n);
    if (r == 0 && n == part->bytes)
        buf_claim(out, n);
    return r < 0 || n != part->bytes ? err_set(e, EIO, "cannot read the archive") : 0;
}

static int part_copy(const struct archive *a, const struct archive_part *part, int to,
                     struct image_hash *hash, struct err *e)
{
    auto_free char *piece = mem_alloc(PIECE_BYTES);
    uint64_t done = 0;
    size_t n = 0;

    while (done < part->bytes) {
        size_t want = part->bytes - done < PIECE_BYTES ? (size_t)(part->bytes - done) : PIECE_BYTES;
        int r = io_pread_full(a->fd, piece, want, (off_t)(part->offset + done), &n);

        if (r == 0 && n == want)
            r = fd_pwrite_all(to, piece, n, (off_t)done);
        if (r < 0 || n != want)
            return err_sys(e, r < 0 ? -r : EIO, "copy a file of the archive");
        image_hash_add(hash, str_make(piece, n));
        done += n;
    }
    return 0;
}

int archive_keep(const struct archive *a, struct image_store *s, struct str path,
                 const struct image_digest *want, struct image_store_pins *pins,
                 struct image_digest *ret, struct err *e)
{
    const struct archive_part *part;
    struct image_hash hash;
    auto_fd to = -EBADF;
    int r = part_open(a, path, &part, e);

    if (r < 0)
        return r;
    if (want) {
        image_store_pins_add(pins, want);
        *ret = *want;
        if (image_store_blob_find(s, want, NULL))
            return 0;
    }
    to = image_store_temp_open(s, e);
    if (to < 0)
        return to;
    image_hash_init_for(&hash, want);
    r = part_copy(a, part, to, &hash, e);
    if (r < 0)
        return r;
    image_hash_end(&hash, ret);
    if (want && !image_digest_eq(ret, want))
        return err_set(e, EBADMSG, "'%.*s' of the archive has the digest %.19s...",
                       (int)min_size(path.n, 100), path.p, ret->text);
    image_store_pins_add(pins, ret);
    return image_store_temp_commit(s, ret, take_fd(&to), e);
}
