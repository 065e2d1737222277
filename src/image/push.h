/* push.h - sends blobs and a manifest to one repository of a registry (HTTP API v2).
 *
 * BLOCKS: for programs that have nothing else to do. Errors are kinds of problem.h, and -EINTR when
 * it was stopped. */
#pragma once

#include <signal.h>

#include "image/credentials.h"
#include "image/manifest.h"
#include "image/proxy.h"
#include "image/reference.h"

struct image_push;

struct image_push_conf {
    struct image_proxy_conf proxy;
    /* Believe any certificate, and speak http with a registry that does not speak https. */
    bool insecure;
    const char *ca_file;    /* NULL = the system's authorities */
    struct str credentials; /* text of a credentials file, outlives the push; STR_NONE */
    /* Set by a signal's handler: what is going on ends. May be NULL. */
    const volatile sig_atomic_t *stop;
};

/* `to`: registry and repository. Looks at the registry when it must find out how to speak. */
int image_push_new(const struct image_push_conf *conf, const struct image_reference *to,
                   struct image_push **ret, struct err *e);
void image_push_free(struct image_push *p); /* NULL is fine */

struct image_push_blob {
    struct image_digest digest;
    uint64_t bytes;
    /* Another repository of the same registry that may have it, or NULL. */
    const char *from;
    /* Appends to `out` at least one byte of the blob from `offset` on, or fails. May be called
     * again with an offset that it had before. BLOCKS. */
    int (*read)(void *user, uint64_t offset, struct buf *out, struct err *e);
    void *user;
};
enum { IMAGE_PUSH_PIECE_MAX = 1 << 20 }; /* limit of that buffer */

/* Sends it unless it is there. */
int image_push_blob(struct image_push *p, const struct image_push_blob *blob, struct err *e);
/* Under a tag or a digest. */
int image_push_manifest(struct image_push *p, const char *version, struct str media_type,
                        struct str text, struct err *e);
