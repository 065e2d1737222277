/* documents.h - the configuration and the manifest of an image that is another one and a layer
 * more. Pure. */
#pragma once

#include "base/buf.h"
#include "image/manifest.h"

#define COMMIT_MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

struct commit_layer {
    struct image_digest digest, diff_id; /* of the layer as it is sent, and of its tar */
    uint64_t bytes;
    enum image_media media;
};

/* Appends the configuration. All that `base` says of a container stays. -EBADMSG, -EPROTO. */
int commit_config(struct str base, const struct commit_layer *layer, int64_t now_us,
                  struct buf *out, struct err *e);
/* Appends the manifest, in OCI's words also when the base has Docker's. -E2BIG: too many layers. */
int commit_manifest(const struct image_manifest *base, struct str config,
                    const struct commit_layer *layer, struct buf *out, struct err *e);
