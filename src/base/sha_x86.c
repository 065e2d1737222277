/* sha_x86.c - SHA-256 blocks with the instructions that x86 processors have for it: eight times as
 * fast as portable C, and images are hashed more than once. */
#include "base/sha_internal.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

enum {
    LEAF_FEATURES = 7,
    EBX_SHA = 1 << 29,
    LEAF_BASE = 1,
    ECX_SSSE3 = 1 << 9,
    ECX_SSE41 = 1 << 19,
};

bool sha256_x86_present(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(LEAF_BASE, &a, &b, &c, &d) || !(c & ECX_SSSE3) || !(c & ECX_SSE41))
        return false;
    return __get_cpuid_count(LEAF_FEATURES, 0, &a, &b, &c, &d) && (b & EBX_SHA);
}

#define SHA_TARGET __attribute__((target("sha,sse4.1,ssse3")))

/* The four words of the schedule that follow w0..w3. */
SHA_TARGET static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));

    return _mm_sha256msg2_epu32(sum, w3);
}

SHA_TARGET void sha256_x86_blocks(uint32_t state[8], const uint8_t *p, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)state);
    __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(state + 4));
    __m128i mixed = _mm_shuffle_epi32(low, 0xb1); /* the order that the instructions want: */
    __m128i abef, cdgh;

    high = _mm_shuffle_epi32(high, 0x1b);
    abef = _mm_alignr_epi8(mixed, high, 8);
    cdgh = _mm_blend_epi16(high, mixed, 0xf0);
    for (; count > 0; count--, p += SHA256_BLOCK_BYTES) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];

        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)),
                                    swap);
        for (int i = 0; i < 16; i++) { /* four rounds each */
            __m128i k = _mm_loadu_si128((const __m128i *)(const void *)(sha256_k + 4 * i));
            __m128i sum = _mm_add_epi32(w[i % 4], k);

            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            if (i < 12)
                w[i % 4] = next_words(w[i % 4], w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    mixed = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    low = _mm_blend_epi16(mixed, high, 0xf0);
    high = _mm_alignr_epi8(high, mixed, 8);
    _mm_storeu_si128((__m128i *)(void *)state, low);
    _mm_storeu_si128((__m128i *)(void *)(state + 4), high);
}

#else

bool sha256_x86_present(void)
{
    return false;
}

void sha256_x86_blocks(uint32_t state[8], const uint8_t *p, size_t count)
{
    (void)state;
    (void)p;
    (void)count;
}

#endif
