/* codec.h - bytes as text: hexadecimal, base64, base 36.
 *
 * Nothing allocates. Encoders write a NUL after the text and return its length; macros compute the
 * room they need. Decoders are strict: they accept exactly one text for given bytes and return
 * -EINVAL for any other, -ENOSPC when `room` is too small. On failure *ret_n is unchanged and `out`
 * may be partly written. */
#pragma once

#include "base/str.h"

#define HEX_TEXT_MAX(n)    (2 * (n) + 1)
#define BASE64_TEXT_MAX(n) (((n) + 2) / 3 * 4 + 1)
#define BASE64_DATA_MAX(n) (((n) + 3) / 4 * 3)
enum { BASE36_TEXT_MAX = sizeof("3w5e11264sgsf") };

size_t hex_encode(struct str data, char *out);                                   /* lower case */
int hex_decode(struct str text, void *out, size_t room, size_t *ret_n) MUST_USE; /* either case */

enum base64_form {
    BASE64_STD = 0,    /* + and /, padded */
    BASE64_URL = 1,    /* - and _ in place of + and / */
    BASE64_NO_PAD = 2, /* no = at the end; decoding refuses one */
};

size_t base64_encode(struct str data, enum base64_form form, char *out);
/* Refuses characters outside the alphabet, wrong or missing padding, and set bits after the last
 * byte. */
int base64_decode(struct str text, enum base64_form form, void *out, size_t room,
                  size_t *ret_n) MUST_USE;

size_t base36_encode(uint64_t v, char out[BASE36_TEXT_MAX]); /* 0-9a-z, no leading zeros */
/* Refuses upper case and leading zeros; -ERANGE past 64 bits. */
int base36_decode(struct str text, uint64_t *ret) MUST_USE;
