/* str.h - borrowed strings: a pointer and a length, passed by value, not NUL-terminated.
 *
 * Functions here allocate nothing and do not change their input. Only ASCII rules, no locale. */
#pragma once

#include "base/defs.h"
#include <limits.h>
#include <stdbool.h>
#include <string.h>

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_INIT(literal)                                                                          \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    } /* for static initialisers */
#define STR_NONE ((struct str){NULL, 0})

/* For printf: "%.*s", STR_ARG(s). */
#define STR_ARG(s) str_arg_n(s), (s).p

/* A precision past INT_MAX would become negative, which printf treats as absent. */
static inline int str_arg_n(struct str s)
{
    return s.n > INT_MAX ? INT_MAX : (int)s.n;
}

static inline struct str str_of(const char *cstr)
{
    return (struct str){cstr, cstr ? strlen(cstr) : 0};
}

static inline struct str str_make(const char *p, size_t n)
{
    return (struct str){p, n};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* Drops the first n bytes; n must not exceed s.n. */
static inline struct str str_skip(struct str s, size_t n)
{
    return (struct str){n ? s.p + n : s.p, s.n - n}; /* adding 0 to NULL is undefined */
}

bool str_eq_nocase(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
int str_cmp(struct str a, struct str b); /* byte order; a prefix sorts first */

/* Compares secrets: the time depends only on the lengths. */
bool str_eq_secret(struct str a, struct str b);
/* Whether `s` contains `secret`. A secret shorter than STR_SECRET_WORD_BYTES may occur by chance:
 * it counts only without a letter, digit, '-' or '_' next to it. Of a secret longer than
 * STR_SECRET_TAIL_BYTES only that many last bytes are compared, so that the work is bounded by the
 * length of `s`. The time depends only on `s` and the length of the secret. False for an empty
 * secret. */
enum { STR_SECRET_WORD_BYTES = 8, STR_SECRET_TAIL_BYTES = 32 };
bool str_holds_secret(struct str s, struct str secret);

/* Index of the first `c`, or s.n. */
size_t str_find(struct str s, char c);
/* Whether `s` contains a NUL, so that as a C string it would be cut. */
bool str_has_nul(struct str s);
/* Index of the first occurrence of `needle`, or s.n. An empty needle is found at 0. */
size_t str_find_str(struct str s, struct str needle);

/* Splits: *ret_head is the part before the first `sep`; *s becomes the part after it, or STR_NONE
 * after the last piece. Returns false once *s is STR_NONE, for use in a while loop over a copy of
 * the string. "a,,b" yields "a", "", "b"; "a," yields "a", "". */
bool str_cut(struct str *s, char sep, struct str *ret_head);

struct str str_trim(struct str s); /* removes spaces and tabs at both ends */

/* Copies into a fixed array as a C string. -ENAMETOOLONG when it does not fit, -EINVAL when `s`
 * contains a NUL; `dst` is then "". */
int str_copy(char *dst, size_t dst_size, struct str s) MUST_USE;

/* Decimal numbers: no white space, no plus sign, nothing after the digits. -EINVAL for other text,
 * -ERANGE for a number that does not fit or is outside [min, max]. */
int str_to_u64(struct str s, uint64_t *ret);
int str_to_i64(struct str s, int64_t *ret);
int str_to_u64_range(struct str s, uint64_t min, uint64_t max, uint64_t *ret);
int str_to_i64_range(struct str s, int64_t min, int64_t max, int64_t *ret);
int str_to_u16(struct str s, uint16_t *ret);
int str_to_u32(struct str s, uint32_t *ret);
int str_to_hex_u64(struct str s, uint64_t *ret); /* hexadecimal digits only, no 0x */

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Value of a hexadecimal digit, or -1. */
static inline int ascii_hex_value(char c)
{
    if (ascii_is_digit(c))
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
