#include "net/redis.h"

#include "test.h"

static struct redis_dsn dsn(const char *text)
{
    struct redis_dsn d;
    struct err e = {0};

    if (redis_dsn_parse(str_of(text), &d, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", text, e.msg);
    return d;
}

TEST(redis, reads_dsns)
{
    struct redis_dsn d = dsn("redis://127.0.0.1:6380/3");

    CHECK_STR(d.host, "127.0.0.1");
    CHECK_EQ(d.port, 6380);
    CHECK_EQ(d.db, 3);
    CHECK(!d.tls && !d.is_path && !d.user[0] && !d.password[0]);
    d = dsn("rediss://me:p%40ss@redis.example");
    CHECK(d.tls);
    CHECK_STR(d.user, "me");
    CHECK_STR(d.password, "p@ss");
    CHECK_STR(d.host, "redis.example");
    CHECK_EQ(d.port, 6379);
    CHECK_EQ(d.db, 0);
    d = dsn("redis://:secret@[::1]:1/");
    CHECK_STR(d.user, "");
    CHECK_STR(d.password, "secret");
    CHECK_STR(d.host, "::1");
    d = dsn("unix://u:p@/run/redis.sock?db=2");
    CHECK(d.is_path);
    CHECK_STR(d.host, "/run/redis.sock");
    CHECK_EQ(d.db, 2);
    d = dsn("redis://");
    CHECK_STR(d.host, "localhost");
}

TEST(redis, refuses_what_is_no_dsn)
{
    static const char *const bad[] = {
        "",
        "http://x",
        "redis:/x",
        "redis://x:0",
        "redis://x:y",
        "redis://x/a",
        "redis://[::1",
        "unix://",
        "unix://relative",
        "redis://%zz@x",
        "redis://x/99999999",
        "unix:///x?db=a",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct redis_dsn d;
        struct err e = {0};

        if (redis_dsn_parse(str_of(bad[i]), &d, &e) != -EINVAL)
            test_fail(__FILE__, __LINE__, "%s was read", bad[i]);
        CHECK(e.msg[0]);
    }
}
