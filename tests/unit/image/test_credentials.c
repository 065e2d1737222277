#include "image/credentials.h"
#include "test.h"

static struct arena arena;
static struct image_auth auth;
static struct err e;

static int find(const char *text, const char *registry, const char *repository)
{
    arena_init(&arena, 4 << 20);
    auth = (struct image_auth){0};
    e = (struct err){0};
    return image_credentials_find(&arena, str_of(text), str_of(registry), str_of(repository), &auth,
                                  &e);
}

TEST(credentials, are_found_by_registry)
{
    static const char text[] =
        "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"bWU6cHc=\"},"
        "\"r.io\":{\"username\":\"u\",\"password\":\"p:q\"},"
        "\"r.io/team\":{\"username\":\"t\",\"password\":\"x\"},"
        "\"t.io\":{\"auth\":\"bWU6\",\"identitytoken\":\"tok\"},"
        "\"empty.io\":{}}}";

    CHECK_EQ(find(text, "docker.io", "library/python"), 1);
    CHECK_SPAN(auth.username, "me");
    CHECK_SPAN(auth.password, "pw");
    arena_done(&arena);
    CHECK_EQ(find(text, "r.io", "other/app"), 1);
    CHECK_SPAN(auth.username, "u");
    CHECK_SPAN(auth.password, "p:q");
    arena_done(&arena);
    CHECK_EQ(find(text, "r.io", "team/app"), 1);
    CHECK_SPAN(auth.username, "t");
    arena_done(&arena);
    CHECK_EQ(find(text, "r.io", "teams/app"), 1);
    CHECK_SPAN(auth.username, "u");
    arena_done(&arena);
    CHECK_EQ(find(text, "t.io", "a"), 1);
    CHECK_SPAN(auth.identity_token, "tok");
    arena_done(&arena);
    CHECK_EQ(find(text, "empty.io", "a"), 0);
    arena_done(&arena);
    CHECK_EQ(find(text, "none.io", "a"), 0);
    arena_done(&arena);
}

TEST(credentials, of_helpers_are_refused_by_name)
{
    CHECK_EQ(find("{\"credsStore\":\"desktop\"}", "r.io", "a"), -ENOTSUP);
    CHECK(strstr(e.msg, "'desktop'") != NULL);
    arena_done(&arena);
    CHECK_EQ(find("{\"credHelpers\":{\"r.io\":\"gcr\"}}", "r.io", "a"), -ENOTSUP);
    arena_done(&arena);
    CHECK_EQ(find("{\"credHelpers\":{\"r.io\":\"gcr\"}}", "s.io", "a"), 0);
    arena_done(&arena);
    CHECK_EQ(
        find("{\"auths\":{\"r.io\":{\"auth\":\"bWU6cHc=\"}},\"credsStore\":\"x\"}", "r.io", "a"),
        1);
    arena_done(&arena);
}

TEST(credentials, that_make_no_sense_are_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"auths\":[]}",
        "{\"auths\":{\"r.io\":7}}",
        "{\"auths\":{\"r.io\":{\"auth\":7}}}",
        "{\"auths\":{\"r.io\":{\"auth\":\"!!\"}}}",
        "{\"auths\":{\"r.io\":{\"auth\":\"bWU=\"}}}",
        "{\"auths\":{\"r.io\":{\"username\":\"a:b\",\"password\":\"c\"}}}",
        "{\"auths\":{\"r.io\":{\"username\":\"a\\n\",\"password\":\"c\"}}}",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (find(bad[i], "r.io", "a") != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        CHECK(e.msg[0]);
        arena_done(&arena);
    }
}

TEST(credentials, of_a_request_are_checked)
{
    CHECK_EQ(image_auth_check(&(struct image_auth){0}, NULL), 0);
    CHECK_EQ(image_auth_check(&(struct image_auth){.password = STR("x")}, NULL), -EINVAL);
    CHECK_EQ(image_auth_check(&(struct image_auth){.username = STR("a:b")}, NULL), -EINVAL);
    CHECK_EQ(image_auth_check(
                 &(struct image_auth){.username = STR("a"), .password = STR("x\r\nHost: b")}, NULL),
             -EINVAL);
}
