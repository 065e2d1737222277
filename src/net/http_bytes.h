/* http_bytes.h - byte classes of HTTP messages, shared by the HTTP parsers and writers. */
#pragma once

#include "base/defs.h"
#include <endian.h>
#include <stdbool.h>
#include <string.h>

enum http_byte {
    HTTP_BYTE_TOKEN = 1 << 0,  /* methods, header names */
    HTTP_BYTE_VALUE = 1 << 1,  /* header values: tab, space, visible, 0x80-0xff */
    HTTP_BYTE_TARGET = 1 << 2, /* request targets: visible ASCII except '#' */
    HTTP_BYTE_HOST = 1 << 3,   /* names and IPv4 */
    HTTP_BYTE_IP6 = 1 << 4,    /* IPv6, between the brackets */
};

extern const uint8_t http_byte_classes[256];

static inline bool http_byte_is(char c, enum http_byte class)
{
    return http_byte_classes[(unsigned char)c] & class;
}

/* Returns the first byte at or after `p` that a header value must not contain, or `end`. Checks
 * eight bytes at a time: x - 0x20 sets the top bit of exactly the bytes below 0x20 (bytes that had
 * it set are masked out), and the lowest such bit is always correct. */
static inline const char *http_skip_value(const char *p, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;

    while (end - p >= 8) {
        uint64_t x, del, hit;

        memcpy(&x, p, sizeof(x));
        x = le64toh(x);
        del = x ^ ones * 0x7f;
        hit = ((x - ones * 0x20) & ~x) | ((del - ones) & ~del);
        hit &= tops;
        if (!hit) {
            p += 8;
            continue;
        }
        p += __builtin_ctzll(hit) >> 3;
        if (*p != '\t')
            return p;
        p++;
    }
    while (p < end && http_byte_is(*p, HTTP_BYTE_VALUE))
        p++;
    return p;
}
