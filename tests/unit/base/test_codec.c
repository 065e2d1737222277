#include "base/codec.h"

#include "base/id.h"
#include "test.h"

TEST(codec, writes_hex_in_lower_case_and_reads_either)
{
    char text[HEX_TEXT_MAX(4)], bytes[4];
    size_t n = 99;

    CHECK_EQ(hex_encode(STR("\x00\xff\x1a\x7f"), text), 8);
    CHECK_STR(text, "00ff1a7f");
    CHECK_EQ(hex_decode(STR("00Ff1A7f"), bytes, 4, &n), 0);
    CHECK_EQ(n, 4);
    CHECK_EQ(memcmp(bytes, "\x00\xff\x1a\x7f", 4), 0);
    CHECK_EQ(hex_decode(STR(""), bytes, 0, &n), 0);
    CHECK_EQ(n, 0);
}

TEST(codec, refuses_hex_that_is_none)
{
    char bytes[4];
    size_t n = 99;

    CHECK_EQ(hex_decode(STR("abc"), bytes, 4, &n), -EINVAL);
    CHECK_EQ(hex_decode(STR("0g"), bytes, 4, &n), -EINVAL);
    CHECK_EQ(hex_decode(STR(" 0"), bytes, 4, &n), -EINVAL);
    CHECK_EQ(hex_decode(STR("0011223344"), bytes, 4, &n), -ENOSPC);
    CHECK_EQ(n, 99);
}

TEST(codec, answers_the_base64_vectors_of_rfc_4648)
{
    static const struct {
        const char *data, *padded, *bare;
    } rows[] = {
        {"",       "",         ""        },
        {"f",      "Zg==",     "Zg"      },
        {"fo",     "Zm8=",     "Zm8"     },
        {"foo",    "Zm9v",     "Zm9v"    },
        {"foob",   "Zm9vYg==", "Zm9vYg"  },
        {"fooba",  "Zm9vYmE=", "Zm9vYmE" },
        {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
    };
    char text[BASE64_TEXT_MAX(6)], data[6];
    size_t n;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(base64_encode(str_of(rows[i].data), BASE64_STD, text), strlen(rows[i].padded));
        CHECK_STR(text, rows[i].padded);
        base64_encode(str_of(rows[i].data), BASE64_URL | BASE64_NO_PAD, text);
        CHECK_STR(text, rows[i].bare);
        CHECK_EQ(base64_decode(str_of(rows[i].padded), BASE64_URL, data, sizeof(data), &n), 0);
        CHECK(str_eq(str_make(data, n), str_of(rows[i].data)));
        CHECK_EQ(base64_decode(str_of(rows[i].bare), BASE64_NO_PAD, data, sizeof(data), &n), 0);
        CHECK(str_eq(str_make(data, n), str_of(rows[i].data)));
    }
}

TEST(codec, keeps_the_two_base64_alphabets_apart)
{
    char text[BASE64_TEXT_MAX(3)], data[3];
    size_t n;

    base64_encode(STR("\xfb\xff\xfe"), BASE64_STD, text);
    CHECK_STR(text, "+//+");
    base64_encode(STR("\xfb\xff\xfe"), BASE64_URL, text);
    CHECK_STR(text, "-__-");
    CHECK_EQ(base64_decode(STR("+//+"), BASE64_STD, data, 3, &n), 0);
    CHECK_EQ(base64_decode(STR("-__-"), BASE64_URL, data, 3, &n), 0);
    CHECK_EQ(base64_decode(STR("+//+"), BASE64_URL, data, 3, &n), -EINVAL);
    CHECK_EQ(base64_decode(STR("-__-"), BASE64_STD, data, 3, &n), -EINVAL);
}

TEST(codec, refuses_every_second_spelling_in_base64)
{
    static const struct {
        const char *text;
        enum base64_form form;
    } rows[] = {
        {"Zh==",       BASE64_STD   }, /* bits beyond the last byte */
        {"Zm9=",       BASE64_STD   },
        {"Zh",         BASE64_NO_PAD},
        {"Zg",         BASE64_STD   }, /* padding missing */
        {"Zg=",        BASE64_STD   },
        {"Zg==",       BASE64_NO_PAD}, /* padding unwanted */
        {"Zm9v====",   BASE64_STD   },
        {"====",       BASE64_STD   },
        {"Z===",       BASE64_STD   },
        {"Z",          BASE64_NO_PAD},
        {"Zg==Zg==",   BASE64_STD   }, /* padding inside */
        {"Zm9v\n",     BASE64_NO_PAD},
        {"Zm 9",       BASE64_STD   },
        {"Zm\xc3\xa9", BASE64_STD   },
    };
    char data[16];
    size_t n = 99;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(base64_decode(str_of(rows[i].text), rows[i].form, data, 16, &n), -EINVAL);
    CHECK_EQ(base64_decode(STR("Zm9v"), BASE64_STD, data, 2, &n), -ENOSPC);
    CHECK_EQ(base64_decode(STR("Zm8="), BASE64_STD, data, 1, &n), -ENOSPC);
    CHECK_EQ(n, 99);
    CHECK_EQ(base64_decode(STR("Zm8="), BASE64_STD, data, 2, &n), 0);
}

TEST(codec, round_trips_random_bytes_of_every_length)
{
    char data[100], back[100], text[BASE64_TEXT_MAX(100)], hex[HEX_TEXT_MAX(100)];

    for (size_t n = 0; n <= sizeof(data); n++) {
        size_t got;

        id_random_bytes(data, n);
        for (int form = 0; form < 4; form++) {
            size_t len = base64_encode(str_make(data, n), (enum base64_form)form, text);

            CHECK(len < BASE64_TEXT_MAX(n));
            CHECK_EQ(base64_decode(str_make(text, len), (enum base64_form)form, back, n, &got), 0);
            CHECK(str_eq(str_make(back, got), str_make(data, n)));
        }
        CHECK_EQ(hex_decode(str_make(hex, hex_encode(str_make(data, n), hex)), back, n, &got), 0);
        CHECK(str_eq(str_make(back, got), str_make(data, n)));
    }
}

TEST(codec, writes_and_reads_base36)
{
    static const struct {
        uint64_t v;
        const char *text;
    } rows[] = {
        {0,          "0"            },
        {35,         "z"            },
        {36,         "10"           },
        {1999999999, "x2qxvj"       },
        {2000000000, "x2qxvk"       },
        {UINT64_MAX, "3w5e11264sgsf"},
    };
    char text[BASE36_TEXT_MAX];
    uint64_t v;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_EQ(base36_encode(rows[i].v, text), strlen(rows[i].text));
        CHECK_STR(text, rows[i].text);
        CHECK_EQ(base36_decode(str_of(text), &v), 0);
        CHECK(v == rows[i].v);
    }
}

TEST(codec, refuses_base36_that_is_not_canonical)
{
    uint64_t v = 99;

    CHECK_EQ(base36_decode(STR(""), &v), -EINVAL);
    CHECK_EQ(base36_decode(STR("00"), &v), -EINVAL);
    CHECK_EQ(base36_decode(STR("0z"), &v), -EINVAL);
    CHECK_EQ(base36_decode(STR("X2QXVK"), &v), -EINVAL);
    CHECK_EQ(base36_decode(STR("-1"), &v), -EINVAL);
    CHECK_EQ(base36_decode(STR("3w5e11264sgsg"), &v), -ERANGE);
    CHECK_EQ(base36_decode(STR("10000000000000"), &v), -ERANGE);
    CHECK_EQ(v, 99);
}
