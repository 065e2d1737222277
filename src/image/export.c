/* export.c - an image as an OCI archive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/tar.h"
#include "image/archive.h"

enum { PIECE_BYTES = 1 << 20, HEAD_BYTES_MAX = 64 << 10, INDEX_BYTES_MAX = 64 << 10 };

struct out {
    struct image_store *store;
    image_export_write *write;
    void *ctx;
    struct map written; /* by path */
};

static int put_head(const struct out *o, struct tar_entry entry, struct err *e)
{
    AUTO_BUF(head, HEAD_BYTES_MAX);
    int r = tar_write_head(&head, &entry);

    return r < 0 ? err_sys(e, -r, "write the archive") : o->write(o->ctx, buf_str(&head), e);
}

static int put_padding(const struct out *o, uint64_t bytes, struct err *e)
{
    static const char zeros[TAR_BLOCK_BYTES];
    size_t n = tar_padding(bytes);

    return n ? o->write(o->ctx, str_make(zeros, n), e) : 0;
}

static int put_directory(const struct out *o, const char *path, struct err *e)
{
    return put_head(
        o, (struct tar_entry){.type = TAR_DIRECTORY, .path = str_of(path), .mode = 0755}, e);
}

static int put_text(const struct out *o, const char *path, struct str text, struct err *e)
{
    int r = put_head(
        o, (struct tar_entry){.type = TAR_FILE, .path = str_of(path), .mode = 0644, .size = text.n},
        e);

    if (r == 0)
        r = o->write(o->ctx, text, e);
    return r < 0 ? r : put_padding(o, text.n, e);
}

static int put_content(const struct out *o, int fd, uint64_t bytes, struct err *e)
{
    auto_free char *piece = mem_alloc(PIECE_BYTES);
    size_t n = 0;
    int r = 0;

    for (uint64_t done = 0; r == 0 && done < bytes; done += n) {
        size_t want = bytes - done < PIECE_BYTES ? (size_t)(bytes - done) : PIECE_BYTES;

        r = io_pread_full(fd, piece, want, (off_t)done, &n);
        if (r < 0 || n != want)
            return err_sys(e, r < 0 ? -r : EIO, "read a blob");
        r = o->write(o->ctx, str_make(piece, n), e);
    }
    return r < 0 ? r : put_padding(o, bytes, e);
}

/* Each blob once. */
static int put_blob(struct out *o, const struct image_digest *digest, struct err *e)
{
    char path[IMAGE_BLOB_PATH_MAX];
    uint64_t bytes = 0;
    auto_fd fd = -EBADF;
    int r = map_add(&o->written, str_of(digest->text), NULL);

    if (r == -EEXIST)
        return 0;
    if (r < 0 || !image_store_blob_find(o->store, digest, &bytes))
        return err_set(e, ENOENT, "blob %s is not here any more", digest->text);
    fd = image_store_blob_open(o->store, digest, e);
    if (fd < 0)
        return fd;
    image_digest_path(digest, path);
    r = put_head(
        o, (struct tar_entry){.type = TAR_FILE, .path = str_of(path), .mode = 0644, .size = bytes},
        e);
    return r < 0 ? r : put_content(o, fd, bytes, e);
}

/* The tag alone is what skopeo expects as the short name; containerd reads the full one. */
static int put_index(const struct out *o, const struct image_store_image *image, struct str media,
                     struct err *e)
{
    AUTO_BUF(text, INDEX_BYTES_MAX);
    struct image_reference reference;
    struct json_writer w;
    uint64_t bytes = 0;
    int r = image_reference_parse(str_of(image->name), &reference, e);

    if (r < 0)
        return r;
    (void)image_store_blob_find(o->store, &image->manifest, &bytes);
    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_u64(&w, STR("schemaVersion"), 2);
    json_write_key(&w, STR("manifests"));
    json_write_array(&w);
    json_write_object(&w);
    json_member_string(&w, STR("mediaType"), media);
    json_member_string(&w, STR("digest"), str_of(image->manifest.text));
    json_member_u64(&w, STR("size"), bytes);
    json_write_key(&w, STR("annotations"));
    json_write_object(&w);
    json_member_string(&w, STR("io.containerd.image.name"), str_of(image->name));
    if (reference.tag[0])
        json_member_string(&w, STR("org.opencontainers.image.ref.name"), str_of(reference.tag));
    json_write_object_end(&w);
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? err_sys(e, -r, "write the index") : put_text(o, "index.json", buf_str(&text), e);
}

/* The media type as the manifest itself says it. */
static int manifest_media(struct image_store *s, const struct image_digest *digest,
                          struct arena *arena, struct str *ret, struct err *e)
{
    AUTO_BUF(text, IMAGE_MANIFEST_BYTES_MAX);
    struct json *tree;
    const struct json *media;
    int r = image_store_blob_read(s, digest, IMAGE_MANIFEST_BYTES_MAX, &text, e);

    if (r == 0)
        r = json_parse(arena, buf_str(&text), NULL, &tree, e);
    if (r < 0)
        return r;
    media = json_get(tree, STR("mediaType"));
    *ret = media && media->type == JSON_STRING ? arena_str(arena, media->string)
                                               : STR("application/vnd.oci.image.manifest.v1+json");
    return 0;
}

static int put_all(struct out *o, const struct image_store_image *image, struct str media,
                   struct err *e)
{
    AUTO_BUF(end, HEAD_BYTES_MAX);
    int r = put_text(o, "oci-layout", STR("{\"imageLayoutVersion\":\"1.0.0\"}"), e);

    if (r == 0)
        r = put_index(o, image, media, e);
    if (r == 0)
        r = put_directory(o, "blobs/", e);
    if (r == 0)
        r = put_directory(o, "blobs/sha256/", e);
    if (r == 0)
        r = put_blob(o, &image->manifest, e);
    if (r == 0)
        r = put_blob(o, &image->config, e);
    for (size_t i = 0; r == 0 && i < image->layers_count; i++)
        r = put_blob(o, &image->layers[i].blob, e);
    if (r == 0)
        r = tar_write_end(&end);
    return r < 0 ? r : o->write(o->ctx, buf_str(&end), e);
}

int image_export(struct image_store *s, const char *name, image_export_write *write, void *ctx,
                 struct err *e)
{
    struct out o = {.store = s, .write = write, .ctx = ctx};
    struct image_store_pins *pins = image_store_pins_new(s);
    auto_free struct image_store_image *image = NULL;
    struct str media = STR_NONE;
    struct arena arena;
    int r;

    map_init(&o.written, 2 * IMAGE_LAYERS_MAX + 2, NULL);
    arena_init(&arena, IMAGE_MANIFEST_ARENA_MAX);
    r = image_store_image_get(s, name, pins, &image, e);
    if (r == 0)
        r = manifest_media(s, &image->manifest, &arena, &media, e);
    if (r == 0)
        r = put_all(&o, image, media, e);
    arena_done(&arena);
    map_done(&o.written);
    image_store_pins_free(pins);
    return r < 0 ? err_wrap(e, r, "export '%s'", name) : 0;
}
