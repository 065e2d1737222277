#include "base/utf8.h"

#include "test.h"

static const struct {
    struct str text;
    size_t prefix;
} utf8_cases[] = {
    {STR_INIT(""),                                                 0 },
    {STR_INIT("plain"),                                            5 },
    {STR_INIT("\0\x7f"),                                           2 },
    {STR_INIT("0123456789abcdef\x80"),                             16},
    {STR_INIT("\xc2\x80\xdf\xbf"),                                 4 },
    {STR_INIT("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"), 12},
    {STR_INIT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),                 8 },
    {STR_INIT("a\xc0\x80"),                                        1 }, /* overlong NUL */
    {STR_INIT("a\xc1\xbf"),                                        1 }, /* overlong */
    {STR_INIT("a\xe0\x9f\xbf"),                                    1 }, /* overlong */
    {STR_INIT("a\xf0\x8f\xbf\xbf"),                                1 }, /* overlong */
    {STR_INIT("a\xed\xa0\x80"),                                    1 }, /* surrogate */
    {STR_INIT("a\xed\xbf\xbf"),                                    1 }, /* surrogate */
    {STR_INIT("a\xf4\x90\x80\x80"),                                1 }, /* U+110000 */
    {STR_INIT("a\xf5\x80\x80\x80"),                                1 }, /* never a lead */
    {STR_INIT("a\xff"),                                            1 }, /* never a byte */
    {STR_INIT("a\x80"),                                            1 }, /* continuation alone */
    {STR_INIT("\xc3\xa9\xc3"),                                     2 }, /* cut short */
    {STR_INIT("\xe2\x82"),                                         0 }, /* cut short */
    {STR_INIT("\xf0\x9f\x98"),                                     0 }, /* cut short */
    {STR_INIT("\xe2\x82\x41"),                                     0 }, /* interrupted */
    {STR_INIT("12345678\xe2\x82\xac!"),                            12}, /* behind a whole word */
};

TEST(utf8, knows_how_far_a_text_is_valid)
{
    for (size_t i = 0; i < ARRAY_LEN(utf8_cases); i++) {
        size_t got = utf8_prefix(utf8_cases[i].text);

        if (got != utf8_cases[i].prefix)
            test_fail(__FILE__, __LINE__, "case %zu: prefix %zu", i, got);
        CHECK_EQ(utf8_valid(utf8_cases[i].text), got == utf8_cases[i].text.n);
    }
}

TEST(utf8, judges_pieces_as_it_judges_the_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(utf8_cases); i++) {
        struct str s = utf8_cases[i].text;

        for (size_t cut = 0; cut <= s.n; cut++) {
            struct utf8_state state = {0};
            int first = utf8_feed(&state, str_make(s.p, cut));
            int second = utf8_feed(&state, str_skip(s, cut));

            CHECK(first == 0 || second < 0); /* bad stays bad */
            CHECK_EQ(utf8_at_boundary(&state), utf8_valid(s));
        }
    }
}

TEST(utf8, rejects_at_the_first_impossible_byte)
{
    struct utf8_state state = {0};

    CHECK_EQ(utf8_feed(&state, STR("ok \xed")), 0);
    CHECK(!utf8_at_boundary(&state));
    CHECK_EQ(utf8_feed(&state, STR("\xa0")), -EILSEQ); /* will be a surrogate */
    CHECK_EQ(utf8_feed(&state, STR("a")), -EILSEQ);
    CHECK(!utf8_at_boundary(&state));
    state = (struct utf8_state){0};
    CHECK_EQ(utf8_feed(&state, STR("\xf4")), 0);
    CHECK_EQ(utf8_feed(&state, STR("\x90")), -EILSEQ); /* will be past U+10FFFF */
}

TEST(utf8, decodes_what_it_encodes)
{
    for (uint32_t code = 0; code <= UTF8_CODE_MAX; code++) {
        char bytes[UTF8_BYTES_MAX];
        uint32_t back = 0;
        size_t n;

        if (code == 0xd800)
            code = 0xe000;
        n = utf8_encode(code, bytes);
        if (!utf8_valid(str_make(bytes, n)) || utf8_decode(str_make(bytes, n), &back) != (int)n ||
            back != code)
            test_fail(__FILE__, __LINE__, "U+%04X came back as U+%04X", code, back);
    }
}

TEST(utf8, does_not_decode_nonsense)
{
    uint32_t code = 7;

    CHECK_EQ(utf8_decode(STR("\x80"), &code), -EILSEQ);
    CHECK_EQ(utf8_decode(STR("\xe2\x82"), &code), -EILSEQ);
    CHECK_EQ(utf8_decode(STR("\xed\xa0\x80"), &code), -EILSEQ);
    CHECK_EQ(code, 7);
    CHECK_EQ(utf8_decode(STR("\xe2\x82\xac..."), &code), 3);
    CHECK_EQ(code, 0x20ac);
}

TEST(utf8, finds_a_character_that_is_cut_off)
{
    CHECK_EQ(utf8_cut_tail(STR("")), 0);
    CHECK_EQ(utf8_cut_tail(STR("abc")), 0);
    CHECK_EQ(utf8_cut_tail(STR("\xe2\x82\xac")), 0);
    CHECK_EQ(utf8_cut_tail(STR("a\xe2\x82")), 2);
    CHECK_EQ(utf8_cut_tail(STR("a\xe2")), 1);
    CHECK_EQ(utf8_cut_tail(STR("\xf0\x9f\xa6")), 3);
    CHECK_EQ(utf8_cut_tail(STR("\x82\x82\x82")), 0); /* nothing will make that whole */
    CHECK_EQ(utf8_cut_tail(STR("a\xff")), 0);
}
