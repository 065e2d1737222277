/* store_images.c - records of images: JSON files, named by the hash of the image's name. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/codec.h"
#include "base/io.h"
#include "base/json_bind.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/time.h"
#include "image/store_internal.h"

enum { FILE_NAME_MAX = 2 * SHA256_BYTES + 1, RECORD_ARENA_BYTES = 4 << 20 };

static void file_name(const char *name, char out[FILE_NAME_MAX])
{
    uint8_t digest[SHA256_BYTES];

    sha256_of(str_of(name), digest);
    out[hex_encode(str_make((const char *)digest, sizeof(digest)), out)] = '\0';
}

/* --- as text --- */

static int record_write(const struct image_store_image *image, struct buf *out)
{
    struct json_writer w;

    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_string(&w, STR("name"), str_of(image->name));
    json_member_string(&w, STR("os"), str_of(image->platform.os));
    json_member_string(&w, STR("arch"), str_of(image->platform.arch));
    json_member_string(&w, STR("variant"), str_of(image->platform.variant));
    json_member_string(&w, STR("manifest"), str_of(image->manifest.text));
    json_member_string(&w, STR("config"), str_of(image->config.text));
    json_member_u64(&w, STR("bytes"), image->bytes);
    json_member_i64(&w, STR("created"), image->created_us);
    json_write_key(&w, STR("layers"));
    json_write_array(&w);
    for (size_t i = 0; i < image->layers_count; i++) {
        const struct image_store_layer *l = &image->layers[i];

        json_write_object(&w);
        json_member_string(&w, STR("blob"), str_of(l->blob.text));
        json_member_string(&w, STR("diffId"), str_of(l->diff_id.text));
        json_member_u64(&w, STR("bytes"), l->bytes);
        json_member_string(&w, STR("mediaType"), str_of(l->media_type));
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
    return json_write_end(&w);
}

struct layer_text {
    struct str blob, diff_id, media_type;
    uint64_t bytes;
};

struct record_text {
    struct str name, os, arch, variant, manifest, config;
    uint64_t bytes;
    int64_t created;
    struct layer_text *layers;
    size_t layers_count;
};

static const struct json_field layer_fields[] = {
    JSON_FIELD("blob", JSON_AS_STR, JSON_REQUIRED, struct layer_text, blob),
    JSON_FIELD("diffId", JSON_AS_STR, JSON_REQUIRED, struct layer_text, diff_id),
    JSON_FIELD("bytes", JSON_AS_U64, JSON_REQUIRED, struct layer_text, bytes),
    JSON_FIELD("mediaType", JSON_AS_STR, JSON_REQUIRED, struct layer_text, media_type),
};
static const struct json_table layer_table = JSON_TABLE(struct layer_text, layer_fields, 0);
static const struct json_field layer_element = {.as = JSON_AS_OBJECT, .table = &layer_table};
static const struct json_field record_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct record_text, name),
    JSON_FIELD("os", JSON_AS_STR, JSON_REQUIRED, struct record_text, os),
    JSON_FIELD("arch", JSON_AS_STR, JSON_REQUIRED, struct record_text, arch),
    JSON_FIELD("variant", JSON_AS_STR, JSON_REQUIRED, struct record_text, variant),
    JSON_FIELD("manifest", JSON_AS_STR, JSON_REQUIRED, struct record_text, manifest),
    JSON_FIELD("config", JSON_AS_STR, JSON_REQUIRED, struct record_text, config),
    JSON_FIELD("bytes", JSON_AS_U64, JSON_REQUIRED, struct record_text, bytes),
    JSON_FIELD("created", JSON_AS_I64, JSON_REQUIRED, struct record_text, created),
    JSON_LIST("layers", JSON_AS_ARRAY, JSON_REQUIRED, struct record_text, layers,
              .element = &layer_element, .max = IMAGE_LAYERS_MAX),
};
static const struct json_table record_table = JSON_TABLE(struct record_text, record_fields, 0);

static int layer_take(const struct layer_text *t, struct image_store_layer *ret, struct err *e)
{
    int r = image_digest_parse(t->blob, &ret->blob, e);

    if (r == 0)
        r = image_digest_parse(t->diff_id, &ret->diff_id, e);
    if (r == 0)
        r = str_copy(ret->media_type, sizeof(ret->media_type), t->media_type);
    ret->bytes = t->bytes;
    return r;
}

static int record_take(const struct record_text *t, struct image_store_image *ret, struct err *e)
{
    int r = image_digest_parse(t->manifest, &ret->manifest, e);

    if (r == 0)
        r = image_digest_parse(t->config, &ret->config, e);
    if (r == 0 && (str_copy(ret->name, sizeof(ret->name), t->name) < 0 ||
                   str_copy(ret->platform.os, sizeof(ret->platform.os), t->os) < 0 ||
                   str_copy(ret->platform.arch, sizeof(ret->platform.arch), t->arch) < 0 ||
                   str_copy(ret->platform.variant, sizeof(ret->platform.variant), t->variant) < 0))
        r = err_set(e, EBADMSG, "a text is too long");
    ret->bytes = t->bytes;
    ret->created_us = t->created;
    for (size_t i = 0; r == 0 && i < t->layers_count; i++)
        r = layer_take(&t->layers[i], &ret->layers[ret->layers_count++], e);
    return r;
}

static int record_parse(struct str text, struct image_store_image *ret, struct err *e)
{
    auto_arena arena;
    struct record_text t = {0};
    struct json *tree;
    int r;

    arena_init(&arena, RECORD_ARENA_BYTES);
    r = json_parse(&arena, text, NULL, &tree, e);
    if (r == 0)
        r = json_bind(&arena, tree, &record_table, &t, e);
    return r < 0 ? r : record_take(&t, ret, e);
}

/* --- in memory and on disk --- */

/* What the record needs is all there. Under the lock. */
static int check_whole(const struct image_store *s, const struct image_store_image *image,
                       struct err *e)
{
    const struct image_digest *documents[] = {&image->manifest, &image->config};

    for (size_t i = 0; i < ARRAY_LEN(documents); i++)
        if (!map_has(&s->blob_sizes, image_store_hex(documents[i])))
            return err_set(e, ENOENT, "blob %s is not here", documents[i]->text);
    for (size_t i = 0; i < image->layers_count; i++) {
        const struct image_store_layer *l = &image->layers[i];
        const struct image_store_layer_state *state =
            map_get(&s->layer_states, image_store_hex(&l->diff_id));

        if (!map_has(&s->blob_sizes, image_store_hex(&l->blob)))
            return err_set(e, ENOENT, "blob %s is not here", l->blob.text);
        if (!state || state->busy)
            return err_set(e, ENOENT, "layer %s is not here", l->diff_id.text);
    }
    return 0;
}

/* A record that cannot be read, or lacks something, is none: the image is pulled again. */
static int record_load(struct image_store *s, const char *name, struct err *e)
{
    AUTO_BUF(text, IMAGE_STORE_RECORD_BYTES_MAX);
    struct image_store_image *image = mem_new(struct image_store_image);
    struct stat st;
    int r;

    if (!image_store_is_hex(name) || fstatat(s->images, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        io_read_regular(s->images, name, IMAGE_STORE_RECORD_BYTES_MAX, &text, NULL) < 0 ||
        record_parse(buf_str(&text), image, NULL) < 0 || check_whole(s, image, NULL) < 0) {
        (void)unlinkat(s->images, name, 0);
        free(image);
        return 0;
    }
    image->last_used_us = (int64_t)st.st_mtim.tv_sec * TIME_US_PER_S + st.st_mtim.tv_nsec / 1000;
    r = map_set(&s->records, str_of(image->name), image);
    if (r < 0) {
        free(image);
        return err_sys(e, -r, "remember an image");
    }
    return 0;
}

int image_store_records_load(struct image_store *s, struct err *e)
{
    return image_store_each(s->images, record_load, s, e);
}

/* Sums each blob once. */
static uint64_t bytes_of(const struct image_store *s, const struct image_store_image *image)
{
    const uint64_t *manifest = map_get(&s->blob_sizes, image_store_hex(&image->manifest));
    const uint64_t *config = map_get(&s->blob_sizes, image_store_hex(&image->config));
    uint64_t sum = (manifest ? *manifest : 0) + (config ? *config : 0);

    for (size_t i = 0; i < image->layers_count; i++) {
        const uint64_t *size = map_get(&s->blob_sizes, image_store_hex(&image->layers[i].blob));
        bool again = false;

        for (size_t k = 0; k < i && !again; k++)
            again = image_digest_eq(&image->layers[k].blob, &image->layers[i].blob);
        sum += again || !size ? 0 : *size;
    }
    return sum;
}

int image_store_image_put(struct image_store *s, const struct image_store_image *image,
                          struct err *e)
{
    AUTO_BUF(text, IMAGE_STORE_RECORD_BYTES_MAX);
    struct image_store_image *copy = mem_new(struct image_store_image);
    char file[FILE_NAME_MAX];
    int r;

    *copy = *image;
    copy->created_us = copy->last_used_us = time_wall_us();
    file_name(copy->name, file);
    image_store_take_lock(s);
    r = check_whole(s, copy, e);
    copy->bytes = bytes_of(s, copy);
    if (r == 0)
        r = record_write(copy, &text);
    if (r == 0)
        r = io_write_file_atomic(s->images, file, buf_str(&text), 0600, e);
    if (r == 0)
        r = map_set(&s->records, str_of(copy->name), copy);
    image_store_give_lock(s);
    if (r < 0) {
        free(copy);
        return err_wrap(e, r, "image '%s'", image->name);
    }
    return 0;
}

static void pins_take(struct image_store_pins *pins, const struct image_store_image *image)
{
    image_store_pins_add(pins, &image->manifest);
    image_store_pins_add(pins, &image->config);
    for (size_t i = 0; i < image->layers_count; i++) {
        image_store_pins_add(pins, &image->layers[i].blob);
        image_store_pins_add(pins, &image->layers[i].diff_id);
    }
}

static struct image_store_image *image_copy(const struct image_store_image *image)
{
    struct image_store_image *copy = mem_alloc(sizeof(*copy));

    memcpy(copy, image, sizeof(*copy));
    return copy;
}

static struct image_store_image *image_find(struct image_store *s, const char *name, bool use)
{
    struct image_store_image *found, *copy = NULL;
    char file[FILE_NAME_MAX];

    image_store_take_lock(s);
    found = map_get(&s->records, str_of(name));
    if (found && use) {
        found->last_used_us = time_wall_us();
        file_name(name, file);
        (void)utimensat(s->images, file, NULL, AT_SYMLINK_NOFOLLOW);
    }
    if (found)
        copy = image_copy(found);
    image_store_give_lock(s);
    return copy;
}

/* Pins come after the lookup, so look once more: in between it may have been collected. */
int image_store_image_get(struct image_store *s, const char *name, struct image_store_pins *use,
                          struct image_store_image **ret, struct err *e)
{
    struct image_store_image *image = image_find(s, name, use != NULL);
    int r = 0;

    if (image && use) {
        pins_take(use, image);
        image_store_take_lock(s);
        r = check_whole(s, image, e);
        image_store_give_lock(s);
    }
    if (!image)
        return err_set(e, ENOENT, "there is no image '%s'", name);
    if (r < 0) {
        free(image);
        return r;
    }
    *ret = image;
    return 0;
}

static int name_compare(const void *a, const void *b)
{
    const struct image_store_image *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

int image_store_image_list(struct image_store *s, struct image_store_image ***ret,
                           size_t *ret_count, struct err *e UNUSED)
{
    struct image_store_image **list;
    size_t at = 0, n = 0;
    void *value;

    image_store_take_lock(s);
    list = mem_new_array(struct image_store_image *, s->records.n + 1);
    while (map_next(&s->records, &at, NULL, &value))
        list[n++] = image_copy(value);
    image_store_give_lock(s);
    qsort(list, n, sizeof(*list), name_compare);
    *ret = list;
    *ret_count = n;
    return 0;
}

int image_store_record_remove(struct image_store *s, const char *name, struct err *e)
{
    char file[FILE_NAME_MAX];

    if (!map_has(&s->records, str_of(name)))
        return err_set(e, ENOENT, "there is no image '%s'", name);
    file_name(name, file);
    if (unlinkat(s->images, file, 0) < 0 && errno != ENOENT)
        return err_sys(e, errno, "remove image '%s'", name);
    (void)map_remove(&s->records, str_of(name));
    return 0;
}

int image_store_image_remove(struct image_store *s, const char *name, struct err *e)
{
    int r;

    image_store_take_lock(s);
    r = image_store_record_remove(s, name, e);
    image_store_give_lock(s);
    return r;
}
