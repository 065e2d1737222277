/* utf8.h - UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
#pragma once

#include "base/str.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum { UTF8_BYTES_MAX = 4, UTF8_CODE_MAX = 0x10ffff };

/* Length of the longest prefix of complete, valid characters; s.n when `s` is valid. */
size_t utf8_prefix(struct str s);

static inline bool utf8_valid(struct str s)
{
    return utf8_prefix(s) == s.n;
}

/* Bytes of an incomplete character at the end of `s`; 0 when there is none. */
size_t utf8_cut_tail(struct str s);

/* Validates text that arrives in pieces. Initially all zero. */
struct utf8_state {
    uint8_t missing;   /* continuation bytes the current character still needs */
    uint8_t low, high; /* range of the next continuation byte */
    bool bad;          /* an invalid byte was seen; never reset */
};

/* -EILSEQ at the first invalid byte and for every later call. */
int utf8_feed(struct utf8_state *s, struct str chunk) MUST_USE;

/* True when the text so far is valid and ends with a whole character. */
static inline bool utf8_at_boundary(const struct utf8_state *s)
{
    return !s->bad && s->missing == 0;
}

/* Decodes the first character of a non-empty string. Returns its length in bytes, 1 to 4, or
 * -EILSEQ when it is invalid or incomplete. */
int utf8_decode(struct str s, uint32_t *ret_code);

/* Writes the character and returns its length in bytes. `code` must be a scalar value: not a
 * surrogate, at most UTF8_CODE_MAX. */
size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX]);
