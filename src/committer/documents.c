#include "committer/documents.h"

#include <errno.h>

#include "base/json_write.h"

#define OCI "application/vnd.oci.image."

enum { ARENA_BYTES_MAX = 64 << 20 };

/* The elements of a list that is there already; the caller ends the list. */
static void begin_list(struct json_writer *w, struct str key, const struct json *list)
{
    json_write_key(w, key);
    json_write_array(w);
    json_each(one, list)
    {
        json_write_value(w, one);
    }
}

static void write_rootfs(struct json_writer *w, const struct json *rootfs,
                         const struct commit_layer *layer)
{
    json_write_key(w, STR("rootfs"));
    json_write_object(w);
    json_member_string(w, STR("type"), STR("layers"));
    begin_list(w, STR("diff_ids"), json_get(rootfs, STR("diff_ids")));
    json_write_string(w, str_of(layer->diff_id.text));
    json_write_array_end(w);
    json_write_object_end(w);
}

static void write_history(struct json_writer *w, const struct json *history, int64_t now_us)
{
    begin_list(w, STR("history"), history);
    json_write_object(w);
    json_member_time(w, STR("created"), now_us);
    json_member_string(w, STR("created_by"), STR("opensandbox image-committer"));
    json_write_object_end(w);
    json_write_array_end(w);
}

int commit_config(struct str base, const struct commit_layer *layer, int64_t now_us,
                  struct buf *out, struct err *e)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct json_limits limits = {.duplicates = JSON_DUPLICATES_LAST};
    struct image_config checked;
    struct json_writer w;
    struct json *doc;
    int r = image_config_parse(&a, base, &checked, e);

    if (r == 0)
        r = json_parse(&a, base, &limits, &doc, e);
    if (r < 0)
        return r;
    json_write_begin(&w, out);
    json_write_object(&w);
    json_each(member, doc)
    {
        /* A history that does not name each layer is of no use; none is allowed. */
        if (str_eq(member->key, STR("history")) && json_count(member)) {
            write_history(&w, member, now_us);
        } else if (!str_eq(member->key, STR("rootfs")) && !str_eq(member->key, STR("created"))) {
            json_write_key(&w, member->key);
            json_write_value(&w, member);
        }
    }
    json_member_time(&w, STR("created"), now_us);
    write_rootfs(&w, json_get(doc, STR("rootfs")), layer);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? err_set(e, -r, "the configuration is too long") : 0;
}

static const char *layer_type(enum image_media media)
{
    switch (media) {
    case IMAGE_MEDIA_LAYER_TAR:
        return OCI "layer.v1.tar";
    case IMAGE_MEDIA_LAYER_ZSTD:
        return OCI "layer.v1.tar+zstd";
    default:
        return OCI "layer.v1.tar+gzip";
    }
}

static void write_descriptor(struct json_writer *w, const char *type,
                             const struct image_digest *digest, uint64_t bytes)
{
    json_write_object(w);
    json_member_string(w, STR("mediaType"), str_of(type));
    json_member_string(w, STR("digest"), str_of(digest->text));
    json_member_u64(w, STR("size"), bytes);
    json_write_object_end(w);
}

int commit_manifest(const struct image_manifest *base, struct str config,
                    const struct commit_layer *layer, struct buf *out, struct err *e)
{
    struct image_digest config_digest;
    struct json_writer w;
    int r;

    if (base->layers_count >= IMAGE_LAYERS_MAX)
        return err_set(e, E2BIG, "the image has %zu layers; no more than %d can be stacked",
                       base->layers_count, IMAGE_LAYERS_MAX);
    image_digest_of(config, &config_digest);
    json_write_begin(&w, out);
    json_write_object(&w);
    json_member_u64(&w, STR("schemaVersion"), 2);
    json_member_string(&w, STR("mediaType"), STR(COMMIT_MANIFEST_TYPE));
    json_write_key(&w, STR("config"));
    write_descriptor(&w, OCI "config.v1+json", &config_digest, config.n);
    json_write_key(&w, STR("layers"));
    json_write_array(&w);
    for (size_t i = 0; i < base->layers_count; i++)
        write_descriptor(&w, layer_type(base->layers[i].media), &base->layers[i].digest,
                         base->layers[i].bytes);
    write_descriptor(&w, layer_type(layer->media), &layer->digest, layer->bytes);
    json_write_array_end(&w);
    json_write_object_end(&w);
    r = json_write_end(&w);
    return r < 0 ? err_set(e, -r, "the manifest is too long") : 0;
}
