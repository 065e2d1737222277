#include "base/codec.h"

#include <errno.h>

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

size_t hex_encode(struct str data, char *out)
{
    for (size_t i = 0; i < data.n; i++) {
        unsigned char byte = (unsigned char)data.p[i];

        *out++ = digits[byte >> 4];
        *out++ = digits[byte & 15];
    }
    *out = '\0';
    return 2 * data.n;
}

int hex_decode(struct str text, void *out, size_t room, size_t *ret_n)
{
    unsigned char *bytes = out;
    size_t n = text.n / 2;

    if (text.n % 2)
        return -EINVAL;
    if (n > room)
        return -ENOSPC;
    for (size_t i = 0; i < n; i++) {
        int high = ascii_hex_value(text.p[2 * i]), low = ascii_hex_value(text.p[2 * i + 1]);

        if (high < 0 || low < 0)
            return -EINVAL;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    *ret_n = n;
    return 0;
}

static const char *base64_alphabet(enum base64_form form)
{
    return form & BASE64_URL ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                             : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}

size_t base64_encode(struct str data, enum base64_form form, char *out)
{
    const char *alphabet = base64_alphabet(form);
    const unsigned char *in = (const unsigned char *)data.p;
    char *start = out;

    for (size_t i = 0; i < data.n; i += 3) {
        size_t have = min_size(data.n - i, 3);
        uint32_t bits = (uint32_t)in[i] << 16;

        bits |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        bits |= have > 2 ? in[i + 2] : 0;
        for (size_t k = 0; k <= have; k++)
            *out++ = alphabet[bits >> (18 - 6 * k) & 63];
        for (size_t k = have; k < 3 && !(form & BASE64_NO_PAD); k++)
            *out++ = '=';
    }
    *out = '\0';
    return (size_t)(out - start);
}

static int base64_value(char c, enum base64_form form)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (ascii_is_digit(c))
        return c - '0' + 52;
    if (c == (form & BASE64_URL ? '-' : '+'))
        return 62;
    return c == (form & BASE64_URL ? '_' : '/') ? 63 : -1;
}

/* Removes the padding and checks that it had the right length. */
static int base64_unpad(struct str *text, enum base64_form form)
{
    size_t pad = 0;

    if (form & BASE64_NO_PAD)
        return text->n % 4 == 1 ? -EINVAL : 0;
    if (text->n % 4)
        return -EINVAL;
    while (pad < 2 && text->n > 0 && text->p[text->n - 1] == '=') {
        text->n--;
        pad++;
    }
    return 0;
}

int base64_decode(struct str text, enum base64_form form, void *out, size_t room, size_t *ret_n)
{
    unsigned char *bytes = out;
    uint32_t bits = 0;
    unsigned held = 0; /* bits not yet written, fewer than eight after each iteration */
    size_t n = 0;

    if (base64_unpad(&text, form) < 0)
        return -EINVAL;
    if (text.n / 4 * 3 + text.n % 4 * 3 / 4 > room)
        return -ENOSPC;
    for (size_t i = 0; i < text.n; i++) {
        int v = base64_value(text.p[i], form);

        if (v < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)v;
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        bytes[n++] = (unsigned char)(bits >> held);
        bits &= (1U << held) - 1;
    }
    if (bits != 0)
        return -EINVAL; /* another encoding of the same bytes */
    *ret_n = n;
    return 0;
}

size_t base36_encode(uint64_t v, char out[BASE36_TEXT_MAX])
{
    char backwards[BASE36_TEXT_MAX];
    size_t n = 0;

    do {
        backwards[n++] = digits[v % 36];
        v /= 36;
    } while (v > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = backwards[n - 1 - i];
    out[n] = '\0';
    return n;
}

int base36_decode(struct str text, uint64_t *ret)
{
    uint64_t v = 0;

    if (text.n == 0 || (text.n > 1 && text.p[0] == '0'))
        return -EINVAL;
    for (size_t i = 0; i < text.n; i++)
        if (!ascii_is_digit(text.p[i]) && !(text.p[i] >= 'a' && text.p[i] <= 'z'))
            return -EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        uint64_t digit = (uint64_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);

        if (__builtin_mul_overflow(v, 36, &v) || __builtin_add_overflow(v, digit, &v))
            return -ERANGE;
    }
    *ret = v;
    return 0;
}
