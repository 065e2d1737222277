#include "execd/tree/glob.h"

#include "test.h"

static int match(const char *pattern, const char *text)
{
    struct glob *g = NULL;
    int r = glob_new(str_of(pattern), &g, NULL);

    if (r == 0)
        r = glob_match(g, str_of(text));
    glob_free(g);
    return r;
}

struct row {
    const char *pattern, *text;
    int result;
};

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int got = match(rows[i].pattern, rows[i].text);

        if (got != rows[i].result)
            test_fail(__FILE__, __LINE__, "'%s' on '%s' is %d, not %d", rows[i].pattern,
                      rows[i].text, got, rows[i].result);
    }
}

TEST(glob, matches_names)
{
    static const struct row rows[] = {
        {"a.txt", "a.txt",    1},
        {"a.txt", "a.txtx",   0},
        {"",      "",         1},
        {"",      "a",        0},
        {"*",     "",         1},
        {"*",     ".hidden",  1},
        {"*.txt", "a.b.txt",  1},
        {"*.txt", ".txt",     1},
        {"*.txt", "a.txt.gz", 0},
        {"a*b*c", "axxbyyc",  1},
        {"a*b*c", "axxcyyb",  0},
        {"?",     "a",        1},
        {"?",     "\xc3\xa9", 1}, /* one character of two bytes */
        {"??",    "\xc3\xa9", 0},
        {"?",     "\xff",     1}, /* a byte that is no character */
        {"\xff",  "\xff",     1},
        {"\\*",   "*",        1},
        {"\\*",   "a",        0},
        {"a\\!b", "a!b",      1},
        {"(a|b)", "(a|b)",    1}, /* a group only behind '!' */
        {"a,b",   "a,b",      1},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(glob, knows_classes)
{
    static const struct row rows[] = {
        {"[abc]",               "b",        1},
        {"[abc]",               "d",        0},
        {"[a-c]x",              "cx",       1},
        {"[!a-c]",              "d",        1},
        {"[^a-c]",              "a",        0},
        {"[-a]",                "-",        1},
        {"[a-]",                "-",        1},
        {"[a-]",                "b",        0},
        {"[\\]]",               "]",        1},
        {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", 1},
        {"[!a]",                "/",        0},
        {"[*?]",                "*",        1},
        {"[a!]",                "!",        1},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(glob, knows_alternatives)
{
    static const struct row rows[] = {
        {"*.{c,h}",       "a.h",  1},
        {"*.{c,h}",       "a.o",  0},
        {"{a,b{c,d}}e",   "bde",  1},
        {"{a,b{c,d}}e",   "be",   0},
        {"{,x}y",         "y",    1},
        {"{a,ab}{c,bcd}", "abcd", 1},
        {"{a*,b}c",       "axxc", 1},
        {"{a|b}",         "a|b",  1},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(glob, knows_negation)
{
    static const struct row rows[] = {
        {"!(a)",       "b",     1},
        {"!(a)",       "a",     0},
        {"!(a)",       "",      1},
        {"!(*.txt)",   "a.md",  1},
        {"!(*.txt)",   "a.txt", 0},
        {"x!(a)y",     "xay",   0},
        {"x!(a)y",     "xaay",  1},
        {"x!(a)y",     "xy",    1},
        {"!(a|b).txt", "b.txt", 0},
        {"!(a|b).txt", "c.txt", 1},
        {"!(!(a))",    "a",     1},
        {"!(!(a))",    "b",     0},
        {"!({a,b}c)",  "bc",    0},
        {"!(a)",       "b/c",   0},
    };

    check_rows(rows, ARRAY_LEN(rows));
}

TEST(glob, matches_paths)
{
    static const struct row rows[] = {
        {"**",           "a/b/c",   1},
        {"**/x",         "x",       1},
        {"**/x",         "a/b/x",   1},
        {"**/x",         "a/bx",    0},
        {"a/*.c",        "a/b.c",   1},
        {"a/*.c",        "a/b/c.c", 0},
        {"a/**/c",       "a/c",     1},
        {"a/**/c",       "a/b/b/c", 1},
        {"a/**",         "a/b/c",   1},
        {"a?b",          "a/b",     0},
        {"*",            "a/b",     0},
        {"{a,b}/**/*.h", "b/x/y.h", 1},
        {"src/!(x)/f",   "src/y/f", 1},
        {"src/!(x)/f",   "src/x/f", 0},
        {"**/**/x",      "x",       1},
        {"a**/x",        "ab/c/x",  1},
    };
    struct glob *g;

    check_rows(rows, ARRAY_LEN(rows));
    CHECK_EQ(glob_new(STR("**/x"), &g, NULL), 0);
    CHECK(glob_has_slash(g));
    glob_free(g);
    CHECK_EQ(glob_new(STR("**"), &g, NULL), 0);
    CHECK(!glob_has_slash(g));
    glob_free(g);
}

TEST(glob, refuses_what_is_no_pattern)
{
    static const char *const bad[] = {
        "[",      "[a", "[]", "[!]", "[b-a]", "[a\\", "{a",  "a}",
        "{a,{b}", "!",  "!a", "a!b", "!(a",   "\\",   "a\\", "{{{{{{{{{{{{{{{{{a}}}}}}}}}}}}}}}}}",
    };
    struct err e = {0};
    struct glob *g;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (match(bad[i], "a") != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' is taken", bad[i]);
    CHECK_EQ(glob_new(STR("["), &g, &e), -EINVAL);
    CHECK_STR(e.msg, "syntax error in pattern");
}

TEST(glob, bounds_its_work)
{
    char stars[GLOB_BYTES_MAX + 1], text[GLOB_TEXT_MAX + 1];

    memset(text, 'a', GLOB_TEXT_MAX);
    text[GLOB_TEXT_MAX] = '\0';
    CHECK_EQ(match("*", text), 0); /* too long */
    text[GLOB_TEXT_MAX - 1] = '\0';
    CHECK_EQ(match("*", text), 1);
    text[255] = '\0';
    for (size_t i = 0; i + 2 <= GLOB_BYTES_MAX; i += 2)
        memcpy(stars + i, "a*", 2);
    stars[100] = 'b';
    stars[101] = '\0';
    CHECK_EQ(match(stars, text), 0); /* exponential with backtracking */
    text[255] = 'a';
    CHECK_EQ(match("*!(*!(*b*)*)c", text), -ELOOP);
}
