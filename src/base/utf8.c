#include "base/utf8.h"

#include <assert.h>
#include <errno.h>

/* Bytes before the first one that is not ASCII. */
static size_t utf8_ascii_run(struct str s)
{
    size_t i = 0;

    for (uint64_t word; s.n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, s.p + i, sizeof(word));
        if (word & 0x8080808080808080u)
            break;
    }
    while (i < s.n && (unsigned char)s.p[i] < 0x80)
        i++;
    return i;
}

/* Takes the first byte of a character that is not ASCII. The bounds of the second byte exclude
 * overlong forms (e0, f0), surrogates (ed) and codes above U+10FFFF (f4). */
static bool utf8_start(struct utf8_state *s, unsigned char c)
{
    if (c < 0xc2 || c > 0xf4)
        return false;
    s->missing = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    s->low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    s->high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    return true;
}

static bool utf8_continue(struct utf8_state *s, unsigned char c)
{
    if (c < s->low || c > s->high)
        return false;
    s->missing--;
    s->low = 0x80;
    s->high = 0xbf;
    return true;
}

int utf8_feed(struct utf8_state *s, struct str chunk)
{
    for (size_t i = 0; i < chunk.n && !s->bad; i++) {
        if (s->missing) {
            s->bad = !utf8_continue(s, (unsigned char)chunk.p[i]);
            continue;
        }
        i += utf8_ascii_run(str_skip(chunk, i));
        if (i < chunk.n)
            s->bad = !utf8_start(s, (unsigned char)chunk.p[i]);
    }
    return s->bad ? -EILSEQ : 0;
}

/* Length of the valid non-ASCII character at the start of s, or 0. */
static size_t utf8_multibyte(struct str s)
{
    struct utf8_state state = {0};
    size_t i = 1;

    if (!utf8_start(&state, (unsigned char)s.p[0]))
        return 0;
    for (; state.missing; i++)
        if (i == s.n || !utf8_continue(&state, (unsigned char)s.p[i]))
            return 0;
    return i;
}

size_t utf8_prefix(struct str s)
{
    size_t i = 0;

    for (;;) {
        size_t n;

        if (i < s.n)
            i += utf8_ascii_run(str_skip(s, i));
        if (i == s.n)
            return i;
        n = utf8_multibyte(str_skip(s, i));
        if (n == 0)
            return i;
        i += n;
    }
}

int utf8_decode(struct str s, uint32_t *ret_code)
{
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code;
    size_t n;

    assert(s.n > 0);
    n = (unsigned char)s.p[0] < 0x80 ? 1 : utf8_multibyte(s);
    if (n == 0)
        return -EILSEQ;
    code = (unsigned char)s.p[0] & lead_mask[n];
    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)s.p[i] & 0x3f);
    *ret_code = code;
    return (int)n;
}

size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX])
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    assert(code <= UTF8_CODE_MAX && (code < 0xd800 || code > 0xdfff));
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

size_t utf8_cut_tail(struct str s)
{
    for (size_t n = 1; n < UTF8_BYTES_MAX && n <= s.n; n++) {
        struct utf8_state state = {0};
        struct str tail = str_skip(s, s.n - n);

        if ((tail.p[0] & 0xc0) == 0x80)
            continue; /* not the first byte of a character */
        return utf8_feed(&state, tail) == 0 && state.missing > 0 ? n : 0;
    }
    return 0;
}
