#include "execd/core/lines.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "test.h"

/* Collects texts as "[a][+b~]": a + before what continues, a ~ behind what does not end a line. */
struct seen {
    struct lines lines;
    struct buf out;
    size_t longest;
};

static void seen_give(void *user, struct str text, bool continues)
{
    struct seen *s = user;

    CHECK(text.n > 0);
    s->longest = max_size(s->longest, text.n);
    CHECK_EQ(buf_addf(&s->out, "[%s%.*s%s]", continues ? "+" : "", STR_ARG(text),
                      s->lines.open ? "~" : ""),
             0);
}

static void seen_init(struct seen *s)
{
    *s = (struct seen){0};
    buf_init(&s->out, 16 << 20);
    lines_init(&s->lines, seen_give, s);
}

static void seen_done(struct seen *s)
{
    lines_done(&s->lines);
    buf_done(&s->out);
}

static void check_lines(struct str text, size_t step, const char *want)
{
    struct seen s;

    seen_init(&s);
    for (size_t at = 0; at < text.n; at += step)
        CHECK_EQ(lines_feed(&s.lines, str_make(text.p + at, min_size(step, text.n - at))), 0);
    lines_end(&s.lines);
    CHECK_STR(s.out.p, want);
    seen_done(&s);
}

TEST(lines, ends_them_at_lf_cr_and_crlf_however_they_arrive)
{
    static const struct {
        struct str text;
        const char *want;
    } cases[] = {
        {STR_INIT("a\n\nb\n\n\nc\n"), "[a][\n][b][\n][\n][c]"},
        {STR_INIT("10%\r20%\r\n"),    "[10%][20%]"           },
        {STR_INIT("a\r\r\n\nb"),      "[a][\n][\n][b~]"      },
        {STR_INIT("\r\n"),            "[\n]"                 },
        {STR_INIT("\n\r"),            "[\n][\n]"             },
        {STR_INIT("tail"),            "[tail~]"              },
        {STR_INIT(""),                ""                     },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 12; step++)
            check_lines(cases[i].text, step, cases[i].want);
}

TEST(lines, gives_what_there_is_when_flushed_and_says_what_continues)
{
    struct seen s;

    seen_init(&s);
    CHECK_EQ(lines_feed(&s.lines, STR("pass")), 0);
    CHECK(lines_pending(&s.lines));
    lines_flush(&s.lines);
    CHECK(!lines_pending(&s.lines));
    lines_flush(&s.lines);
    CHECK_EQ(lines_feed(&s.lines, STR("word: x\nnext\nq")), 0);
    lines_flush(&s.lines);
    CHECK_EQ(lines_feed(&s.lines, STR("\n\nend")), 0); /* the end of q alone gives nothing */
    lines_end(&s.lines);
    CHECK_STR(s.out.p, "[pass~][+word: x][next][q~][\n][end~]");
    seen_done(&s);
}

TEST(lines, forgets_a_carriage_return_once_its_line_feed_came)
{
    struct seen s;

    seen_init(&s);
    CHECK_EQ(lines_feed(&s.lines, STR("a\r")), 0);
    CHECK_EQ(lines_feed(&s.lines, STR("")), 0);
    CHECK_EQ(lines_feed(&s.lines, STR("\n")), 0);
    CHECK_EQ(lines_feed(&s.lines, STR("\n")), 0);
    CHECK_STR(s.out.p, "[a][\n]");
    seen_done(&s);
}

TEST(lines, holds_back_a_character_that_is_not_whole_yet)
{
    struct seen s;

    seen_init(&s);
    CHECK_EQ(lines_feed(&s.lines, STR("x\xe2\x82")), 0);
    lines_flush(&s.lines);
    CHECK_STR(s.out.p, "[x~]");
    lines_flush(&s.lines);
    CHECK_STR(s.out.p, "[x~]");
    CHECK_EQ(lines_feed(&s.lines, STR("\xac y\n\xf0\x9f\n\xff")), 0);
    lines_flush(&s.lines); /* 0xff begins nothing: no reason to wait */
    CHECK_STR(s.out.p, "[x~][+\xe2\x82\xac y][\xf0\x9f][\xff~]");
    seen_done(&s);
}

TEST(lines, cuts_a_long_line_between_characters_in_constant_memory)
{
    enum { EUROS = 400000 };
    struct seen s;
    struct str rest;
    AUTO_BUF(all, 4 << 20);
    size_t euros = 0;

    seen_init(&s);
    CHECK_EQ(lines_feed(&s.lines, STR("x")), 0);
    for (int i = 0; i < EUROS; i++)
        CHECK_EQ(lines_feed(&s.lines, STR("\xe2\x82\xac")), 0);
    CHECK_EQ(lines_feed(&s.lines, STR("\nnext\n")), 0);
    CHECK(s.longest <= LINES_PIECE_MAX && s.longest >= LINES_PIECE_MAX - 3);
    CHECK(utf8_valid(buf_str(&s.out)));
    rest = buf_str(&s.out);
    for (size_t at; (at = str_find_str(rest, STR("\xe2\x82\xac"))) < rest.n; euros++)
        rest = str_skip(rest, at + 3);
    CHECK_EQ(euros, EUROS);
    CHECK(str_ends(buf_str(&s.out), STR("][next]")));
    seen_done(&s);
}

TEST(lines, takes_a_long_line_that_ends_right_at_the_ceiling)
{
    struct seen s;
    auto_free char *text = mem_alloc(LINES_PIECE_MAX + 1);

    memset(text, 'x', LINES_PIECE_MAX);
    text[LINES_PIECE_MAX] = '\n';
    seen_init(&s);
    CHECK_EQ(lines_feed(&s.lines, str_make(text, LINES_PIECE_MAX + 1)), 0); /* in one go */
    CHECK_EQ(lines_feed(&s.lines, str_make(text, LINES_PIECE_MAX)), 0);
    CHECK_EQ(lines_feed(&s.lines, STR("\ny\n")), 0);
    CHECK_EQ(s.out.n, 2 * (LINES_PIECE_MAX + 2) + 1 + 3); /* the end of the second comes late */
    CHECK(str_ends(buf_str(&s.out), STR("x~][y]")));
    seen_done(&s);
}
