#include "image/challenge.h"
#include "test.h"

static struct arena arena;
static struct image_challenge c;

static int parse(const char *value)
{
    arena_init(&arena, 1 << 20);
    c = (struct image_challenge){0};
    return image_challenge_parse(&arena, str_of(value), &c, NULL);
}

TEST(challenge, of_a_token_server_is_read)
{
    CHECK_EQ(parse("Bearer realm=\"https://auth.io/token\",service=\"r.io\" , "
                   "scope=\"repository:a/b:pull,push\""),
             0);
    CHECK(c.bearer && !c.basic);
    CHECK_SPAN(c.realm, "https://auth.io/token");
    CHECK_SPAN(c.service, "r.io");
    CHECK_SPAN(c.scope, "repository:a/b:pull,push");
    arena_done(&arena);
}

TEST(challenge, may_offer_more_than_one_way)
{
    CHECK_EQ(parse("Negotiate, basic realm=\"a, \\\"b\\\"\", Bearer realm=x"), 0);
    CHECK(c.bearer && c.basic);
    CHECK_SPAN(c.realm, "x");
    arena_done(&arena);
    CHECK_EQ(parse("Basic"), 0);
    CHECK(c.basic);
    arena_done(&arena);
    CHECK_EQ(parse(""), 0);
    CHECK(!c.basic && !c.bearer);
    arena_done(&arena);
}

TEST(challenge, that_could_mean_two_things_is_refused)
{
    static const char *const bad[] = {
        "Bearer",
        "Bearer realm=\"x",
        "Bearer realm=\"x\\",
        "Bearer realm=",
        "Bearer realm=\"\"",
        "Bearer realm=\"a\",realm=\"b\"",
        "Bearer realm=\"a\" service=\"b\"",
        "Bearer realm=\"a\", Bearer realm=\"b\"",
        "Bearer:realm=\"a\"",
        "=x",
        "\"Bearer\" realm=\"a\"",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (parse(bad[i]) != -EPROTO)
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        arena_done(&arena);
    }
}
