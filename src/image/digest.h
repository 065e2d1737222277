/* digest.h - "sha256:<64 hexadecimal digits>": the name of bytes, and the check that they are it.
 *
 * Pure. Registries name nearly everything by SHA-256, and so do we; "sha512:" and 128 digits, which
 * the OCI specification also has, are read and checked. */
#pragma once

#include "base/err.h"
#include "base/sha.h"
#include "base/str.h"

enum { IMAGE_DIGEST_TEXT_MAX = sizeof("sha512:") + 2 * SHA512_BYTES };

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
/* The digits alone, as a file name: their number tells the algorithm. */
static inline const char *image_digest_hex(const struct image_digest *d)
{
    return d->text + STR("sha256:").n;
}
static inline bool image_digest_is_sha512(const struct image_digest *d)
{
    return strncmp(d->text, "sha512:", STR("sha512:").n) == 0;
}

/* "blobs/sha256/<digits>": its place in an OCI layout. */
enum { IMAGE_BLOB_PATH_MAX = sizeof("blobs//") + IMAGE_DIGEST_TEXT_MAX };
void image_digest_path(const struct image_digest *d, char ret[IMAGE_BLOB_PATH_MAX]);

/* The digest of bytes that come in pieces. */
struct image_hash {
    bool is_512;
    union {
        struct sha256 sha;
        struct sha512 sha512;
    };
    uint64_t bytes;
};
void image_hash_init(struct image_hash *h); /* SHA-256 */
/* By the algorithm of `want`, to be compared with it; NULL or unset: SHA-256. */
void image_hash_init_for(struct image_hash *h, const struct image_digest *want);
void image_hash_add(struct image_hash *h, struct str piece);
void image_hash_end(struct image_hash *h, struct image_digest *ret);
/* Ends the hash. -EBADMSG with both digests in e when the bytes are others than `want`. */
int image_hash_check(struct image_hash *h, const struct image_digest *want, struct err *e);
