#include "execd/shell/shell_script.h"

#include <errno.h>

#include "folder.h"

TEST(shell_script, quotes_so_that_a_shell_reads_it_as_it_is)
{
    static const struct {
        struct str text;
        const char *quoted;
    } rows[] = {
        {STR_INIT(""),                  "''"                 },
        {STR_INIT("a b"),               "'a b'"              },
        {STR_INIT("it's"),              "'it'\\''s'"         },
        {STR_INIT("''"),                "''\\'''\\'''"       },
        {STR_INIT("$x `y` \"z\" \\\n"), "'$x `y` \"z\" \\\n'"},
        {{NULL, 0},                     "''"                 },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_BUF(out, 100);

        CHECK_EQ(shell_quote(&out, rows[i].text), 0);
        CHECK_STR(out.p, rows[i].quoted);
    }
}

TEST(shell_script, leaves_the_buffer_alone_when_a_text_does_not_fit)
{
    AUTO_BUF(out, 8);

    CHECK_EQ(buf_add(&out, STR("ab")), 0);
    CHECK_EQ(shell_quote(&out, STR("it's it")), -EMSGSIZE);
    CHECK_EQ(shell_setup(&out, "/x", NULL, 0), -EMSGSIZE);
    CHECK_STR(out.p, "ab");
}

TEST(shell_script, sets_up_a_run_on_a_line_of_its_own)
{
    static const struct json_pair envs[] = {
        {STR_INIT("A"),   STR_INIT("it's")},
        {STR_INIT("_b2"), STR_INIT("")    },
    };
    AUTO_BUF(out, 200);

    CHECK_EQ(shell_setup(&out, NULL, NULL, 0), 0);
    CHECK_EQ(out.n, 0);
    CHECK_EQ(shell_setup(&out, "/a b", envs, 2), 0);
    CHECK_STR(out.p, SHELL_AS "cd -- '/a b' || " SHELL_AS "return;" SHELL_AS
                              "export A='it'\\''s';" SHELL_AS "export _b2='';\n");
}

TEST(shell_script, knows_names_of_variables)
{
    CHECK(shell_is_name(STR("a")) && shell_is_name(STR("_")) && shell_is_name(STR("A_1")));
    CHECK(!shell_is_name(STR("")) && !shell_is_name(STR("1a")) && !shell_is_name(STR("a-b")));
    CHECK(!shell_is_name(STR("a=b")) && !shell_is_name(STR("a b")) && !shell_is_name(STR("\xc3")));
}

TEST(shell_script, reads_what_a_loop_reports)
{
    struct shell_report r;

    CHECK_EQ(shell_report_parse(STR("abc 3 - -"), &r), 0);
    CHECK(str_eq(r.nonce, STR("abc")) && r.status == 3 && !r.sync && !r.begun && !r.trace);
    CHECK_EQ(shell_report_parse(STR("abc 0 130 x"), &r), 0);
    CHECK(r.status == 130 && r.begun && !r.sync && r.trace);
    CHECK_EQ(shell_report_parse(STR("abc 0 sync -"), &r), 0);
    CHECK(r.sync && !r.begun);
}

TEST(shell_script, refuses_what_no_loop_says)
{
    static const struct str lines[] = {
        STR_INIT(""),
        STR_INIT("abc"),
        STR_INIT("abc 0 -"),
        STR_INIT("abc 0 - - -"),
        STR_INIT("abc 256 - -"),
        STR_INIT("abc -1 - -"),
        STR_INIT("abc x - -"),
        STR_INIT("abc 0 new -"),
        STR_INIT("abc 0 999 -"),
        STR_INIT("abc  - -"),
    };
    struct shell_report r = {.status = 77};

    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        CHECK_EQ(shell_report_parse(lines[i], &r), -EBADMSG);
    CHECK_EQ(r.status, 77);
}

TEST(shell_script, has_loops_of_one_line_that_a_pipe_takes_twice)
{
    for (size_t i = 0; i < shell_kind_count; i++) {
        struct str loop = str_of(shell_kinds[i].loop), begin = str_of(shell_kinds[i].begin);

        CHECK(loop.n * 2 + begin.n < 4096);
        CHECK_EQ(str_find(loop, '\n'), loop.n - 1);
        CHECK_EQ(str_find(begin, '\n'), begin.n - 1);
    }
}

/* A loop that went round for ever would be killed for the time it takes, however slow the machine
 * is. */
TEST(shell_script, has_loops_that_end_when_nothing_can_be_read)
{
    static const char *const commands[] = {
        "ulimit -t 10; exec setsid bash -c 'exec bash --norc -i <in 97</dev/null 96<&- >out 2>&1'",
        "ulimit -t 10; exec setsid sh -i <in 8</dev/null 9<&- >out 2>&1",
    };

    for (size_t i = 0; i < shell_kind_count; i++) {
        AUTO_FOLDER(folder);
        AUTO_BUF(script, 4096);
        int status;

        CHECK_EQ(buf_addf(&script, "%s%s", shell_kinds[i].begin, shell_kinds[i].loop), 0);
        file_write("in", script.p);
        status = system(commands[i]);
        CHECK(WIFEXITED(status));
    }
}
