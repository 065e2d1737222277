#include "base/id.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/mem.h"

static const char id_digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

void id_random_bytes(void *p, size_t n)
{
    unsigned char *at = p;

    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            fprintf(stderr, "the kernel gives no random bytes: %s\n", strerror(errno));
            abort();
        }
        at += got;
        n -= (size_t)got;
    }
}

static char *id_put_hex(char *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        *out++ = id_digits[bytes[i] >> 4];
        *out++ = id_digits[bytes[i] & 15];
    }
    *out = '\0';
    return out;
}

static void id_uuid_bytes(uint8_t bytes[16])
{
    id_random_bytes(bytes, 16);
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40); /* version 4 */
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80); /* the RFC's variant */
}

void id_uuid(char out[ID_UUID_MAX])
{
    static const size_t groups[] = {4, 2, 2, 2, 6}; /* bytes between the dashes */
    uint8_t bytes[16];
    size_t at = 0;

    id_uuid_bytes(bytes);
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (i > 0)
            *out++ = '-';
        out = id_put_hex(out, bytes + at, groups[i]);
        at += groups[i];
    }
}

void id_short(char *out, size_t len)
{
    /* 252 is the largest multiple of 36 in a byte; larger values would favour the low digits. */
    enum { BASE = 36, FAIR = 252 };
    uint8_t pool[ID_SHORT_LEN_MAX];
    size_t done = 0;

    assert(len <= ID_SHORT_LEN_MAX);
    while (done < len) {
        size_t want = len - done;

        id_random_bytes(pool, want);
        for (size_t i = 0; i < want; i++)
            if (pool[i] < FAIR)
                out[done++] = id_digits[pool[i] % BASE];
    }
    out[len] = '\0';
}

void id_request(char out[ID_REQUEST_MAX])
{
    uint8_t bytes[16];

    id_uuid_bytes(bytes);
    id_put_hex(out, bytes, sizeof(bytes));
}

void id_token(char out[ID_TOKEN_MAX])
{
    uint8_t bytes[24];

    id_random_bytes(bytes, sizeof(bytes));
    base64_encode(str_make((const char *)bytes, sizeof(bytes)), BASE64_URL | BASE64_NO_PAD, out);
    mem_wipe(bytes, sizeof(bytes));
}
