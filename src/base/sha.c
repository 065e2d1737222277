/* sha.c - FIPS 180-4 in portable C, and faster where the processor can. Both hashes pad the same
 * way and differ in their rounds. */
#include "base/sha.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "base/sha_internal.h"

enum { BLOCK = SHA256_BLOCK_BYTES };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
const uint32_t sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t rotate_left(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static void sha256_expand(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3;
        uint32_t s1 = rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10;

        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void sha256_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    sha256_expand(block, w);
    for (int i = 0; i < 64; i++) {
        uint32_t big1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t big0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t1 = h + big1 + ((e & f) ^ (~e & g)) + sha256_k[i] + w[i];
        uint32_t t2 = big0 + ((a & b) ^ (a & c) ^ (b & c));

        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

static void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t count)
{
    static atomic_int known; /* 0 = not asked yet, 1 = portable, 2 = by instructions */
    int way = atomic_load_explicit(&known, memory_order_relaxed);

    if (way == 0) {
        way = sha256_x86_present() ? 2 : 1;
        atomic_store_explicit(&known, way, memory_order_relaxed);
    }
    if (way == 2) {
        sha256_x86_blocks(state, p, count);
        return;
    }
    for (; count > 0; count--, p += BLOCK)
        sha256_block(state, p);
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                  0x1f83d9ab, 0x5be0cd19},
    };
}

void sha256_add(struct sha256 *s, struct str data)
{
    size_t waiting = s->bytes % BLOCK;

    if (data.n == 0)
        return;
    s->bytes += data.n;
    if (waiting) {
        size_t n = min_size(BLOCK - waiting, data.n);

        memcpy(s->block + waiting, data.p, n);
        data = str_skip(data, n);
        if (waiting + n < BLOCK)
            return;
        sha256_blocks(s->state, s->block, 1);
    }
    sha256_blocks(s->state, (const uint8_t *)data.p, data.n / BLOCK);
    data = str_skip(data, data.n - data.n % BLOCK);
    if (data.n)
        memcpy(s->block, data.p, data.n);
}

/* Writes the end of a message for both hashes: the pending bytes, a one bit, zeros, and the length
 * in bits. Returns the number of blocks, one or two. */
static size_t sha_pad(uint8_t tail[2 * BLOCK], const uint8_t *waiting, uint64_t bytes)
{
    size_t n = bytes % BLOCK;
    size_t blocks = n + 1 + 8 <= BLOCK ? 1 : 2;
    uint64_t bits = bytes * 8;

    memset(tail, 0, 2 * BLOCK);
    if (n)
        memcpy(tail, waiting, n);
    tail[n] = 0x80;
    store_be32(tail + blocks * BLOCK - 8, (uint32_t)(bits >> 32));
    store_be32(tail + blocks * BLOCK - 4, (uint32_t)bits);
    return blocks;
}

void sha256_end(struct sha256 *s, uint8_t ret_digest[SHA256_BYTES])
{
    uint8_t tail[2 * BLOCK];
    size_t blocks = sha_pad(tail, s->block, s->bytes);

    for (size_t i = 0; i < blocks; i++)
        sha256_block(s->state, tail + i * BLOCK);
    for (int i = 0; i < 8; i++)
        store_be32(ret_digest + 4 * i, s->state[i]);
    mem_wipe(s, sizeof(*s));
    mem_wipe(tail, sizeof(tail));
}

void sha256_of(struct str data, uint8_t ret_digest[SHA256_BYTES])
{
    struct sha256 s;

    sha256_init(&s);
    sha256_add(&s, data);
    sha256_end(&s, ret_digest);
}

void hmac_sha256_init(struct hmac_sha256 *h, struct str key)
{
    uint8_t pad[BLOCK] = {0};

    if (key.n > BLOCK)
        sha256_of(key, pad);
    else if (key.n)
        memcpy(pad, key.p, key.n);
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36;
    sha256_init(&h->inner);
    sha256_add(&h->inner, str_make((const char *)pad, BLOCK));
    for (int i = 0; i < BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    sha256_init(&h->outer);
    sha256_add(&h->outer, str_make((const char *)pad, BLOCK));
    mem_wipe(pad, sizeof(pad));
}

void hmac_sha256_add(struct hmac_sha256 *h, struct str data)
{
    sha256_add(&h->inner, data);
}

void hmac_sha256_end(struct hmac_sha256 *h, uint8_t ret_mac[SHA256_BYTES])
{
    uint8_t digest[SHA256_BYTES];

    sha256_end(&h->inner, digest);
    sha256_add(&h->outer, str_make((const char *)digest, sizeof(digest)));
    sha256_end(&h->outer, ret_mac);
    mem_wipe(digest, sizeof(digest));
}

void hmac_sha256_of(struct str key, struct str data, uint8_t ret_mac[SHA256_BYTES])
{
    struct hmac_sha256 h;

    hmac_sha256_init(&h, key);
    hmac_sha256_add(&h, data);
    hmac_sha256_end(&h, ret_mac);
}

/* The function and the constant for each of SHA-1's four groups of twenty rounds. */
static uint32_t sha1_mix(int round, uint32_t b, uint32_t c, uint32_t d)
{
    switch (round / 20) {
    case 0:
        return ((b & c) | (~b & d)) + 0x5a827999;
    case 1:
        return (b ^ c ^ d) + 0x6ed9eba1;
    case 2:
        return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default:
        return (b ^ c ^ d) + 0xca62c1d6;
    }
}

static void sha1_block(uint32_t state[5], const uint8_t *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    uint32_t w[80];

    for (int i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (int i = 16; i < 80; i++)
        w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (int i = 0; i < 80; i++) {
        uint32_t t = rotate_left(a, 5) + sha1_mix(i, b, c, d) + e + w[i];

        e = d;
        d = c;
        c = rotate_left(b, 30);
        b = a;
        a = t;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_of(struct str data, uint8_t ret_digest[SHA1_BYTES])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t tail[2 * BLOCK];
    uint64_t bytes = data.n;
    size_t blocks;

    for (; data.n >= BLOCK; data = str_skip(data, BLOCK))
        sha1_block(state, (const uint8_t *)data.p);
    blocks = sha_pad(tail, (const uint8_t *)data.p, bytes);
    for (size_t i = 0; i < blocks; i++)
        sha1_block(state, tail + i * BLOCK);
    for (int i = 0; i < 5; i++)
        store_be32(ret_digest + 4 * i, state[i]);
}
