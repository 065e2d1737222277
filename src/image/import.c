/* import.c - images of an archive: what it says of them, and the way into the store. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/json_bind.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "image/archive_internal.h"

#define MEDIA_MANIFEST   "application/vnd.oci.image.manifest.v1+json"
#define MEDIA_CONFIG     "application/vnd.oci.image.config.v1+json"
#define MEDIA_LAYER      "application/vnd.oci.image.layer.v1.tar"
#define MEDIA_LAYER_GZIP "application/vnd.oci.image.layer.v1.tar+gzip"
#define MEDIA_LAYER_ZSTD "application/vnd.oci.image.layer.v1.tar+zstd"
#define NAME_FULL        "io.containerd.image.name"
#define NAME_SHORT       "org.opencontainers.image.ref.name"

struct import {
    struct image_store *store;
    const struct image_import *in;
    struct archive archive;
    struct image_store_pins *pins;
    struct arena arena;
    struct image_imported *ret;
};

/* --- one image, whose blobs are in the store --- */

static int name_add(struct import *m, struct image_store_image *image, struct str text,
                    struct err *e)
{
    struct image_reference reference;
    int r = image_reference_parse(text, &reference, e);

    if (r < 0)
        return r;
    if (m->ret->count == IMAGE_IMPORTED_MAX)
        return err_set(e, E2BIG, "the archive has more than %d images", IMAGE_IMPORTED_MAX);
    image_reference_format(&reference, image->name);
    r = image_store_image_put(m->store, image, e);
    if (r == 0)
        memcpy(m->ret->names[m->ret->count++], image->name, sizeof(image->name));
    return r;
}

static int layers_unpack(struct import *m, struct image_store_image *image, struct err *e)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < image->layers_count; i++) {
        image_store_pins_add(m->pins, &image->layers[i].diff_id);
        r = image_store_layer_unpack(m->store, &image->layers[i].blob, &image->layers[i].diff_id,
                                     m->in->cancel, &image->layers[i].diff_id, e);
        image_store_pins_add(m->pins, &image->layers[i].diff_id);
    }
    return r;
}

/* Fills in what manifest and configuration say, and unpacks. */
static int image_fill(struct import *m, const struct image_manifest *manifest, struct str config,
                      struct image_store_image *image, struct err *e)
{
    struct image_config c = {0};
    int r = image_config_parse(&m->arena, config, &c, e);

    if (r == 0)
        r = image_config_check(&c, manifest, e);
    if (r < 0)
        return r;
    image->platform = c.platform;
    image->config = manifest->config.digest;
    for (size_t i = 0; i < manifest->layers_count && i < ARRAY_LEN(image->layers); i++) {
        struct image_store_layer *l = &image->layers[image->layers_count++];

        l->blob = manifest->layers[i].digest;
        l->bytes = manifest->layers[i].bytes;
        l->diff_id = c.diff_ids[i];
        if (str_copy(l->media_type, sizeof(l->media_type), manifest->layers[i].media_type) < 0)
            return err_set(e, EBADMSG, "the media type of a layer is too long");
    }
    return layers_unpack(m, image, e);
}

/* --- OCI archives --- */

struct index_entry {
    struct str digest, media_type;
    struct json_pair *annotations;
    size_t annotations_count;
};
struct index {
    struct index_entry *manifests;
    size_t manifests_count;
};

static const struct json_field index_entry_fields[] = {
    JSON_FIELD("digest", JSON_AS_STR, JSON_REQUIRED, struct index_entry, digest),
    JSON_FIELD("mediaType", JSON_AS_STR, 0, struct index_entry, media_type),
    JSON_LIST("annotations", JSON_AS_MAP, JSON_NULLABLE, struct index_entry, annotations,
              .max = 1000),
};
static const struct json_table index_entry_table =
    JSON_TABLE(struct index_entry, index_entry_fields, 0);
static const struct json_field index_element = {.as = JSON_AS_OBJECT, .table = &index_entry_table};
static const struct json_field index_fields[] = {
    JSON_LIST("manifests", JSON_AS_ARRAY, JSON_REQUIRED, struct index, manifests,
              .element = &index_element, .max = IMAGE_IMPORTED_MAX),
};
static const struct json_table index_table = JSON_TABLE(struct index, index_fields, 0);

static struct str annotation(const struct index_entry *entry, struct str key)
{
    for (size_t i = 0; i < entry->annotations_count; i++)
        if (str_eq(entry->annotations[i].key, key))
            return entry->annotations[i].value;
    return STR_NONE;
}

static struct str entry_name(const struct import *m, const struct index_entry *entry)
{
    struct str full = annotation(entry, STR(NAME_FULL));

    if (m->in->name)
        return str_of(m->in->name);
    return full.n ? full : annotation(entry, STR(NAME_SHORT));
}

static int blob_keep(struct import *m, const struct image_digest *digest, struct err *e)
{
    char path[IMAGE_BLOB_PATH_MAX];
    struct image_digest kept;

    image_digest_path(digest, path);
    return archive_keep(&m->archive, m->store, str_of(path), digest, m->pins, &kept, e);
}

/* Keeps a document, and reads it. */
static int document_take(struct import *m, const struct image_digest *digest, size_t bytes_max,
                         struct buf *out, struct err *e)
{
    int r = blob_keep(m, digest, e);

    return r < 0 ? r : image_store_blob_read(m->store, digest, bytes_max, out, e);
}

static int manifest_take(struct import *m, struct image_digest *digest, struct str media_type,
                         struct buf *text, struct image_manifest *ret, struct err *e)
{
    const struct image_descriptor *chosen = NULL;
    int r = document_take(m, digest, IMAGE_MANIFEST_BYTES_MAX, text, e);

    if (r == 0)
        r = image_manifest_parse(&m->arena, buf_str(text), media_type, ret, e);
    if (r < 0 || ret->media != IMAGE_MEDIA_INDEX)
        return r;
    r = image_index_select(ret, &m->in->platform, &chosen, e);
    if (r < 0)
        return r;
    *digest = chosen->digest;
    media_type = chosen->media_type;
    buf_clear(text);
    r = document_take(m, digest, IMAGE_MANIFEST_BYTES_MAX, text, e);
    if (r == 0)
        r = image_manifest_parse(&m->arena, buf_str(text), media_type, ret, e);
    if (r == 0 && ret->media != IMAGE_MEDIA_MANIFEST)
        r = err_set(e, EBADMSG, "an index of the archive names another index");
    return r;
}

static int import_entry(struct import *m, const struct index_entry *entry, struct err *e)
{
    AUTO_BUF(text, IMAGE_MANIFEST_BYTES_MAX);
    AUTO_BUF(config, IMAGE_CONFIG_BYTES_MAX);
    auto_free struct image_store_image *image = mem_new(struct image_store_image);
    struct image_manifest manifest = {0};
    struct str name = entry_name(m, entry);
    int r = image_digest_parse(entry->digest, &image->manifest, e);

    if (r == 0 && name.n == 0)
        r = err_set(e, EINVAL, "the archive has no name for the image: give one");
    if (r == 0)
        r = manifest_take(m, &image->manifest, entry->media_type, &text, &manifest, e);
    if (r == 0)
        r = document_take(m, &manifest.config.digest, IMAGE_CONFIG_BYTES_MAX, &config, e);
    for (size_t i = 0; r == 0 && i < manifest.layers_count; i++)
        r = blob_keep(m, &manifest.layers[i].digest, e);
    if (r == 0)
        r = image_fill(m, &manifest, buf_str(&config), image, e);
    return r < 0 ? r : name_add(m, image, name, e);
}

static int import_oci(struct import *m, struct err *e)
{
    AUTO_BUF(text, IMAGE_MANIFEST_BYTES_MAX);
    struct index index = {0};
    struct json *tree;
    int r = archive_read(&m->archive, STR("index.json"), IMAGE_MANIFEST_BYTES_MAX, &text, e);

    if (r == 0)
        r = json_parse(&m->arena, buf_str(&text), NULL, &tree, e);
    if (r == 0)
        r = json_bind(&m->arena, tree, &index_table, &index, e);
    if (r < 0)
        return err_wrap(e, r, "index.json");
    if (index.manifests_count == 0)
        return err_set(e, EBADMSG, "index.json: names no image");
    if (m->in->name && index.manifests_count > 1)
        return err_set(e, EINVAL, "the archive has %zu images: import it without a name",
                       index.manifests_count);
    for (size_t i = 0; r == 0 && i < index.manifests_count; i++)
        r = import_entry(m, &index.manifests[i], e);
    return r;
}

/* --- documents of our own, for archives that have none --- */

static int write_descriptor(struct json_writer *w, const char *media_type,
                            const struct image_digest *digest, uint64_t bytes)
{
    json_write_object(w);
    json_member_string(w, STR("mediaType"), str_of(media_type));
    json_member_string(w, STR("digest"), str_of(digest->text));
    json_member_u64(w, STR("size"), bytes);
    json_write_object_end(w);
    return 0;
}

static int manifest_make(struct import *m, struct image_store_image *image, struct err *e)
{
    AUTO_BUF(text, IMAGE_MANIFEST_BYTES_MAX);
    struct json_writer w;
    uint64_t config_bytes = 0;
    int r;

    (void)image_store_blob_find(m->store, &image->config, &config_bytes);
    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_u64(&w, STR("schemaVersion"), 2);
    json_member_string(&w, STR("mediaType"), STR(MEDIA_MANIFEST));
    json_write_key(&w, STR("config"));
    (void)write_descriptor(&w, MEDIA_CONFIG, &image->config, config_bytes);
    json_write_key(&w, STR("layers"));
    json_write_array(&w);
    for (size_t i = 0; i < image->layers_count; i++)
        (void)write_descriptor(&w, image->layers[i].media_type, &image->layers[i].blob,
                               image->layers[i].bytes);
    json_write_array_end(&w);
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r < 0)
        return err_sys(e, -r, "write a manifest");
    image_digest_of(buf_str(&text), &image->manifest);
    image_store_pins_add(m->pins, &image->manifest);
    return image_store_blob_put(m->store, &image->manifest, buf_str(&text), e);
}

static int config_make(struct import *m, struct image_store_image *image, struct err *e)
{
    AUTO_BUF(text, IMAGE_CONFIG_BYTES_MAX);
    struct json_writer w;
    int r;

    json_write_begin(&w, &text);
    json_write_object(&w);
    json_member_string(&w, STR("architecture"), str_of(image->platform.arch));
    if (image->platform.variant[0])
        json_member_string(&w, STR("variant"), str_of(image->platform.variant));
    json_member_string(&w, STR("os"), str_of(image->platform.os));
    json_write_key(&w, STR("config"));
    json_write_object(&w);
    json_write_object_end(&w);
    json_write_key(&w, STR("rootfs"));
    json_write_object(&w);
    json_member_string(&w, STR("type"), STR("layers"));
    json_write_key(&w, STR("diff_ids"));
    json_write_array(&w);
    for (size_t i = 0; i < image->layers_count; i++)
        json_write_string(&w, str_of(image->layers[i].diff_id.text));
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    r = json_write_end(&w);
    if (r < 0)
        return err_sys(e, -r, "write a configuration");
    image_digest_of(buf_str(&text), &image->config);
    image_store_pins_add(m->pins, &image->config);
    return image_store_blob_put(m->store, &image->config, buf_str(&text), e);
}

/* --- archives of docker save --- */

struct saved {
    struct str config;
    struct str *tags, *layers;
    size_t tags_count, layers_count;
};
struct saved_list {
    struct saved *images;
    size_t images_count;
};

static const struct json_field text_element = {.as = JSON_AS_STR};
static const struct json_field saved_fields[] = {
    JSON_FIELD("Config", JSON_AS_STR, JSON_REQUIRED, struct saved, config),
    JSON_LIST("RepoTags", JSON_AS_ARRAY, JSON_NULLABLE, struct saved, tags,
              .element = &text_element, .max = IMAGE_IMPORTED_MAX),
    JSON_LIST("Layers", JSON_AS_ARRAY, JSON_REQUIRED, struct saved, layers,
              .element = &text_element, .max = IMAGE_LAYERS_MAX),
};
static const struct json_table saved_table = JSON_TABLE(struct saved, saved_fields, 0);

/* Keeps the configuration and the layers, in image->config and image->layers. */
static int saved_keep(struct import *m, const struct saved *saved, struct image_store_image *image,
                      struct err *e)
{
    int r = archive_keep(&m->archive, m->store, saved->config, NULL, m->pins, &image->config, e);

    for (size_t i = 0; r == 0 && i < saved->layers_count; i++) {
        struct image_store_layer *l = &image->layers[image->layers_count++];

        r = archive_keep(&m->archive, m->store, saved->layers[i], NULL, m->pins, &l->blob, e);
        if (r == 0)
            (void)image_store_blob_find(m->store, &l->blob, &l->bytes);
        (void)memcpy(l->media_type, MEDIA_LAYER, sizeof(MEDIA_LAYER));
    }
    return r;
}

static int import_saved(struct import *m, const struct saved *saved, struct err *e)
{
    AUTO_BUF(config, IMAGE_CONFIG_BYTES_MAX);
    auto_free struct image_store_image *image = mem_new(struct image_store_image);
    struct image_config c = {0};
    int r = saved_keep(m, saved, image, e);

    if (r == 0)
        r = image_store_blob_read(m->store, &image->config, IMAGE_CONFIG_BYTES_MAX, &config, e);
    if (r == 0)
        r = image_config_parse(&m->arena, buf_str(&config), &c, e);
    if (r == 0 && c.diff_ids_count != image->layers_count)
        r = err_set(e, EBADMSG, "the configuration has %zu layers, the archive %zu",
                    c.diff_ids_count, image->layers_count);
    for (size_t i = 0; r == 0 && i < image->layers_count; i++)
        image->layers[i].diff_id = c.diff_ids[i];
    image->platform = c.platform;
    if (r == 0)
        r = layers_unpack(m, image, e);
    if (r == 0)
        r = manifest_make(m, image, e);
    if (r == 0 && m->in->name)
        return name_add(m, image, str_of(m->in->name), e);
    if (r == 0 && saved->tags_count == 0)
        r = err_set(e, EINVAL, "the archive has no name for the image: give one");
    for (size_t i = 0; r == 0 && i < saved->tags_count; i++)
        r = name_add(m, image, saved->tags[i], e);
    return r;
}

static int import_docker(struct import *m, struct err *e)
{
    static const struct json_field saved_element = {.as = JSON_AS_OBJECT, .table = &saved_table};
    static const struct json_field list_fields[] = {
        JSON_LIST("images", JSON_AS_ARRAY, JSON_REQUIRED, struct saved_list, images,
                  .element = &saved_element, .max = IMAGE_IMPORTED_MAX),
    };
    static const struct json_table list_table = JSON_TABLE(struct saved_list, list_fields, 0);
    AUTO_BUF(text, IMAGE_MANIFEST_BYTES_MAX + 32);
    struct saved_list list = {0};
    struct json *tree;
    int r = buf_add(&text, STR("{\"images\":")); /* the binder reads objects */

    if (r == 0)
        r = archive_read(&m->archive, STR("manifest.json"), IMAGE_MANIFEST_BYTES_MAX, &text, e);
    if (r == 0)
        r = buf_add_char(&text, '}');
    if (r == 0)
        r = json_parse(&m->arena, buf_str(&text), NULL, &tree, e);
    if (r == 0)
        r = json_bind(&m->arena, tree, &list_table, &list, e);
    if (r < 0)
        return err_wrap(e, r, "manifest.json");
    if (list.images_count == 0)
        return err_set(e, EBADMSG, "manifest.json: names no image");
    if (m->in->name && list.images_count > 1)
        return err_set(e, EINVAL, "the archive has %zu images: import it without a name",
                       list.images_count);
    for (size_t i = 0; r == 0 && i < list.images_count; i++)
        r = import_saved(m, &list.images[i], e);
    return r;
}

/* --- plain archives --- */

static const char *layer_media(const struct archive *a)
{
    char first = 0;

    if (!a->compressed || pread(a->fd, &first, 1, 0) != 1)
        return MEDIA_LAYER;
    return first == '\x1f' ? MEDIA_LAYER_GZIP : MEDIA_LAYER_ZSTD;
}

/* The archive is the image's only layer. */
static int import_root(struct import *m, int *fd, struct err *e)
{
    auto_free struct image_store_image *image = mem_new(struct image_store_image);
    struct image_store_layer *l = &image->layers[0];
    const char *media = layer_media(&m->archive);
    int r;

    if (!m->in->name)
        return err_set(e, EINVAL, "an archive of a root directory needs a name for the image");
    image->platform = m->in->platform;
    image->layers_count = 1;
    l->blob = m->archive.digest;
    (void)memcpy(l->media_type, media, strlen(media) + 1);
    image_store_pins_add(m->pins, &l->blob);
    r = image_store_temp_commit(m->store, &l->blob, take_fd(fd), e);
    if (r == 0)
        (void)image_store_blob_find(m->store, &l->blob, &l->bytes);
    if (r == 0)
        r = layers_unpack(m, image, e);
    if (r == 0)
        r = config_make(m, image, e);
    if (r == 0)
        r = manifest_make(m, image, e);
    return r < 0 ? r : name_add(m, image, str_of(m->in->name), e);
}

int image_import(struct image_store *s, const struct image_import *in, struct image_imported *ret,
                 struct err *e)
{
    struct import m = {.store = s, .in = in, .ret = ret};
    auto_fd fd = in->fd;
    int r;

    *ret = (struct image_imported){0};
    m.pins = image_store_pins_new(s);
    arena_init(&m.arena, IMAGE_MANIFEST_ARENA_MAX);
    r = archive_scan(&m.archive, fd, in->cancel, e);
    if (r == 0)
        r = archive_find(&m.archive, STR("index.json")) &&
                    archive_find(&m.archive, STR("oci-layout"))
                ? import_oci(&m, e)
            : archive_find(&m.archive, STR("manifest.json")) && m.archive.others == 0
                ? import_docker(&m, e)
                : import_root(&m, &fd, e);
    archive_done(&m.archive);
    arena_done(&m.arena);
    image_store_pins_free(m.pins);
    return r < 0 ? err_wrap(e, r, "import") : 0;
}
