/* store_internal.h - what the files of the store share. Fields are under the lock. */
#pragma once

#include <pthread.h>

#include "base/fd.h"
#include "base/map.h"
#include "image/store.h"

enum {
    IMAGE_STORE_BLOBS_MAX = 1 << 20,
    IMAGE_STORE_IMAGES_MAX = 1 << 16,
    IMAGE_STORE_RECORD_BYTES_MAX = 256 << 10,
};

struct image_store_layer_state {
    uint64_t bytes;
    bool busy;    /* being unpacked */
    bool settled; /* on disk for good */
};

struct image_store {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a layer is no longer busy */
    struct image_store_hands hands;
    int dir, blobs, parts, layers, images;
    struct map blob_sizes; /* by hex: uint64_t on the heap */
    struct map layer_states;
    struct map records; /* by name: struct image_store_image */
    struct map pinned;  /* by hex: size_t on the heap */
    struct map open_parts;
    char boot[64];
};

static inline struct str image_store_hex(const struct image_digest *d)
{
    return str_of(image_digest_hex(d));
}

static inline void image_store_take_lock(struct image_store *s)
{
    (void)pthread_mutex_lock(&s->lock);
}
static inline void image_store_give_lock(struct image_store *s)
{
    (void)pthread_mutex_unlock(&s->lock);
}

/* store_images.c: reads all records. */
int image_store_records_load(struct image_store *s, struct err *e);
/* Removes a record; under the lock. */
int image_store_record_remove(struct image_store *s, const char *name, struct err *e);

/* store_layers.c: lists layers; erases those that are not whole. */
int image_store_layers_load(struct image_store *s, struct err *e);
/* Erases a layer; under the lock. */
int image_store_layer_erase(struct image_store *s, struct str hex, struct err *e);

/* store.c: under the lock. */
int image_store_blob_unlink(struct image_store *s, struct str hex, struct err *e);
bool image_store_is_pinned(const struct image_store *s, struct str hex);
/* Calls visit for the name of each entry of a directory, "." and ".." left out. */
int image_store_each(int dir, int (*visit)(struct image_store *s, const char *name, struct err *e),
                     struct image_store *s, struct err *e);
bool image_store_is_hex(const char *name);
