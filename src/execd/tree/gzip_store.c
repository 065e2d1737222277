#include "execd/tree/gzip_store.h"

enum { BLOCK_BYTES_MAX = 65535 };

/* The CRC of RFC 1952, section 8, by half bytes: a table of 16 entries instead of 256. */
static uint32_t crc_add(uint32_t crc, struct str data)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };

    crc = ~crc;
    for (size_t i = 0; i < data.n; i++) {
        crc ^= (uint8_t)data.p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static int add_le(struct buf *out, uint32_t value, size_t bytes)
{
    char text[4];

    for (size_t i = 0; i < bytes; i++)
        text[i] = (char)(value >> (8 * i));
    return buf_add(out, str_make(text, bytes));
}

/* A stored block of RFC 1951, section 3.2.4: its length, and the length inverted. */
static int add_block(struct buf *out, struct str data, bool last)
{
    int r = buf_add_char(out, last ? 1 : 0);

    if (r >= 0)
        r = add_le(out, (uint32_t)data.n, 2);
    if (r >= 0)
        r = add_le(out, ~(uint32_t)data.n, 2);
    return r < 0 ? r : buf_add(out, data);
}

int gzip_store_begin(struct gzip_store *g, struct buf *out)
{
    static const char head[10] = {0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, (char)255};

    *g = (struct gzip_store){0};
    return buf_add(out, str_make(head, sizeof(head)));
}

int gzip_store_add(struct gzip_store *g, struct str data, struct buf *out)
{
    int r = 0;

    g->crc = crc_add(g->crc, data);
    g->bytes += (uint32_t)data.n; /* modulo 2^32, by the format */
    while (r >= 0 && data.n > 0) {
        size_t n = min_size(data.n, BLOCK_BYTES_MAX);

        r = add_block(out, str_make(data.p, n), false);
        data = str_skip(data, n);
    }
    return r;
}

int gzip_store_end(struct gzip_store *g, struct buf *out)
{
    int r = add_block(out, STR(""), true);

    if (r >= 0)
        r = add_le(out, g->crc, 4);
    return r < 0 ? r : add_le(out, g->bytes, 4);
}
