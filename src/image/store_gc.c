/* store_gc.c - what takes room and is not needed. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"
#include "base/mem.h"
#include "image/store_internal.h"

enum { VERIFY_PIECE_BYTES = 1 << 20 };

static void usage_sum(struct image_store *s, struct image_store_usage *ret)
{
    void *value;

    *ret = (struct image_store_usage){
        .blobs = s->blob_sizes.n, .layers = s->layer_states.n, .images = s->records.n};
    for (size_t at = 0; map_next(&s->blob_sizes, &at, NULL, &value);)
        ret->blob_bytes += *(const uint64_t *)value;
    for (size_t at = 0; map_next(&s->layer_states, &at, NULL, &value);)
        ret->layer_bytes += ((const struct image_store_layer_state *)value)->bytes;
}

void image_store_usage(struct image_store *s, struct image_store_usage *ret)
{
    image_store_take_lock(s);
    usage_sum(s, ret);
    image_store_give_lock(s);
}

/* --- what is needed --- */

static int mark(struct map *needed, const struct image_digest *digest)
{
    int r = map_add(needed, image_store_hex(digest), NULL);

    return r == -EEXIST ? 0 : r;
}

/* Adds the digests of all records. */
static int mark_all(struct image_store *s, struct map *needed)
{
    void *value;
    int r = 0;

    for (size_t at = 0; r == 0 && map_next(&s->records, &at, NULL, &value);) {
        const struct image_store_image *image = value;

        r = mark(needed, &image->manifest);
        if (r == 0)
            r = mark(needed, &image->config);
        for (size_t i = 0; r == 0 && i < image->layers_count; i++) {
            r = mark(needed, &image->layers[i].blob);
            if (r == 0)
                r = mark(needed, &image->layers[i].diff_id);
        }
    }
    return r;
}

static int collect_blobs(struct image_store *s, const struct map *needed,
                         struct image_store_freed *freed, struct err *e)
{
    struct str hex;
    void *value;
    int r = 0;

    for (size_t at = 0; r == 0 && map_next(&s->blob_sizes, &at, &hex, &value);) {
        uint64_t bytes = *(const uint64_t *)value;

        if (map_has(needed, hex) || image_store_is_pinned(s, hex))
            continue;
        r = image_store_blob_unlink(s, hex, e);
        freed->bytes += r == 0 ? bytes : 0;
        freed->blobs += r == 0;
    }
    return r;
}

static int collect_layers(struct image_store *s, const struct map *needed,
                          struct image_store_freed *freed, struct err *e)
{
    struct str hex;
    void *value;
    int r = 0;

    for (size_t at = 0; r == 0 && map_next(&s->layer_states, &at, &hex, &value);) {
        const struct image_store_layer_state state = *(const struct image_store_layer_state *)value;

        if (state.busy || map_has(needed, hex) || image_store_is_pinned(s, hex))
            continue;
        r = image_store_layer_erase(s, hex, e);
        freed->bytes += r == 0 ? state.bytes : 0;
        freed->layers += r == 0;
    }
    return r;
}

/* Under the lock. */
static int collect(struct image_store *s, struct image_store_freed *freed, struct err *e)
{
    auto_map needed;
    int r;

    map_init(&needed, 4 * (size_t)IMAGE_STORE_BLOBS_MAX, NULL);
    r = mark_all(s, &needed);
    if (r < 0)
        return err_sys(e, -r, "mark what is needed");
    r = collect_layers(s, &needed, freed, e);
    return r < 0 ? r : collect_blobs(s, &needed, freed, e);
}

/* --- images --- */

static bool is_in_use(const struct image_store *s, const struct image_store_image *image)
{
    bool pinned = image_store_is_pinned(s, image_store_hex(&image->manifest));

    for (size_t i = 0; i < image->layers_count && !pinned; i++)
        pinned = image_store_is_pinned(s, image_store_hex(&image->layers[i].diff_id));
    return pinned;
}

static const struct image_store_image *oldest(struct image_store *s)
{
    const struct image_store_image *found = NULL;
    void *value;

    for (size_t at = 0; map_next(&s->records, &at, NULL, &value);) {
        const struct image_store_image *image = value;

        if ((!found || image->last_used_us < found->last_used_us) && !is_in_use(s, image))
            found = image;
    }
    return found;
}

int image_store_gc(struct image_store *s, uint64_t bytes_max, struct image_store_freed *ret,
                   struct err *e)
{
    struct image_store_freed freed = {0};
    struct image_store_usage usage;
    int r;

    image_store_take_lock(s);
    r = collect(s, &freed, e);
    for (usage_sum(s, &usage); r == 0 && usage.blob_bytes + usage.layer_bytes > bytes_max;
         usage_sum(s, &usage)) {
        const struct image_store_image *image = oldest(s);
        char name[IMAGE_REFERENCE_TEXT_MAX];

        if (!image || str_copy(name, sizeof(name), str_of(image->name)) < 0)
            break;
        r = image_store_record_remove(s, name, e);
        freed.images += r == 0;
        if (r == 0)
            r = collect(s, &freed, e);
    }
    image_store_give_lock(s);
    if (ret)
        *ret = freed;
    return r;
}

/* --- verification --- */

static int blob_is_right(struct image_store *s, const struct image_digest *digest)
{
    auto_fd fd = image_store_blob_open(s, digest, NULL);
    auto_free char *piece = mem_alloc(VERIFY_PIECE_BYTES);
    struct image_hash hash;
    size_t n;
    int r;

    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    image_hash_init_for(&hash, digest);
    for (off_t at = 0;; at += (off_t)n) {
        r = io_pread_full(fd, piece, VERIFY_PIECE_BYTES, at, &n);
        if (r < 0 || n == 0)
            break;
        image_hash_add(&hash, str_make(piece, n));
    }
    return r < 0 ? 0 : image_hash_check(&hash, digest, NULL) == 0;
}

static bool image_needs(const struct image_store_image *image, const struct image_digest *blob)
{
    bool needs = image_digest_eq(&image->manifest, blob) || image_digest_eq(&image->config, blob);

    for (size_t i = 0; i < image->layers_count && !needs; i++)
        needs = image_digest_eq(&image->layers[i].blob, blob);
    return needs;
}

static int drop_bad(struct image_store *s, const struct image_digest *blob, struct err *e)
{
    void *value;
    int r;

    image_store_take_lock(s);
    r = image_store_blob_unlink(s, image_store_hex(blob), e);
    for (size_t at = 0; r == 0 && map_next(&s->records, &at, NULL, &value);) {
        const struct image_store_image *image = value;
        char name[IMAGE_REFERENCE_TEXT_MAX];

        if (image_needs(image, blob) && str_copy(name, sizeof(name), str_of(image->name)) == 0)
            r = image_store_record_remove(s, name, e);
    }
    image_store_give_lock(s);
    return r;
}

/* Works on a list, so that others are not kept waiting while blobs are read. */
int image_store_verify(struct image_store *s, struct err *e)
{
    auto_map names;
    struct str hex;
    int r = 0, bad = 0;

    map_init(&names, IMAGE_STORE_BLOBS_MAX, NULL);
    image_store_take_lock(s);
    for (size_t at = 0; r == 0 && map_next(&s->blob_sizes, &at, &hex, NULL);)
        r = map_add(&names, hex, NULL);
    image_store_give_lock(s);
    if (r < 0)
        return err_sys(e, -r, "list the blobs");
    for (size_t at = 0; r >= 0 && map_next(&names, &at, &hex, NULL);) {
        char text[IMAGE_DIGEST_TEXT_MAX];
        struct image_digest digest;

        (void)snprintf(text, sizeof(text), "sha%s:%.*s",
                       hex.n == (size_t)2 * SHA512_BYTES ? "512" : "256", STR_ARG(hex));
        r = image_digest_parse(str_of(text), &digest, e);
        if (r < 0 || blob_is_right(s, &digest) != 0)
            continue;
        if (!image_store_blob_find(s, &digest, NULL))
            continue; /* it was collected meanwhile */
        r = drop_bad(s, &digest, e);
        bad++;
    }
    return r < 0 ? r : bad;
}
