/* utf8.h - UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include "base/str.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

enum { UTF8_BYTES_MAX = 4, UTF8_CODE_MAX = 0x10ffff };

/* Length of the longest prefix made of whole, valid characters; s.n when all of it is valid. */
size_t utf8_prefix(struct str s);

static inline bool utf8_valid(struct str s)
{
    return utf8_prefix(s) == s.n;
}

/* Length of a character that `s` ends in the middle of, as far as it is there; 0 when there is
 * none. */
size_t utf8_cut_tail(struct str s);

/* Validates text that arrives in pieces. A zeroed state stands before the first byte. */
struct utf8_state {
    uint8_t missing;   /* continuation bytes the current character still needs */
    uint8_t low, high; /* what the next of them may be */
    bool bad;          /* an invalid byte was seen; stays so */
};

/* -EILSEQ at the first byte that no valid text could continue with, and ever after. */
int utf8_feed(struct utf8_state *s, struct str chunk) MUST_USE;

/* True when the text so far is valid and ends with a whole character. */
static inline bool utf8_at_boundary(const struct utf8_state *s)
{
    return !s->bad && s->missing == 0;
}

/* Decodes the first character of a non-empty string. Returns its bytes, 1 to 4, or -EILSEQ when
 * they are invalid or cut short. */
int utf8_decode(struct str s, uint32_t *ret_code);

/* Writes the character and returns its bytes. `code` must be a scalar value: no surrogate, at most
 * UTF8_CODE_MAX. */
size_t utf8_encode(uint32_t code, char out[UTF8_BYTES_MAX]);
