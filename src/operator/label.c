#include "operator/label.h"

#include "base/codec.h"
#include "base/sha.h"
#include "operator/names.h"

enum { HASH_BYTES = 4 };

struct str label_fit(struct arena *a, struct str name, struct str suffix)
{
    uint8_t digest[SHA256_BYTES];
    char hex[HEX_TEXT_MAX(HASH_BYTES)];
    size_t keep;

    if (name.n + suffix.n <= LABEL_VALUE_MAX)
        return str_of(arena_printf(a, "%.*s%.*s", STR_ARG(name), STR_ARG(suffix)));
    sha256_of(name, digest);
    (void)hex_encode(str_make((const char *)digest, HASH_BYTES), hex);
    keep = LABEL_VALUE_MAX - suffix.n - (HEX_TEXT_MAX(HASH_BYTES) - 1) - 1;
    while (keep > 0 && (name.p[keep - 1] == '-' || name.p[keep - 1] == '.'))
        keep--;
    return str_of(arena_printf(a, "%.*s-%s%.*s", (int)keep, name.p, hex, STR_ARG(suffix)));
}
