#include "base/str.h"

#include <limits.h>

#include "test.h"

TEST(str, compares)
{
    CHECK(str_eq(STR("a"), STR("a")) && !str_eq(STR("a"), STR("b")) &&
          !str_eq(STR("a"), STR("ab")));
    CHECK(str_eq(STR(""), STR_NONE));
    CHECK(str_eq_nocase(STR("Content-Type"), STR("content-tYPE")));
    CHECK(!str_eq_nocase(STR("@"), STR("`"))); /* 0x40 and 0x60: no letters */
    CHECK(!str_eq_nocase(STR("a"), STR("ab")));
    CHECK(str_cmp(STR("a"), STR("b")) < 0);
    CHECK(str_cmp(STR("ab"), STR("a")) > 0);
    CHECK(str_cmp(STR("\xff"), STR("a")) > 0);
    CHECK_EQ(str_cmp(STR_NONE, STR("")), 0);
}

TEST(str, compares_secrets)
{
    CHECK(str_eq_secret(STR("secret"), STR("secret")));
    CHECK(str_eq_secret(STR(""), STR_NONE));
    CHECK(!str_eq_secret(STR("secret"), STR("secreT")));
    CHECK(!str_eq_secret(STR("secret"), STR("secre")));
    CHECK(!str_eq_secret(STR("aa"), STR("a")));
    CHECK(!str_eq_secret(STR("a"), STR("aa")));
    CHECK(!str_eq_secret(STR("a"), STR("")));
    CHECK(!str_eq_secret(STR(""), STR("a")));
    CHECK(!str_eq_secret(STR("\x01"), STR_NONE));
}

TEST(str, finds_secrets_anywhere)
{
    const struct str secret = STR("a-secret-of-21-bytes.");
    char text[64];

    CHECK_EQ(secret.n, 21);
    for (size_t n = STR_SECRET_WORD_BYTES; n <= secret.n; n++)
        for (size_t at = 0; at + n <= 40; at++) {
            struct str s = str_make(text, 40);

            memset(text, 'a', sizeof(text));
            memcpy(text + at, secret.p, n);
            CHECK(str_holds_secret(s, str_make(secret.p, n)));
            for (size_t i = 0; i < n; i++) {
                text[at + i] ^= 1;
                CHECK(!str_holds_secret(s, str_make(secret.p, n)));
                text[at + i] ^= 1;
            }
        }
    CHECK(!str_holds_secret(STR("12345678"), STR("123456789")));
    CHECK(!str_holds_secret(STR_NONE, STR("12345678")));
    CHECK(!str_holds_secret(STR("12345678"), STR("")));
    CHECK(!str_holds_secret(STR_NONE, STR_NONE));
}

TEST(str, finds_long_secrets_by_their_end)
{
    const struct str secret = STR("begin-0123456789abcdef0123456789abcdef");
    const struct str end = STR("0123456789abcdef0123456789abcdef");

    CHECK_EQ(end.n, STR_SECRET_TAIL_BYTES);
    CHECK(str_holds_secret(secret, secret));
    CHECK(str_holds_secret(STR("k=begin-0123456789abcdef0123456789abcdef;"), secret));
    CHECK(str_holds_secret(end, secret));
    CHECK(!str_holds_secret(str_skip(end, 1), secret));
    CHECK(!str_holds_secret(str_make(secret.p, secret.n - 1), secret));
}

TEST(str, finds_short_secrets_as_words)
{
    CHECK(str_holds_secret(STR("a"), STR("a")));
    CHECK(str_holds_secret(STR("k=a"), STR("a")));
    CHECK(str_holds_secret(STR("\"a\""), STR("a")));
    CHECK(str_holds_secret(STR("bar, a;foo"), STR("a")));
    CHECK(str_holds_secret(STR("x:1234567"), STR("1234567")));
    CHECK(!str_holds_secret(STR("x1234567"), STR("1234567")));
    CHECK(!str_holds_secret(STR("1234567_"), STR("1234567")));
    CHECK(!str_holds_secret(STR("ab-a_ a1"), STR("a")));
    CHECK(!str_holds_secret(STR("1234568"), STR("1234567")));
}

TEST(str, looks_at_its_ends)
{
    CHECK(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")));
    CHECK(str_ends(STR("abc"), STR("bc")) && !str_ends(STR("c"), STR("bc")));
    CHECK(str_starts(STR_NONE, STR("")) && str_ends(STR_NONE, STR_NONE));
    CHECK_SPAN(str_trim(STR(" \t a b\t ")), "a b");
    CHECK_SPAN(str_trim(STR(" \t ")), "");
    CHECK_SPAN(str_trim(STR("\na")), "\na"); /* spaces and tabs only */
    CHECK_EQ(str_skip(STR_NONE, 0).n, 0);
}

TEST(str, finds)
{
    CHECK_EQ(str_find(STR("abc"), 'c'), 2);
    CHECK_EQ(str_find(STR("abc"), 'x'), 3);
    CHECK_EQ(str_find(STR("a\0c"), 'c'), 2);
    CHECK_EQ(str_find(STR_NONE, 'x'), 0);
    CHECK_EQ(str_find_str(STR("ababc"), STR("abc")), 2);
    CHECK_EQ(str_find_str(STR("ab"), STR("abc")), 2);
    CHECK_EQ(str_find_str(STR("ab"), STR("")), 0);
    CHECK_EQ(str_find_str(STR_NONE, STR("a")), 0);
    CHECK(str_has_nul(str_make("a\0", 2)));
    CHECK(!str_has_nul(str_make("a\0", 1)) && !str_has_nul(STR_NONE));
}

/* The pieces, each in brackets. */
static const char *pieces(struct str s)
{
    static char out[64];
    struct str piece;
    size_t n = 0;

    out[0] = '\0';
    while (str_cut(&s, ',', &piece))
        n += (size_t)snprintf(out + n, sizeof(out) - n, "[%.*s]", STR_ARG(piece));
    return out;
}

TEST(str, splits_into_every_piece)
{
    CHECK_STR(pieces(STR("a,,b")), "[a][][b]");
    CHECK_STR(pieces(STR("a,")), "[a][]");
    CHECK_STR(pieces(STR(",")), "[][]");
    CHECK_STR(pieces(STR("a")), "[a]");
    CHECK_STR(pieces(STR("")), "[]");
    CHECK_STR(pieces(STR_NONE), "");
}

TEST(str, copies_into_an_array_or_leaves_it_empty)
{
    char room[4] = "xxx";

    CHECK_EQ(str_copy(room, sizeof(room), STR("abc")), 0);
    CHECK_STR(room, "abc");
    CHECK_EQ(str_copy(room, sizeof(room), STR("abcd")), -ENAMETOOLONG);
    CHECK_STR(room, "");
    CHECK_EQ(str_copy(room, sizeof(room), STR("a\0b")), -EINVAL);
    CHECK_STR(room, "");
    CHECK_EQ(str_copy(room, sizeof(room), STR_NONE), 0);
}

TEST(str, prints_no_further_than_it_reaches)
{
    struct str huge = str_make("", (size_t)INT_MAX + 2);

    CHECK_EQ(str_arg_n(huge), INT_MAX); /* a negative precision would mean none */
    CHECK_EQ(str_arg_n(STR("abc")), 3);
}

TEST(str, reads_unsigned_numbers_whole_or_not_at_all)
{
    static const struct {
        const char *text;
        int r;
        uint64_t v;
    } rows[] = {
        {"0",                     0,       0         },
        {"007",                   0,       7         },
        {"18446744073709551615",  0,       UINT64_MAX},
        {"18446744073709551616",  -ERANGE, 0         },
        {"99999999999999999999",  -ERANGE, 0         },
        {"9999999999999999999x",  -EINVAL, 0         },
        {"99999999999999999999x", -EINVAL, 0         }, /* not a number comes before too large */
        {"",                      -EINVAL, 0         },
        {"+1",                    -EINVAL, 0         },
        {"-1",                    -EINVAL, 0         },
        {" 1",                    -EINVAL, 0         },
        {"1 ",                    -EINVAL, 0         },
        {"0x10",                  -EINVAL, 0         },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t v = 99;

        CHECK_EQ(str_to_u64(str_of(rows[i].text), &v), rows[i].r);
        CHECK(v == (rows[i].r ? 99 : rows[i].v));
    }
}

TEST(str, reads_signed_numbers_whole_or_not_at_all)
{
    static const struct {
        const char *text;
        int r;
        int64_t v;
    } rows[] = {
        {"9223372036854775807",  0,       INT64_MAX},
        {"9223372036854775808",  -ERANGE, 0        },
        {"-9223372036854775808", 0,       INT64_MIN},
        {"-9223372036854775809", -ERANGE, 0        },
        {"-0",                   0,       0        },
        {"-",                    -EINVAL, 0        },
        {"--1",                  -EINVAL, 0        },
        {"",                     -EINVAL, 0        },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t v = 99;

        CHECK_EQ(str_to_i64(str_of(rows[i].text), &v), rows[i].r);
        CHECK_EQ(v, rows[i].r ? 99 : rows[i].v);
    }
}

TEST(str, reads_numbers_within_bounds)
{
    uint64_t u = 99;
    int64_t i = 99;
    uint16_t u16 = 9;
    uint32_t u32 = 9;

    CHECK_EQ(str_to_u64_range(STR("5"), 5, 6, &u), 0);
    CHECK_EQ(str_to_u64_range(STR("4"), 5, 6, &u), -ERANGE);
    CHECK_EQ(str_to_u64_range(STR("7"), 5, 6, &u), -ERANGE);
    CHECK_EQ(u, 5);
    CHECK_EQ(str_to_i64_range(STR("-5"), -5, 6, &i), 0);
    CHECK_EQ(str_to_i64_range(STR("-6"), -5, 6, &i), -ERANGE);
    CHECK_EQ(i, -5);
    CHECK_EQ(str_to_u16(STR("65535"), &u16), 0);
    CHECK_EQ(str_to_u16(STR("65536"), &u16), -ERANGE);
    CHECK_EQ(u16, 65535);
    CHECK_EQ(str_to_u32(STR("4294967295"), &u32), 0);
    CHECK_EQ(str_to_u32(STR("4294967296"), &u32), -ERANGE);
    CHECK_EQ(u32, UINT32_MAX);
    CHECK_EQ(str_to_hex_u64(STR("fFfFffffffffffff"), &u), 0);
    CHECK(u == UINT64_MAX);
    CHECK_EQ(str_to_hex_u64(STR("0000000000000000001"), &u), 0);
    CHECK_EQ(u, 1);
    CHECK_EQ(str_to_hex_u64(STR("10000000000000000"), &u), -ERANGE);
    CHECK_EQ(str_to_hex_u64(STR("0x1"), &u), -EINVAL);
    CHECK_EQ(str_to_hex_u64(STR(""), &u), -EINVAL);
}

TEST(str, knows_ascii)
{
    for (int c = -128; c < 128; c++) {
        bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';

        CHECK_EQ(ascii_is_alpha((char)c), upper || lower);
        CHECK_EQ(ascii_lower((char)c), upper ? c + 32 : c);
    }
    CHECK_EQ(ascii_hex_value('F'), 15);
    CHECK_EQ(ascii_hex_value('g'), -1);
    CHECK_EQ(ascii_hex_value('\x10'), -1); /* 0x10 | 0x20 would be '0' */
}
