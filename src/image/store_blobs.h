/* store_blobs.h - the store as a pull sees it (blobs.h). */
#pragma once

#include "image/blobs.h"
#include "image/store.h"
#include "net/pool.h"

struct image_store_blobs;

/* All are borrowed. Layers are unpacked on the pool, as slow jobs; `done` of an unpack comes on the
 * loop. */
struct image_store_blobs *image_store_blobs_new(struct image_store *s, struct pool *pool,
                                                struct loop *loop);
void image_store_blobs_free(struct image_store_blobs *b); /* NULL is fine; no session is open */
struct image_blobs image_store_blobs_ops(struct image_store_blobs *b);
