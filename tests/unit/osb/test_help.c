#include "osb/command.h"

#include <errno.h>

#include "test.h"

enum { TEXT_MAX = 1024 * 1024 };

TEST(help, of_the_program_names_every_group_and_short_command)
{
    AUTO_BUF(out, TEXT_MAX);

    help_program(&out);
    for (size_t i = 0; i < group_count; i++)
        if (!strchr(group_table[i].path, ' '))
            CHECK(strstr(out.p, group_table[i].path));
    CHECK(strstr(out.p, "--use-server-proxy / --no-use-server-proxy"));
}

static bool is_group(struct str path)
{
    for (size_t i = 0; i < group_count; i++)
        if (str_eq(str_of(group_table[i].path), path))
            return true;
    return false;
}

TEST(help, every_command_is_listed_by_the_help_of_a_group)
{
    for (size_t i = 0; i < command_count; i++) {
        struct str path = str_of(command_table[i].path);

        for (size_t n = 0; n < path.n; n++)
            if (path.p[n] == ' ')
                CHECK(is_group(str_make(path.p, n)));
    }
}

TEST(help, table_is_consistent)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_table[i];
        struct argument argument = {0};
        size_t n = 0;

        CHECK(c->run && c->help && c->help[strlen(c->help) - 1] == '.');
        for (; command_argument(c, n, &argument); n++)
            CHECK(argument.name.n > 0);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(command_table[k].path, c->path) != 0);
        for (const struct option *o = c->options; o && o->name; o++) {
            CHECK(o->help && (o->kind == OPTION_FLAG) == (o->value == NULL));
            for (const struct option *other = c->options; other < o; other++)
                CHECK(strcmp(other->name, o->name) != 0 &&
                      (o->letter == 0 || other->letter != o->letter));
        }
    }
}

/* Cuts a line of an example into words as a shell does, from its last "osb" to a redirection. */
static int words_of(struct arena *a, struct str line, const char **argv, int max)
{
    size_t at = 0;
    int n = 0;
    char *p;

    while (at + 4 < line.n && str_find_str(str_skip(line, at + 1), STR("osb ")) + at + 1 < line.n)
        at += str_find_str(str_skip(line, at + 1), STR("osb ")) + 1;
    p = arena_strdup(a, str_skip(line, at));
    while (p && *p && !strchr("<>|)", *p) && n < max) {
        bool quoted = *p == '\'';

        argv[n++] = p += quoted;
        p += strcspn(p, quoted ? "'" : " )");
        if (*p)
            *p++ = '\0';
        p += strspn(p, " ");
    }
    return n;
}

TEST(help, examples_are_command_lines_that_parse)
{
    for (size_t i = 0; i < command_count; i++) {
        struct str rest = str_of(command_table[i].examples ? command_table[i].examples : ""), line;

        while (str_cut(&rest, '\n', &line)) {
            AUTO_ARENA(a, TEXT_MAX);
            const char *argv[32];
            struct parsed p = {0};
            struct err e = {0};
            int r;

            if (line.n == 0)
                continue;
            r = command_parse(&a, words_of(&a, line, argv, ARRAY_LEN(argv)), argv, &p, &e);
            if (r < 0)
                test_fail(__FILE__, __LINE__, "%.*s: %s", STR_ARG(line), e.msg);
            CHECK(p.command);
        }
    }
}

TEST(help, completions_and_manual_name_every_command)
{
    static const char *const kinds[] = {"bash", "zsh", "fish", "man"};

    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        AUTO_BUF(out, TEXT_MAX);

        CHECK_EQ(help_generate(&out, kinds[k]), 0);
        for (size_t i = 0; i < command_count; i++)
            if (!strchr(command_table[i].path, '-'))
                CHECK(strstr(out.p, command_table[i].path));
    }
}

TEST(help, generates_nothing_else)
{
    AUTO_BUF(out, TEXT_MAX);

    CHECK_EQ(help_generate(&out, "tcsh"), -EINVAL);
}
