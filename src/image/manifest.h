/* manifest.h - manifests, indexes and configurations of images: JSON of OCI and of Docker's
 * schema 2, read into structs.
 *
 * Pure. What is read lives in the caller's arena. Documents come from strangers: everything is
 * bounded, and an error says what is wrong. */
#pragma once

#include "base/arena.h"
#include "base/json_bind.h"
#include "image/digest.h"
#include "image/platform.h"

enum {
    IMAGE_MANIFEST_BYTES_MAX = 4 << 20,
    IMAGE_CONFIG_BYTES_MAX = 8 << 20,
    IMAGE_LAYERS_MAX = 128,
    IMAGE_INDEX_ENTRIES_MAX = 512,
    IMAGE_MANIFEST_ARENA_MAX = 64 << 20, /* room that any of these documents fits into */
};
#define IMAGE_LAYER_BYTES_MAX (UINT64_C(64) << 30) /* of one layer as it is sent */

enum image_media {
    IMAGE_MEDIA_OTHER,
    IMAGE_MEDIA_MANIFEST, /* of one image */
    IMAGE_MEDIA_INDEX,    /* a list of manifests, by platform */
    IMAGE_MEDIA_SCHEMA1,  /* Docker's first format; refused */
    IMAGE_MEDIA_CONFIG,
    IMAGE_MEDIA_LAYER_TAR,
    IMAGE_MEDIA_LAYER_GZIP,
    IMAGE_MEDIA_LAYER_ZSTD,
    IMAGE_MEDIA_LAYER_FOREIGN, /* only its vendor may give it out; refused */
};
/* By media type; parameters after ';' do not count. */
enum image_media image_media_of(struct str media_type);

struct image_descriptor {
    struct str media_type;
    enum image_media media;
    struct image_digest digest;
    uint64_t bytes;
    struct image_platform platform; /* os "" when none is given; of entries of an index */
};

struct image_manifest {
    enum image_media media; /* IMAGE_MEDIA_MANIFEST or IMAGE_MEDIA_INDEX */
    /* of a manifest: */
    struct image_descriptor config;
    struct image_descriptor *layers; /* the lowest first */
    size_t layers_count;
    /* of an index: */
    struct image_descriptor *entries;
    size_t entries_count;
};

/* `media_type` is what the registry, or an index, calls it; STR_NONE when nobody said. One that
 * contradicts the document's own is refused. -EPROTO, -ENOTSUP (schema 1, artifacts, foreign
 * layers), -EFBIG. */
int image_manifest_parse(struct arena *a, struct str text, struct str media_type,
                         struct image_manifest *ret, struct err *e);

/* The entry of an index that suits `want` best. -ENOEXEC with the platforms there are. */
int image_index_select(const struct image_manifest *index, const struct image_platform *want,
                       const struct image_descriptor **ret, struct err *e);

/* What a container of the image gets, in the image's own words. */
struct image_config {
    struct image_platform platform;
    struct str created;
    struct image_digest *diff_ids; /* of the layers' tar streams, the lowest first */
    size_t diff_ids_count;
    struct str user, workdir, stop_signal;
    struct str *env; /* "NAME=value" */
    size_t env_count;
    struct str *entrypoint;
    size_t entrypoint_count;
    struct str *cmd;
    size_t cmd_count;
    struct str *ports; /* "8080/tcp" */
    size_t ports_count;
    struct str *volumes; /* paths */
    size_t volumes_count;
    struct json_pair *labels;
    size_t labels_count;
};

int image_config_parse(struct arena *a, struct str text, struct image_config *ret, struct err *e);
/* Whether a configuration belongs to a manifest: as many layers. -EPROTO. */
int image_config_check(const struct image_config *config, const struct image_manifest *manifest,
                       struct err *e);
