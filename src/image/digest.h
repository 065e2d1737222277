/* digest.h - "sha256:<64 hexadecimal digits>": the name of bytes, and the check that they are it.
 *
 * Pure. SHA-256 is the only algorithm: registries name everything by it. */
#pragma once

#include "base/err.h"
#include "base/sha.h"
#include "base/str.h"

enum { IMAGE_DIGEST_TEXT_MAX = sizeof("sha256:") + 2 * SHA256_BYTES };

struct image_digest {
    char text[IMAGE_DIGEST_TEXT_MAX]; /* in full, lower case; "" = unset */
};

/* -EINVAL for another form, -ENOTSUP for another algorithm. */
int image_digest_parse(struct str text, struct image_digest *ret, struct err *e);
void image_digest_of(struct str bytes, struct image_digest *ret);

static inline bool image_digest_eq(const struct image_digest *a, const struct image_digest *b)
{
    return strcmp(a->text, b->text) == 0;
}
static inline bool image_digest_is_set(const struct image_digest *d)
{
    return d->text[0] != '\0';
}
/* The digits alone, as a file name. */
static inline const char *image_digest_hex(const struct image_digest *d)
{
    return d->text + STR("sha256:").n;
}

/* The digest of bytes that come in pieces. */
struct image_hash {
    struct sha256 sha;
    uint64_t bytes;
};
void image_hash_init(struct image_hash *h);
void image_hash_add(struct image_hash *h, struct str piece);
void image_hash_end(struct image_hash *h, struct image_digest *ret);
/* Ends the hash. -EBADMSG with both digests in e when the bytes are others than `want`. */
int image_hash_check(struct image_hash *h, const struct image_digest *want, struct err *e);
