#include "api/signed.h"

#include <errno.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/sha.h"

enum { SIGNATURE_BYTES = API_SIGNATURE_MAX - 1, DIGITS = SIGNATURE_BYTES - 1 };

static void add_length(struct sha256 *hash, size_t n)
{
    uint8_t be[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};

    sha256_add(hash, str_make((const char *)be, sizeof(be)));
}

void api_route_sign(struct str secret, char key_id, struct str sandbox_id, uint16_t port,
                    uint64_t expires_s, char out[API_SIGNATURE_MAX])
{
    struct str head = STR("v1\nshort\n");
    char expires[BASE36_TEXT_MAX], tail[sizeof("\n65535\n\n") + BASE36_TEXT_MAX];
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    int n;

    base36_encode(expires_s, expires);
    n = snprintf(tail, sizeof(tail), "\n%u\n%s\n", (unsigned)port, expires);
    sha256_init(&hash);
    add_length(&hash, secret.n);
    sha256_add(&hash, secret);
    add_length(&hash, head.n + sandbox_id.n + (size_t)n);
    sha256_add(&hash, head);
    sha256_add(&hash, sandbox_id);
    sha256_add(&hash, str_make(tail, (size_t)n));
    sha256_end(&hash, digest);
    hex_encode(str_make((const char *)digest, DIGITS / 2), out);
    out[DIGITS] = key_id;
    out[DIGITS + 1] = '\0';
}

/* Removes the last '-' and what follows it, which goes to *ret. */
static int take_last(struct str *s, struct str *ret)
{
    for (size_t i = s->n; i > 0; i--)
        if (s->p[i - 1] == '-') {
            *ret = str_skip(*s, i);
            s->n = i - 1;
            return 0;
        }
    return -EINVAL;
}

static bool is_signature(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_digit(s.p[i]) && (s.p[i] < 'a' || s.p[i] > (i < DIGITS ? 'f' : 'z')))
            return false;
    return s.n == SIGNATURE_BYTES;
}

int api_route_parse(struct str token, struct api_route *ret)
{
    struct str signature, expires, port;
    struct api_route route;

    if (token.n > API_ROUTE_TOKEN_BYTES || take_last(&token, &signature) < 0 ||
        take_last(&token, &expires) < 0 || take_last(&token, &port) < 0 || token.n == 0)
        return -EINVAL;
    if (!is_signature(signature) || base36_decode(expires, &route.expires_s) < 0)
        return -EINVAL;
    if (str_starts(port, STR("0")) || str_to_u16(port, &route.port) < 0)
        return -EINVAL;
    route.sandbox_id = token;
    route.signature = signature;
    route.key_id = signature.p[DIGITS];
    *ret = route;
    return 0;
}

int api_route_verify(struct str secret, char key_id, struct str token, uint64_t now_s,
                     struct api_route *ret)
{
    char expected[API_SIGNATURE_MAX];
    struct api_route route;
    int r = api_route_parse(token, &route);

    if (r < 0)
        return r;
    if (route.key_id != key_id)
        return -ENOKEY;
    api_route_sign(secret, key_id, route.sandbox_id, route.port, route.expires_s, expected);
    if (!str_eq_secret(route.signature, str_make(expected, SIGNATURE_BYTES)))
        return -EACCES;
    if (now_s > route.expires_s)
        return -ETIME;
    *ret = route;
    return 0;
}
