#include "execd/core/path.h"

#include <errno.h>
#include <unistd.h>

#include "test.h"

static const char *const env[] = {
    "HOME=/home/ann", "DIR=/srv", "EMPTY=", "A=first", "A=second", "BARE", "TILDE=~/x", NULL,
};

static void check_expands(const char *path, const char *wanted)
{
    AUTO_BUF(out, EXECD_PATH_BYTES_MAX);
    struct err e = {0};

    CHECK_EQ(path_expand(str_of(path), env, &out, &e), 0);
    CHECK_STR(out.p, wanted);
}

static void check_refuses(struct str path, const char *message)
{
    AUTO_BUF(out, EXECD_PATH_BYTES_MAX);
    struct err e = {0};

    CHECK_EQ(buf_add(&out, STR("kept")), 0);
    CHECK_EQ(path_expand(path, env, &out, &e), -EINVAL);
    CHECK_STR(e.msg, message);
    CHECK_STR(out.p, "kept");
}

TEST(path, fills_in_variables)
{
    check_expands("", "");
    check_expands("/plain", "/plain");
    check_expands("$DIR/x", "/srv/x");
    check_expands("${DIR}x$EMPTY", "/srvx");
    check_expands("/a/$A", "/a/second"); /* the later row */
}

TEST(path, keeps_a_dollar_that_begins_no_name)
{
    check_expands("$", "$");
    check_expands("/a$", "/a$");
    check_expands("/$1/$$/$@/$-/$.", "/$1/$$/$@/$-/$.");
    check_expands("/${}/${DIR/${1}", "/${}/${DIR/${1}");
}

TEST(path, keeps_a_dollar_behind_a_backslash)
{
    check_expands("/price\\$DIR", "/price$DIR");
    check_expands("\\${NOBODY}", "${NOBODY}");
    check_expands("a\\b", "a\\b");
    check_expands("a\\\\$DIR", "a\\$DIR");
}

TEST(path, lists_undefined_variables)
{
    check_refuses(STR("$ZED/$ALPHA/${ZED}"),
                  "path references undefined environment variables: ALPHA,ZED");
    check_refuses(STR("$BARE"), "path references undefined environment variables: BARE");
    check_refuses(STR("/a\0b"), "path holds a NUL byte");
}

TEST(path, knows_home)
{
    static const char *const homeless[] = {"HOME=", NULL};
    AUTO_BUF(out, EXECD_PATH_BYTES_MAX);

    check_expands("~", "/home/ann");
    check_expands("~/f", "/home/ann/f");
    check_expands("~bob/f", "~bob/f");
    check_expands("/a/~", "/a/~");
    check_expands("$TILDE", "/home/ann/x");
    CHECK_EQ(path_expand(STR("~/f"), homeless, &out, NULL), -EINVAL);
}

TEST(path, has_a_ceiling)
{
    AUTO_BUF(out, 8);
    struct err e = {0};

    CHECK_EQ(path_expand(STR("~/123"), env, &out, &e), -ENAMETOOLONG);
    CHECK_EQ(path_expand(STR("/2345678"), env, &out, &e), 0);
    CHECK_EQ(path_clean(STR("/2"), &out, &e), -ENAMETOOLONG);
    CHECK_STR(out.p, "/2345678");
}

static void check_cleans(const char *path, const char *wanted)
{
    AUTO_BUF(out, EXECD_PATH_BYTES_MAX);

    CHECK_EQ(path_clean(str_of(path), &out, NULL), 0);
    CHECK_STR(out.p, wanted);
}

TEST(path, becomes_absolute_and_clean)
{
    CHECK_EQ(chdir("/proc"), 0);
    check_cleans("/", "/");
    check_cleans("//a///b/", "/a/b");
    check_cleans("/a/./b/../c", "/a/c");
    check_cleans("/../..", "/");
    check_cleans("/a/..", "/");
    check_cleans("", "/proc");
    check_cleans("self", "/proc/self");
    check_cleans("../etc/.", "/etc");
}

TEST(path, resolves_in_both_steps)
{
    AUTO_BUF(out, EXECD_PATH_BYTES_MAX);

    CHECK_EQ(path_resolve(STR("~/../$A/"), env, &out, NULL), 0);
    CHECK_STR(out.p, "/home/second");
}

static void check_splits(const char *path, const char *parent, const char *base)
{
    CHECK(str_eq(path_parent(str_of(path)), str_of(parent)));
    CHECK(str_eq(path_base(str_of(path)), str_of(base)));
}

TEST(path, splits_at_the_last_slash)
{
    check_splits("/a/b", "/a", "b");
    check_splits("/a", "/", "a");
    check_splits("/", "/", "/");
    check_splits("a", "", "a");
}
