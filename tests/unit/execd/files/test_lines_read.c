#include "execd/files/lines_read.h"

#include "test.h"

/* Feeds the text in pieces of every size. */
static void check_lines(uint64_t offset, uint64_t limit, const char *text, const char *wanted)
{
    for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
        AUTO_BUF(out, 4096);
        struct str rest = str_of(text);
        struct lines_reader l;

        lines_reader_init(&l, offset, limit);
        while (rest.n > 0) {
            size_t n = min_size(piece, rest.n);

            CHECK(lines_reader_feed(&l, str_make(rest.p, n), &out) >= 0);
            rest = str_skip(rest, n);
        }
        CHECK_STR(out.p, wanted);
    }
}

TEST(lines_read, picks_lines)
{
    check_lines(1, UINT64_MAX, "a\nb\nc\n", "a\nb\nc");
    check_lines(1, UINT64_MAX, "a\nb\nc", "a\nb\nc");
    check_lines(2, 1, "a\nb\nc\n", "b");
    check_lines(3, 9, "a\nb\nc\n", "c");
    check_lines(4, 9, "a\nb\nc\n", "");
    check_lines(1, 2, "\n\n\n", "\n");
    check_lines(1, UINT64_MAX, "", "");
}

TEST(lines_read, drops_returns_at_the_end_of_a_line_only)
{
    check_lines(1, UINT64_MAX, "a\r\nb\r\r\n\rc\rd\r", "a\nb\n\rc\rd");
}

TEST(lines_read, says_when_it_has_all)
{
    AUTO_BUF(out, 64);
    struct lines_reader l;

    lines_reader_init(&l, 1, 2);
    CHECK_EQ(lines_reader_feed(&l, STR("a\nb"), &out), 0);
    CHECK_EQ(lines_reader_feed(&l, STR("\nc"), &out), 1);
    CHECK_STR(out.p, "a\nb");
}

TEST(lines_read, holds_back_few_returns)
{
    AUTO_BUF(out, 1 << 20);
    struct lines_reader l;
    char returns[3000];

    memset(returns, '\r', sizeof(returns));
    lines_reader_init(&l, 1, UINT64_MAX);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(lines_reader_feed(&l, str_make(returns, sizeof(returns)), &out), 0);
    CHECK_EQ(out.n, 99 * sizeof(returns));
}
