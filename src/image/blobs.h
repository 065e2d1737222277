/* blobs.h - what a pull needs of the place where images are kept, as operations.
 *
 * A pull opens a session. Whatever it finds, puts or unpacks in the session stays there at least
 * until the session ends; what image_blobs_ops.record named stays for good. After a crash at any
 * moment a blob is there whole, or not at all.
 *
 * All but unpack and unpack_cancel may block: they are called on workers, several at once. Parts,
 * commits and unpacks of one digest come one at a time; two may put or read the same one at once.
 * Results are 0 or -errno with a message; -ENOSPC and -EDQUOT mean what they say. */
#pragma once

#include "base/buf.h"
#include "image/manifest.h"
#include "image/reference.h"

struct image_unpack;

/* An image that is complete: all of its blobs are there, all of its layers unpacked. */
struct image_record {
    struct image_reference reference;
    struct image_platform platform;
    struct image_digest manifest; /* of the platform's own manifest, not of an index */
    struct image_digest config;
    const struct image_descriptor *layers; /* the lowest first; a digest may be there twice */
    const struct image_digest *diff_ids;   /* of the same layers */
    size_t layers_count;
};

struct image_blobs_ops {
    int (*begin)(void *store, void **ret_session, struct err *e);
    void (*end)(void *session);

    /* 1 and the manifest's digest when a complete image of that name and platform is here; 0. */
    int (*find)(void *session, const struct image_reference *reference,
                const struct image_platform *platform, struct image_digest *ret_manifest,
                struct err *e);
    int (*record)(void *session, const struct image_record *record, struct err *e);

    /* 1 when the blob is here, whole and verified; else 0. */
    int (*has)(void *session, const struct image_digest *digest, struct err *e);
    /* Small blobs, manifests and configurations, in one piece. The caller has verified them. */
    int (*put)(void *session, const struct image_digest *digest, struct str bytes, struct err *e);
    int (*read)(void *session, const struct image_digest *digest, struct buf *out, struct err *e);

    /* A file to write the blob to, open for reading and writing, and how many bytes of it are there
     * from an earlier try. The caller truncates it when it starts anew, hashes all of it, and ends
     * with commit or abandon, which both close the descriptor. */
    int (*open_part)(void *session, const struct image_digest *digest, uint64_t bytes, int *ret_fd,
                     uint64_t *ret_have, struct err *e);
    /* The bytes are all there and verified: makes them durable, and the blob visible. */
    int (*commit)(void *session, const struct image_digest *digest, int fd, struct err *e);
    /* keep: the bytes so far are right, and a later open_part may give them back. */
    void (*abandon)(void *session, const struct image_digest *digest, int fd, bool keep);

    /* On the loop's thread; must not block. Unpacks a layer whose blob is here, unless it is
     * unpacked already. After 0, u->done comes exactly once, on the loop, never from within this
     * call. */
    int (*unpack)(void *session, struct image_unpack *u, struct err *e);
    void (*unpack_cancel)(void *session, struct image_unpack *u); /* done comes soon: ECANCELED */
};

struct image_blobs {
    const struct image_blobs_ops *ops;
    void *store;
};

struct image_unpack {
    /* Given: */
    const struct image_descriptor *layer;
    const struct image_digest *diff_id;
    void (*done)(struct image_unpack *u, int error); /* 0, or a positive errno with u->err */
    struct err err;
    void *user; /* of the operation's implementation */
};
