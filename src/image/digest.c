#include "image/digest.h"

#include <errno.h>
#include <stdio.h>

#include "base/codec.h"

enum { SHOWN_MAX = 80 };

static bool is_lower_hex(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    return true;
}

int image_digest_parse(struct str text, struct image_digest *ret, struct err *e)
{
    struct str hex = text, algorithm = STR_NONE;
    int shown = (int)min_size(text.n, SHOWN_MAX);
    size_t digits;

    if (!str_cut(&hex, ':', &algorithm) || !hex.p || algorithm.n == 0)
        return err_set(e, EINVAL, "'%.*s' is not a digest: expected sha256:<64 hex digits>", shown,
                       text.p ? text.p : "");
    digits = str_eq(algorithm, STR("sha256"))   ? (size_t)2 * SHA256_BYTES
             : str_eq(algorithm, STR("sha512")) ? (size_t)2 * SHA512_BYTES
                                                : 0;
    if (digits == 0)
        return err_set(e, ENOTSUP,
                       "digest '%.*s' is neither sha256 nor sha512, the algorithms known here",
                       shown, text.p);
    if (hex.n != digits || !is_lower_hex(hex))
        return err_set(e, EINVAL,
                       "digest '%.*s' does not have %zu hexadecimal digits in lower case", shown,
                       text.p, digits);
    return str_copy(ret->text, sizeof(ret->text), text);
}

void image_digest_of(struct str bytes, struct image_digest *ret)
{
    struct image_hash h;

    image_hash_init(&h);
    image_hash_add(&h, bytes);
    image_hash_end(&h, ret);
}

void image_digest_path(const struct image_digest *d, char ret[IMAGE_BLOB_PATH_MAX])
{
    (void)snprintf(ret, IMAGE_BLOB_PATH_MAX, "blobs/%.6s/%s", d->text, image_digest_hex(d));
}

void image_hash_init(struct image_hash *h)
{
    image_hash_init_for(h, NULL);
}

void image_hash_init_for(struct image_hash *h, const struct image_digest *want)
{
    h->is_512 = want && image_digest_is_sha512(want);
    if (h->is_512)
        sha512_init(&h->sha512);
    else
        sha256_init(&h->sha);
    h->bytes = 0;
}

void image_hash_add(struct image_hash *h, struct str piece)
{
    if (h->is_512)
        sha512_add(&h->sha512, piece);
    else
        sha256_add(&h->sha, piece);
    h->bytes += piece.n;
}

void image_hash_end(struct image_hash *h, struct image_digest *ret)
{
    uint8_t raw[SHA512_BYTES];
    char hex[HEX_TEXT_MAX(SHA512_BYTES)];

    if (h->is_512)
        sha512_end(&h->sha512, raw);
    else
        sha256_end(&h->sha, raw);
    hex_encode(str_make((const char *)raw, h->is_512 ? SHA512_BYTES : SHA256_BYTES), hex);
    (void)snprintf(ret->text, sizeof(ret->text), "%s:%s", h->is_512 ? "sha512" : "sha256", hex);
}

int image_hash_check(struct image_hash *h, const struct image_digest *want, struct err *e)
{
    struct image_digest got;

    image_hash_end(h, &got);
    if (!image_digest_eq(&got, want))
        return err_set(e, EBADMSG, "its %llu bytes have digest %.19s..., not %.19s...",
                       (unsigned long long)h->bytes, got.text, want->text);
    return 0;
}
