#include "base/err.h"

#include "test.h"

static const char long_text[] =
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123"
    "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012"
    "3";

TEST(err, carries_a_code_and_a_sentence)
{
    struct err e = {0};

    CHECK_EQ(err_set(&e, EINVAL, "port %d is not one", 70000), -EINVAL);
    CHECK_EQ(e.code, EINVAL);
    CHECK_STR(e.msg, "port 70000 is not one");
    CHECK_EQ(err_sys(&e, ENOENT, "open '%s'", "x"), -ENOENT);
    CHECK_STR(e.msg, "open 'x': No such file or directory");
    CHECK_EQ(err_sys(&e, ENOENT, "%s", ""), -ENOENT);
    CHECK_STR(e.msg, "No such file or directory");
}

TEST(err, gains_context_on_its_way_up)
{
    struct err e = {0};
    int r = err_set(&e, EPERM, "map ids");

    r = err_wrap(&e, r, "spawn sandbox '%s'", "5bcf");
    CHECK_EQ(r, -EPERM);
    r = err_wrap(&e, -EIO, "create");
    CHECK_EQ(r, -EIO);
    CHECK_EQ(e.code, EIO);
    CHECK_STR(e.msg, "create: spawn sandbox '5bcf': map ids");
}

TEST(err, finds_words_for_a_failure_that_came_without)
{
    struct err e = {0};

    CHECK_EQ(err_wrap(&e, -ENOENT, "read state"), -ENOENT);
    CHECK_STR(e.msg, "read state: No such file or directory");
    CHECK_EQ(e.code, ENOENT);
}

TEST(err, needs_no_place_to_put_it)
{
    CHECK_EQ(err_set(NULL, EINVAL, "x"), -EINVAL);
    CHECK_EQ(err_sys(NULL, EINVAL, "x"), -EINVAL);
    CHECK_EQ(err_wrap(NULL, -EINVAL, "x"), -EINVAL);
}

TEST(err, marks_what_it_cuts)
{
    struct err e = {0};

    err_set(&e, EINVAL, "%s", long_text);
    CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
    CHECK_STR(e.msg + sizeof(e.msg) - 5, "9...");
    err_wrap(&e, -EINVAL, "outer");
    CHECK_EQ(strlen(e.msg), sizeof(e.msg) - 1);
    CHECK(strncmp(e.msg, "outer: 0123", 11) == 0);
    CHECK_STR(e.msg + sizeof(e.msg) - 4, "...");
    err_wrap(&e, -EINVAL, "%s", long_text);
    CHECK_STR(e.msg + sizeof(e.msg) - 4, "...");
}

TEST(err, cuts_between_characters)
{
    struct err e = {0};
    char text[400];

    for (size_t shift = 0; shift < 3; shift++) { /* euro signs of three bytes, at every phase */
        size_t n = shift;

        memset(text, 'x', shift);
        for (; n + 3 < sizeof(text); n += 3)
            memcpy(text + n, "\xe2\x82\xac", 3);
        text[n] = '\0';
        err_set(&e, EINVAL, "%s", text);
        n = strlen(e.msg);
        CHECK_STR(e.msg + n - 3, "...");
        CHECK_EQ((n - 3 - shift) % 3, 0);
    }
}

TEST(err, may_quote_itself)
{
    struct err e = {0};

    err_set(&e, EIO, "inner");
    err_set(&e, EPROTO, "outer (%s)", e.msg);
    CHECK_STR(e.msg, "outer (inner)");
    err_wrap(&e, -EIO, "again %s", e.msg);
    CHECK_STR(e.msg, "again outer (inner): outer (inner)");
}
