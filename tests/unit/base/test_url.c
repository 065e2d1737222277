#include "base/url.h"

#include "base/fault.h"
#include "test.h"

TEST(url, decodes_escapes_of_either_case)
{
    AUTO_BUF(b, 64);

    CHECK_EQ(url_decode(STR("a%20b%2fC%2F%c3%A9+"), 0, &b), 0);
    CHECK_STR(b.p, "a b/C/\xc3\xa9+");
    CHECK_EQ(url_decode(STR("+%2B"), URL_PLUS_IS_SPACE, &b), 0); /* appends */
    CHECK_STR(b.p, "a b/C/\xc3\xa9+ +");
    CHECK_EQ(url_decode(STR(""), 0, &b), 0);
}

TEST(url, refuses_broken_escapes_and_leaves_the_buffer_alone)
{
    static const struct str broken[] = {
        STR_INIT("x%"),   STR_INIT("x%4"),  STR_INIT("x%4g"), STR_INIT("x%g4"), STR_INIT("x%%41"),
        STR_INIT("x%-1"), STR_INIT("x%+1"), STR_INIT("x% 1"), STR_INIT("%00"),  STR_INIT("a\0b")};
    AUTO_BUF(b, 64);

    CHECK_EQ(buf_add(&b, STR("kept")), 0);
    for (size_t i = 0; i < ARRAY_LEN(broken); i++)
        CHECK_EQ(url_decode(broken[i], 0, &b), -EINVAL);
    CHECK_STR(b.p, "kept");
    CHECK_EQ(url_decode(STR("%00"), URL_ALLOW_NUL, &b), 0);
    CHECK_EQ(b.n, 5);
}

TEST(url, fills_a_buffer_to_its_ceiling_and_not_past_it)
{
    AUTO_BUF(b, 3);

    CHECK_EQ(url_decode(STR("%41%42%43"), 0, &b), 0);
    CHECK_STR(b.p, "ABC");
    CHECK_EQ(url_decode(STR("%41"), 0, &b), -EMSGSIZE);
    buf_clear(&b);
    CHECK_EQ(url_encode(STR("a/"), URL_SET_SEGMENT, &b), -EMSGSIZE);
    CHECK_STR(b.p, "");
    CHECK_EQ(url_encode(STR("/"), URL_SET_SEGMENT, &b), 0);
    CHECK_STR(b.p, "%2F");
}

TEST(url, encodes_for_the_place_the_text_will_stand_in)
{
    struct str text = STR("aZ09-._~ /?#[]@!$&'()*+,;=:%^`|\"\xc3\xa9");
    AUTO_BUF(segment, 256);
    AUTO_BUF(query, 256);
    AUTO_BUF(attr, 256);

    CHECK_EQ(url_encode(text, URL_SET_SEGMENT, &segment), 0);
    CHECK_STR(segment.p, "aZ09-._~%20%2F%3F%23%5B%5D@!$&'()*+,;=:%25%5E%60%7C%22%C3%A9");
    CHECK_EQ(url_encode(text, URL_SET_QUERY_VALUE, &query), 0);
    CHECK_STR(query.p, "aZ09-._~%20%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%25%5E%60"
                       "%7C%22%C3%A9");
    CHECK_EQ(url_encode(text, URL_SET_ATTR_CHAR, &attr), 0);
    CHECK_STR(attr.p, "aZ09-._~%20%2F%3F#%5B%5D%40!$&%27%28%29%2A+%2C%3B%3D%3A%25^`|%22%C3%A9");
    buf_clear(&attr);
    CHECK_EQ(url_encode(STR("\0"), URL_SET_ATTR_CHAR, &attr), 0);
    CHECK_STR(attr.p, "%00");
}

TEST(url, walks_a_query_and_keeps_blank_values)
{
    AUTO_ARENA(a, 4096);
    struct url_query_iter it;

    url_query_init(&it, STR("&a=1&&b=&c&=d&a+b=%26%3D+x&e=1;f=2&g=h=i&"), &a);
#define NEXT(k, v)                                                                                 \
    do {                                                                                           \
        CHECK_EQ(url_query_next(&it), 1);                                                          \
        CHECK_SPAN(it.key, k);                                                                     \
        CHECK_SPAN(it.value, v);                                                                   \
    } while (0)
    NEXT("a", "1");
    NEXT("b", "");
    NEXT("c", "");
    NEXT("", "d");
    NEXT("a b", "&= x");
    CHECK_SPAN(it.raw_key, "a+b");
    CHECK_SPAN(it.raw_value, "%26%3D+x");
    NEXT("e", "1;f=2");
    NEXT("g", "h=i");
    CHECK_EQ(url_query_next(&it), 0);
    CHECK_EQ(url_query_next(&it), 0);
    url_query_init(&it, STR_NONE, &a);
    CHECK_EQ(url_query_next(&it), 0);
}

TEST(url, goes_on_behind_a_pair_that_does_not_decode)
{
    AUTO_ARENA(a, 4096);
    struct url_query_iter it;

    url_query_init(&it, STR("a=%&b%0=1&c=3"), &a);
    CHECK_EQ(url_query_next(&it), -EINVAL);
    CHECK_SPAN(it.raw_value, "%");
    CHECK_EQ(url_query_next(&it), -EINVAL);
    CHECK_SPAN(it.raw_key, "b%0");
    CHECK(!it.key.p);
    CHECK_EQ(url_query_next(&it), 1);
    CHECK_SPAN(it.value, "3");
    CHECK_EQ(url_query_next(&it), 0);
}

TEST(url, finds_a_query_value_by_its_decoded_key)
{
    AUTO_ARENA(a, 4096);
    struct str v = STR_NONE;

    CHECK_EQ(url_query_get(STR("x=1&%70ath=%2Ftmp&path=2"), STR("path"), &a, &v), 1);
    CHECK_SPAN(v, "/tmp");
    CHECK_EQ(url_query_get(STR("x=1"), STR("path"), &a, &v), 0);
    CHECK_EQ(url_query_get(STR("%zz=1&path=2"), STR("path"), &a, &v), -EINVAL);
    CHECK_SPAN(v, "/tmp");
    fault_arm(FAULT_ALLOC, 1);
    arena_done(&a);
    CHECK_EQ(url_query_get(STR("path=%41"), STR("path"), &a, &v), -ENOMEM);
}

TEST(url, splits_an_absolute_url)
{
    static const struct {
        const char *text;
        enum url_scheme scheme;
        const char *host;
        int port;
        const char *path, *query; /* NULL = none */
    } rows[] = {
        {"http://a",                      URL_HTTP,  "a",               80,    "",       NULL   },
        {"HTTPS://Example.com/",          URL_HTTPS, "Example.com",     443,   "/",      NULL   },
        {"http://h:8080/a/b?c=d?e#f?g",   URL_HTTP,  "h",               8080,  "/a/b",   "c=d?e"},
        {"ws://127.0.0.1:65535?x",        URL_WS,    "127.0.0.1",       65535, "",       "x"    },
        {"wss://[::1]:1/%2F?",            URL_WSS,   "::1",             1,     "/%2F",   ""     },
        {"http://[fe80::1:2]/x",          URL_HTTP,  "fe80::1:2",       80,    "/x",     NULL   },
        {"http://[::ffff:10.0.0.1]",      URL_HTTP,  "::ffff:10.0.0.1", 80,    "",       NULL   },
        {"http://under_score-1.x:/a@b:c", URL_HTTP,  "under_score-1.x", 80,    "/a@b:c", NULL   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct str text = str_of(rows[i].text);
        struct err e = {0};
        struct url u;

        if (url_split(text, &u, &e) < 0)
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, e.msg);
        CHECK_EQ(u.scheme, rows[i].scheme);
        CHECK(str_eq(u.host, str_of(rows[i].host)));
        CHECK_EQ(u.host_is_ipv6, strchr(rows[i].host, ':') != NULL);
        CHECK_EQ(u.port, rows[i].port);
        CHECK(str_eq(u.path, str_of(rows[i].path)));
        CHECK(u.path.p >= text.p && u.path.p <= text.p + text.n);
        CHECK_EQ(u.query.p != NULL, rows[i].query != NULL);
        CHECK(str_eq(u.query, str_of(rows[i].query)));
    }
}

TEST(url, says_why_it_cannot_split)
{
    static const struct {
        struct str text;
        const char *message;
    } rows[] = {
        {STR_INIT(""),                        "expected a URL that begins with http, https, ws or wss ://"},
        {STR_INIT("http:/a"),                 "expected a URL that begins with http, https, ws or wss ://"},
        {STR_INIT("ftp://a"),                 "expected a URL that begins with http, https, ws or wss ://"},
        {STR_INIT("//a/b"),                   "expected a URL that begins with http, https, ws or wss ://"},
        {STR_INIT("http://"),                 "the URL has no valid host"                                 },
        {STR_INIT("http://:80"),              "the URL has no valid host"                                 },
        {STR_INIT("http:///p"),               "the URL has no valid host"                                 },
        {STR_INIT("http://a%41"),             "the URL has no valid host"                                 },
        {STR_INIT("http://a\\b"),             "the URL has no valid host"                                 },
        {STR_INIT("http://u@h/"),             "a URL with a user name or password is not accepted"        },
        {STR_INIT("http://u:p@h/"),           "a URL with a user name or password is not accepted"        },
        {STR_INIT("http://[::1"),             "the URL has no valid IPv6 address between [ and ]"         },
        {STR_INIT("http://[]"),               "the URL has no valid IPv6 address between [ and ]"         },
        {STR_INIT("http://[1.2.3.4]"),        "the URL has no valid IPv6 address between [ and ]"         },
        {STR_INIT("http://[fe80::1%25eth0]"), "the URL has no valid IPv6 address between [ and ]"         },
        {STR_INIT("http://a:0"),              "expected a port from 1 to 65535 behind the URL's host"     },
        {STR_INIT("http://a:65536"),          "expected a port from 1 to 65535 behind the URL's host"     },
        {STR_INIT("http://a:-1"),             "expected a port from 1 to 65535 behind the URL's host"     },
        {STR_INIT("http://a:8x"),             "expected a port from 1 to 65535 behind the URL's host"     },
        {STR_INIT("http://::1/"),             "the URL has no valid host"                                 },
        {STR_INIT("http://[::1]x"),           "expected a port from 1 to 65535 behind the URL's host"     },
        {STR_INIT("http://a/\r\nX:"),         "byte 10 of the URL must be percent-encoded"                },
        {STR_INIT("http://a/b c"),            "byte 11 of the URL must be percent-encoded"                },
        {STR_INIT("http://a/#\0"),            "byte 11 of the URL must be percent-encoded"                },
        {STR_INIT("http://\xc3\xa9"),         "byte 8 of the URL must be percent-encoded"                 },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct url u = {.port = 7};
        struct err e = {0};

        CHECK_EQ(url_split(rows[i].text, &u, &e), -EINVAL);
        CHECK_STR(e.msg, rows[i].message);
        CHECK_EQ(u.port, 7);
    }
}

TEST(url, refuses_a_host_longer_than_a_name_can_be)
{
    AUTO_BUF(b, 512);
    struct url u;

    CHECK_EQ(buf_addf(&b, "http://%0*d", URL_HOST_BYTES_MAX, 0), 0);
    CHECK_EQ(url_split(buf_str(&b), &u, NULL), 0);
    CHECK_EQ(buf_add_char(&b, '0'), 0);
    CHECK_EQ(url_split(buf_str(&b), &u, NULL), -EINVAL);
}

TEST(url, sees_dot_segments_in_every_spelling)
{
    static const char *const dots[] = {"/.",      "/..",     "/a/../b", "/a/./b", "/%2e",
                                       "/%2E%2e", "/.%2e/x", "/x/%2E.", "..",     "/a/..%2f/%2e"};
    static const char *const none[] = {"/",          "",          "/...",   "/.a", "/a.", "/a..b",
                                       "/%2e%2e%2e", "/..%2fetc", "/%252e", "/%2", "/.%"};

    for (size_t i = 0; i < ARRAY_LEN(dots); i++)
        CHECK(url_path_has_dot_segment(str_of(dots[i])));
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        CHECK(!url_path_has_dot_segment(str_of(none[i])));
}

TEST(url, spells_equal_paths_alike)
{
    AUTO_BUF(b, 64);

    CHECK_EQ(url_path_normalize(STR("/v1/%73and%62oxes/a%2fb%2F/%c3%a9//%25%7e"), &b), 0);
    CHECK_STR(b.p, "/v1/sandboxes/a%2Fb%2F/%C3%A9//%25~");
}

TEST(url, refuses_paths_that_are_not_safe_to_route)
{
    static const struct {
        struct str path;
        int code;
    } rows[] = {
        {STR_INIT(""),          -EINVAL},
        {STR_INIT("a"),         -EINVAL},
        {STR_INIT("*"),         -EINVAL},
        {STR_INIT("/%"),        -EINVAL},
        {STR_INIT("/%4"),       -EINVAL},
        {STR_INIT("/%zz"),      -EINVAL},
        {STR_INIT("/%00"),      -EINVAL},
        {STR_INIT("/a\0"),      -EINVAL},
        {STR_INIT("/a b"),      -EINVAL},
        {STR_INIT("/a?b"),      -EINVAL},
        {STR_INIT("/\xc3\xa9"), -EINVAL},
        {STR_INIT("/a/.."),     -EPERM },
        {STR_INIT("/%2e%2E/"),  -EPERM },
    };
    AUTO_BUF(b, 64);

    CHECK_EQ(buf_add(&b, STR("kept")), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_EQ(url_path_normalize(rows[i].path, &b), rows[i].code);
    CHECK_STR(b.p, "kept");
}
