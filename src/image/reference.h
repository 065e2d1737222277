/* reference.h - names of images, read and completed as Docker does.
 *
 *   python:3.12                     docker.io/library/python:3.12
 *   me/app                          docker.io/me/app:latest
 *   localhost:5000/a/b@sha256:...   as it is; without a tag, for the digest says all
 *
 * Pure. A reference is a value without pointers. */
#pragma once

#include "image/digest.h"

enum {
    IMAGE_REGISTRY_MAX = 256 + 8, /* host, port, NUL */
    IMAGE_REPOSITORY_MAX = 256,
    IMAGE_TAG_MAX = 129,
    IMAGE_NAME_MAX = 1024, /* of any text that is taken for a name */
    IMAGE_REFERENCE_TEXT_MAX =
        IMAGE_REGISTRY_MAX + IMAGE_REPOSITORY_MAX + IMAGE_TAG_MAX + IMAGE_DIGEST_TEXT_MAX,
};

struct image_reference {
    char registry[IMAGE_REGISTRY_MAX];     /* "docker.io", "localhost:5000", "[::1]:5000" */
    char repository[IMAGE_REPOSITORY_MAX]; /* "library/python" */
    char tag[IMAGE_TAG_MAX];               /* "" when only a digest was given */
    struct image_digest digest;            /* "" unless given; it wins over the tag */
};

/* -EINVAL, with what is wrong and what would be right. */
int image_reference_parse(struct str text, struct image_reference *ret, struct err *e);
/* In full: registry/repository[:tag][@digest]. */
void image_reference_format(const struct image_reference *r, char out[IMAGE_REFERENCE_TEXT_MAX]);
/* What a manifest is asked by: the digest if there is one, else the tag. */
const char *image_reference_version(const struct image_reference *r);

/* Whether the first component of a name, before a slash, is a registry and not an owner: it has a
 * dot or a colon, an upper-case letter, or is "localhost". */
bool image_name_is_registry(struct str first);
/* docker.io under any of its names (index.docker.io, registry-1.docker.io, with or without
 * https:// and /v1/ as old credentials files have it): "docker.io". Any other: itself, without
 * scheme and path. */
struct str image_registry_canonical(struct str registry);
