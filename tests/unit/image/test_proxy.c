#include "image/proxy.h"
#include "test.h"

static struct image_proxy proxy;
static struct err e;

static int ask(struct image_proxy_conf conf, const char *url)
{
    static struct arena arena;
    struct url to;

    arena_done(&arena);
    arena_init(&arena, 1 << 20);
    e = (struct err){0};
    CHECK_EQ(url_split(str_of(url), &to, NULL), 0);
    return image_proxy_for(&conf, &to, &arena, &proxy, &e);
}

TEST(proxy, goes_by_scheme)
{
    struct image_proxy_conf conf = {.http = "http://a:1", .https = "b:2"};

    CHECK_EQ(ask(conf, "http://r.io/"), 0);
    CHECK_SPAN(proxy.host, "a");
    CHECK_EQ(proxy.port, 1);
    CHECK_EQ(ask(conf, "https://r.io/"), 0);
    CHECK_SPAN(proxy.host, "b");
    CHECK_EQ(proxy.port, 2);
    conf.https = "";
    CHECK_EQ(ask(conf, "https://r.io/"), 0);
    CHECK(!proxy.host.p);
}

TEST(proxy, may_want_a_password)
{
    CHECK_EQ(ask((struct image_proxy_conf){.http = "http://u:p%40@a"}, "http://r.io/"), 0);
    CHECK_SPAN(proxy.auth, "Basic dTpwQA==");
    CHECK_SPAN(proxy.host, "a");
    CHECK_EQ(proxy.port, 80);
}

TEST(proxy, has_exceptions)
{
    static const struct {
        const char *no, *url;
        bool direct;
    } rows[] = {
        {"",                "http://r.io/",           false},
        {"*",               "http://r.io/",           true },
        {"r.io",            "http://r.io/",           true },
        {"r.io",            "http://a.r.io/",         true },
        {".r.io",           "http://a.r.io/",         true },
        {"*.r.io",          "http://a.r.io/",         true },
        {"r.io",            "http://ar.io/",          false},
        {"x, r.io:5000 ,y", "http://r.io:5000/",      true },
        {"r.io:5000",       "http://r.io:5001/",      false},
        {"10.0.0.1",        "http://10.0.0.1/",       true },
        {"",                "http://localhost:5000/", true },
        {"",                "http://127.1.2.3/",      true },
        {"",                "http://[::1]:5000/",     true },
        {"fe80::1",         "http://[fe80::1]/",      true },
        {",,",              "http://r.io/",           false},
        {"10.0.0.0/8",      "http://10.1.2.3:5000/",  true },
        {"10.0.0.0/8",      "http://11.1.2.3/",       false},
        {"10.32.0.0/11",    "http://10.63.0.1/",      true },
        {"10.32.0.0/11",    "http://10.64.0.1/",      false},
        {"0.0.0.0/0",       "http://8.8.8.8/",        true },
        {"0.0.0.0/0",       "http://[fd00::1]/",      false},
        {"10.0.0.1/32",     "http://10.0.0.1/",       true },
        {"10.0.0.0/33",     "http://10.0.0.1/",       false},
        {"10.0.0.0/",       "http://10.0.0.1/",       false},
        {"10.0.0.0/8",      "http://10.corp/",        false},
        {"fd00::/8",        "http://[fd12::1]/",      true },
        {"fd00::/8",        "http://[fe80::1]/",      false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct image_proxy_conf conf = {.http = "a:1", .no = rows[i].no};

        CHECK_EQ(ask(conf, rows[i].url), 0);
        if (rows[i].direct != !proxy.host.p)
            test_fail(__FILE__, __LINE__, "%s with '%s'", rows[i].url, rows[i].no);
    }
}

TEST(proxy, that_is_none_is_refused)
{
    static const char *const bad[] = {"socks5://a:1", "https://a:1", "http://",
                                      "a:0",          "a:x",         "http://u%zz@a:1"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK_EQ(ask((struct image_proxy_conf){.http = bad[i]}, "http://r.io/"), -EINVAL);
        CHECK(e.msg[0]);
    }
}
