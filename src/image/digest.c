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

    if (!str_cut(&hex, ':', &algorithm) || !hex.p || algorithm.n == 0)
        return err_set(e, EINVAL, "'%.*s' is not a digest: expected sha256:<64 hex digits>", shown,
                       text.p ? text.p : "");
    if (!str_eq(algorithm, STR("sha256")))
        return err_set(e, ENOTSUP, "digest '%.*s' is not sha256, the only algorithm known here",
                       shown, text.p);
    if (hex.n != (size_t)2 * SHA256_BYTES || !is_lower_hex(hex))
        return err_set(e, EINVAL, "digest '%.*s' does not have 64 hexadecimal digits in lower case",
                       shown, text.p);
    return str_copy(ret->text, sizeof(ret->text), text);
}

void image_digest_of(struct str bytes, struct image_digest *ret)
{
    struct image_hash h;

    image_hash_init(&h);
    image_hash_add(&h, bytes);
    image_hash_end(&h, ret);
}

void image_hash_init(struct image_hash *h)
{
    sha256_init(&h->sha);
    h->bytes = 0;
}

void image_hash_add(struct image_hash *h, struct str piece)
{
    sha256_add(&h->sha, piece);
    h->bytes += piece.n;
}

void image_hash_end(struct image_hash *h, struct image_digest *ret)
{
    uint8_t raw[SHA256_BYTES];
    char hex[HEX_TEXT_MAX(SHA256_BYTES)];

    sha256_end(&h->sha, raw);
    hex_encode(str_make((const char *)raw, sizeof(raw)), hex);
    snprintf(ret->text, sizeof(ret->text), "sha256:%s", hex);
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
