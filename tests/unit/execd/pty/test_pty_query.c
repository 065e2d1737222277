#include "execd/pty/pty_query.h"

#include <stdio.h>

#include "base/str.h"
#include "execd/pty/pty_replay.h"
#include "test.h"

enum { CAN = 0x18 };

/* Whether exactly the middle of "a<text>b" is blanked, at every place of a ring. */
static bool is_blanked(struct str text)
{
    char ring[2048];
    size_t n = text.n + 2, cap = n + 3, blanked = 0;

    CHECK(cap <= sizeof(ring));
    for (uint64_t from = 0; from < cap; from++) {
        size_t zeroes = 0;

        ring[from % cap] = 'a';
        for (size_t i = 0; i < text.n; i++)
            ring[(from + 1 + i) % cap] = text.p[i];
        ring[(from + n - 1) % cap] = 'b';
        pty_query_blank(ring, cap, from, from + n);
        CHECK_EQ(ring[from % cap], 'a');
        CHECK_EQ(ring[(from + n - 1) % cap], 'b');
        for (size_t i = 0; i < text.n; i++)
            zeroes += ring[(from + 1 + i) % cap] == (text.p[i] == '\033' && i == 0 ? CAN : '\0');
        CHECK(zeroes == 0 || zeroes == text.n);
        blanked += zeroes == text.n;
    }
    CHECK(blanked == 0 || blanked == cap);
    return blanked == cap;
}

TEST(pty_query, blanks_what_a_terminal_answers)
{
    static const struct str queries[] = {
        STR_INIT("\x05"),
        STR_INIT("\033Z"),
        STR_INIT("\033[c"),
        STR_INIT("\033[0c"),
        STR_INIT("\033[>c"),
        STR_INIT("\033[=0c"),
        STR_INIT("\033[5n"),
        STR_INIT("\033[6n"),
        STR_INIT("\033[?6n"),
        STR_INIT("\033[?996n"),
        STR_INIT("\033[?2026$p"),
        STR_INIT("\033[4$p"),
        STR_INIT("\033[>q"),
        STR_INIT("\033[>0q"),
        STR_INIT("\033[14t"),
        STR_INIT("\033[14;2t"),
        STR_INIT("\033[18t"),
        STR_INIT("\033[21t"),
        STR_INIT("\033[?u"),
        STR_INIT("\033[?1;1;0S"),
        STR_INIT("\033[x"),
        STR_INIT("\033]10;?\007"),
        STR_INIT("\033]11;?\033\\"),
        STR_INIT("\033]4;1;?\007"),
        STR_INIT("\033]4;1;?;2;?\007"),
        STR_INIT("\033]52;c;?\007"),
        STR_INIT("\033P$qm\033\\"),
        STR_INIT("\033P+q544e;626365\033\\"),
        STR_INIT("\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\"),
    };

    for (size_t i = 0; i < ARRAY_LEN(queries); i++)
        if (!is_blanked(queries[i]))
            test_fail(__FILE__, __LINE__, "query %zu stays: ESC%.*s", i, (int)queries[i].n - 1,
                      queries[i].p + 1);
}

TEST(pty_query, leaves_everything_else)
{
    static const struct str others[] = {
        STR_INIT("text"),
        STR_INIT("\033"),
        STR_INIT("\033["),
        STR_INIT("\033[6"),
        STR_INIT("\033[m"),
        STR_INIT("\033[2J"),
        STR_INIT("\033[1;31m"),
        STR_INIT("\033[?25h"),
        STR_INIT("\033[?1c"),
        STR_INIT("\033[>4n"),
        STR_INIT("\033[8;24;80t"),
        STR_INIT("\033[22;0t"),
        STR_INIT("\033[2 q"),
        STR_INIT("\033[!p"),
        STR_INIT("\033[u"),
        STR_INIT("\033[>1u"),
        STR_INIT("\033[3S"),
        STR_INIT("\033]0;what?\007"),
        STR_INIT("\033]2;a;?b\007"),
        STR_INIT("\033]10;?"),
        STR_INIT("\033]8;;http://x/?a;b\033\\"),
        STR_INIT("\033P0;1|17/61\033\\"),
        STR_INIT("\033_Ga=T,f=100;AAAA\033\\"),
    };

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (is_blanked(others[i]))
            test_fail(__FILE__, __LINE__, "sequence %zu is gone", i);
}

/* The ESC of the request ends the OSC before it; what replaces it must do so, too. */
TEST(pty_query, completes_no_sequence_by_removing_what_is_in_it)
{
    char text[] = "\033]10;?\033[6n\007";

    for (int i = 0; i < 2; i++) {
        pty_query_blank(text, sizeof(text) - 1, 0, sizeof(text) - 1);
        CHECK(str_eq(str_make(text, sizeof(text) - 1), STR("\033]10;?\030\0\0\0\007")));
    }
}

TEST(pty_query, in_a_replay_only_what_was_sent_is_blanked)
{
    struct pty_replay r;
    struct str pieces[2];

    pty_replay_init(&r);
    pty_replay_silence(&r);
    pty_replay_add(&r, STR("x\033[6n"));
    pty_replay_mark_sent(&r);
    pty_replay_add(&r, STR("y\033[6n"));
    pty_replay_silence(&r);
    CHECK_EQ(pty_replay_get(&r, -1, pieces), 0);
    CHECK(str_eq(pieces[0], STR("x\030\0\0\0y\033[6n")));
    CHECK_EQ(pieces[1].n, 0);
    pty_replay_drop(&r);
    pty_replay_silence(&r);
}
