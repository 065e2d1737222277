#include "base/str.h"

#include <errno.h>

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
            return false;
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_make(s.p, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n && str_eq(str_skip(s, s.n - suffix.n), suffix);
}

int str_cmp(struct str a, struct str b)
{
    size_t n = min_size(a.n, b.n);
    int r = n ? memcmp(a.p, b.p, n) : 0;

    return r ? r : (a.n > b.n) - (a.n < b.n);
}

bool str_eq_secret(struct str a, struct str b)
{
    unsigned char differ = a.n != b.n;

    for (size_t i = 0; i < a.n; i++)
        differ |= (unsigned char)(a.p[i] ^ (b.n ? b.p[i % b.n] : 1));
    return !differ;
}

static uint64_t load_word(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Not 0 when the bytes at `p` differ. Compares eight at a time; the last eight may overlap. */
static uint64_t secret_differs(const char *p, struct str secret)
{
    uint64_t differ = 0;
    size_t i;

    if (secret.n < sizeof(differ)) {
        for (i = 0; i < secret.n; i++)
            differ |= (unsigned char)(p[i] ^ secret.p[i]);
        return differ;
    }
    for (i = 0; i < secret.n - sizeof(differ); i += sizeof(differ))
        differ |= load_word(p + i) ^ load_word(secret.p + i);
    i = secret.n - sizeof(differ);
    return differ | (load_word(p + i) ^ load_word(secret.p + i));
}

static bool is_word_char(char c)
{
    return ascii_is_alpha(c) || ascii_is_digit(c) || c == '-' || c == '_';
}

/* Whether no word character is next to the n bytes at `at`. */
static bool is_word(struct str s, size_t at, size_t n)
{
    return (at == 0 || !is_word_char(s.p[at - 1])) && (at + n == s.n || !is_word_char(s.p[at + n]));
}

bool str_holds_secret(struct str s, struct str secret)
{
    bool found = false;

    if (secret.n == 0)
        return false;
    if (secret.n > STR_SECRET_TAIL_BYTES)
        secret = str_skip(secret, secret.n - STR_SECRET_TAIL_BYTES);
    for (size_t at = 0; at + secret.n <= s.n; at++) /* no early exit: constant time */
        if (secret.n >= STR_SECRET_WORD_BYTES || is_word(s, at, secret.n))
            found |= !secret_differs(s.p + at, secret);
    return found;
}

size_t str_find(struct str s, char c)
{
    const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;

    return hit ? (size_t)(hit - s.p) : s.n;
}

bool str_has_nul(struct str s)
{
    return str_find(s, '\0') < s.n;
}

size_t str_find_str(struct str s, struct str needle)
{
    const char *hit;

    if (needle.n == 0)
        return 0;
    hit = s.n ? memmem(s.p, s.n, needle.p, needle.n) : NULL;
    return hit ? (size_t)(hit - s.p) : s.n;
}

bool str_cut(struct str *s, char sep, struct str *ret_head)
{
    size_t at;

    if (!s->p)
        return false;
    at = str_find(*s, sep);
    *ret_head = str_make(s->p, at);
    *s = at == s->n ? STR_NONE : str_skip(*s, at + 1);
    return true;
}

struct str str_trim(struct str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = str_skip(s, 1);
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

int str_copy(char *dst, size_t dst_size, struct str s)
{
    dst[0] = '\0';
    if (s.n >= dst_size)
        return -ENAMETOOLONG;
    if (str_find(s, '\0') != s.n)
        return -EINVAL;
    if (s.n)
        memcpy(dst, s.p, s.n);
    dst[s.n] = '\0';
    return 0;
}

int str_to_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.n; i++)
        if (!ascii_is_digit(s.p[i]))
            return -EINVAL;
    for (size_t i = 0; i < s.n; i++)
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return -ERANGE;
    *ret = v;
    return 0;
}

int str_to_i64(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t magnitude;
    int r = str_to_u64(negative ? str_skip(s, 1) : s, &magnitude);

    if (r < 0)
        return r;
    if (magnitude > limit)
        return -ERANGE;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

int str_to_u64_range(struct str s, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    int r = str_to_u64(s, &v);

    if (r < 0)
        return r;
    if (v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int str_to_i64_range(struct str s, int64_t min, int64_t max, int64_t *ret)
{
    int64_t v;
    int r = str_to_i64(s, &v);

    if (r < 0)
        return r;
    if (v < min || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

int str_to_u16(struct str s, uint16_t *ret)
{
    uint64_t v;
    int r = str_to_u64_range(s, 0, UINT16_MAX, &v);

    if (r == 0)
        *ret = (uint16_t)v;
    return r;
}

int str_to_u32(struct str s, uint32_t *ret)
{
    uint64_t v;
    int r = str_to_u64_range(s, 0, UINT32_MAX, &v);

    if (r == 0)
        *ret = (uint32_t)v;
    return r;
}

int str_to_hex_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.n; i++)
        if (ascii_hex_value(s.p[i]) < 0)
            return -EINVAL;
    for (size_t i = 0; i < s.n; i++) {
        if (v >> 60)
            return -ERANGE;
        v = v << 4 | (uint64_t)ascii_hex_value(s.p[i]);
    }
    *ret = v;
    return 0;
}
