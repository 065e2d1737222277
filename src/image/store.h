/* store.h - images on disk: blobs as registries send them, unpacked layers, and what refers to
 * them.
 *
 *   <dir>/blobs/<hex>          a blob, whole and verified
 *   <dir>/parts/<hex>          one that is being fetched; kept for a day to go on with
 *   <dir>/layers/<hex>/fs      an unpacked layer, by its diff id; files of sandbox/layer_ids.h
 *   <dir>/layers/<hex>/info    struct image_store_layer_info
 *   <dir>/images/<hex>         a record; <hex> is the hash of the image's name, its time the last
 * use
 *
 * Every name appears by rename, when what it names is complete, and so survives a kill at any
 * moment. What a dead process left is removed at the next image_store_open. Nothing counts
 * references on disk: records say what is used, pins in memory what is in use, the rest is garbage.
 *
 * Calls block, and may come from any thread. The directory is the server's own, mode 0700, on one
 * file system. Files of layers belong to others: the operations of image_store_hands make and
 * remove them, with the broker's help. */
#pragma once

#include "base/buf.h"
#include "image/digest.h"
#include "image/manifest.h"
#include "image/reference.h"

struct image_store;

struct image_store_unpacked {
    struct image_digest diff_id;
    uint64_t entries, file_bytes;
};

/* What needs more rights than ours. */
struct image_store_hands {
    /* Unpacks a blob, open for reading, into an empty directory. Blocks; should end with -ECANCELED
     * soon after *cancel is set. */
    int (*unpack)(void *ctx, int blob, int dir, const volatile bool *cancel,
                  struct image_store_unpacked *ret, struct err *e);
    /* Removes parent/name, a directory with any files. The name is free on return. */
    int (*erase)(void *ctx, int parent, const char *name, struct err *e);
    void *ctx;
};

struct image_store_conf {
    const char *path; /* made if missing */
    struct image_store_hands hands;
};

/* -EBUSY when another process uses the directory. */
int image_store_open(const struct image_store_conf *conf, struct image_store **ret, struct err *e);
void image_store_close(struct image_store *s); /* NULL is fine; no other call may be under way */

/* --- pins: what must stay, whatever records say --- */

/* A set of digests of blobs and diff ids. Not thread-safe itself. */
struct image_store_pins;
struct image_store_pins *image_store_pins_new(struct image_store *s);
void image_store_pins_add(struct image_store_pins *p, const struct image_digest *digest);
void image_store_pins_free(struct image_store_pins *p); /* NULL is fine */

/* --- blobs --- */

/* 1 and its size, or 0. ret_bytes may be NULL. */
int image_store_blob_find(struct image_store *s, const struct image_digest *digest,
                          uint64_t *ret_bytes);
/* A whole small blob, which the caller has verified. */
int image_store_blob_put(struct image_store *s, const struct image_digest *digest, struct str bytes,
                         struct err *e);
int image_store_blob_read(struct image_store *s, const struct image_digest *digest,
                          size_t bytes_max, struct buf *out, struct err *e);
/* Open for reading. -ENOENT. */
int image_store_blob_open(struct image_store *s, const struct image_digest *digest, struct err *e);

/* A file for a blob that comes in pieces; *ret_have bytes of an earlier try are there. -EBUSY while
 * another part of that digest is open. Ends with commit or abandon, which close fd. */
int image_store_part_open(struct image_store *s, const struct image_digest *digest, int *ret_fd,
                          uint64_t *ret_have, struct err *e);
int image_store_part_commit(struct image_store *s, const struct image_digest *digest, int fd,
                            struct err *e);
void image_store_part_abandon(struct image_store *s, const struct image_digest *digest, int fd,
                              bool keep);
/* The same for bytes whose digest is known only at the end. */
int image_store_temp_open(struct image_store *s, struct err *e); /* a file without a name */
int image_store_temp_commit(struct image_store *s, const struct image_digest *digest, int fd,
                            struct err *e);

/* --- layers --- */

int image_store_layer_find(struct image_store *s, const struct image_digest *diff_id); /* 1 or 0 */
/* Unpacks a blob unless that was done; waits for another thread that does so. `diff_id` may be
 * unset: then *ret_diff_id (may be NULL) is what came out. -EBADMSG when it is another. */
int image_store_layer_unpack(struct image_store *s, const struct image_digest *blob,
                             const struct image_digest *diff_id, const volatile bool *cancel,
                             struct image_digest *ret_diff_id, struct err *e);
/* The directory, by O_PATH; pin it before. -ENOENT. */
int image_store_layer_open(struct image_store *s, const struct image_digest *diff_id,
                           struct err *e);

/* --- images --- */

struct image_store_layer {
    struct image_digest blob, diff_id;
    uint64_t bytes; /* of the blob */
    char media_type[128];
};

struct image_store_image {
    char name[IMAGE_REFERENCE_TEXT_MAX]; /* of image_reference_format() */
    struct image_platform platform;
    struct image_digest manifest, config;
    uint64_t bytes;                   /* of its blobs, each once */
    int64_t created_us, last_used_us; /* created: when it was put here */
    size_t layers_count;              /* the lowest first */
    struct image_store_layer layers[IMAGE_LAYERS_MAX];
};

/* Adds or replaces. All blobs and layers must be there: -ENOENT with the one that is not. Sets
 * `bytes` and both times itself. */
int image_store_image_put(struct image_store *s, const struct image_store_image *image,
                          struct err *e);
/* A copy that the caller frees. `use` notes the time and pins all of it (pins may be NULL). */
int image_store_image_get(struct image_store *s, const char *name, struct image_store_pins *use,
                          struct image_store_image **ret, struct err *e);
/* Copies of all, by name; the caller frees each and the list. */
int image_store_image_list(struct image_store *s, struct image_store_image ***ret,
                           size_t *ret_count, struct err *e);
/* Only the record: its blobs and layers go with the next image_store_gc. -ENOENT. */
int image_store_image_remove(struct image_store *s, const char *name, struct err *e);

/* --- room --- */

struct image_store_usage {
    uint64_t blob_bytes, layer_bytes;
    size_t blobs, layers, images;
};
void image_store_usage(struct image_store *s, struct image_store_usage *ret);

struct image_store_freed {
    uint64_t bytes;
    size_t images, layers, blobs;
};
/* Removes what no record and no pin needs. Then removes images, least recently used first, until
 * all takes bytes_max at most; images whose layers are pinned stay. */
int image_store_gc(struct image_store *s, uint64_t bytes_max, struct image_store_freed *ret,
                   struct err *e);
/* Makes what was unpacked survive a power loss. Until then a layer is unpacked anew if the machine
 * restarts. */
int image_store_settle(struct image_store *s, struct err *e);
/* Hashes all blobs again and removes those that are not what their name says, with the images that
 * need them. The number of those. */
int image_store_verify(struct image_store *s, struct err *e);
