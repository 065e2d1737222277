#include "ingress/servers.h"

#include "test.h"

TEST(servers, are_read_from_toml)
{
    struct servers s;
    struct err e = {0};

    CHECK_EQ(servers_parse(STR("[[servers]]\nname = 'a'\nurl = 'http://127.0.0.1:8080/'\n"
                               "api_key = 'k'\n[[servers]]\nurl = 'https://box.example'\n"
                               "ca_file = '/ca.pem'\n"),
                           "f", &s, &e),
             0);
    CHECK_EQ(s.count, 2);
    CHECK_STR(s.at[0].name, "a");
    CHECK_STR(s.at[0].authority, "127.0.0.1:8080");
    CHECK_STR(s.at[0].api_key, "k");
    CHECK(s.at[0].addr.size && !s.at[0].tls);
    CHECK_STR(s.at[1].name, "box.example:443");
    CHECK(!s.at[1].addr.size && s.at[1].tls);
    CHECK_STR(s.at[1].ca_file, "/ca.pem");
    servers_done(&s);
}

TEST(servers, that_are_none_are_refused)
{
    static const char *const bad[] = {
        "",
        "servers = []",
        "[[servers]]\nname = 'a'",
        "[[servers]]\nurl = 'ftp://x'",
        "[[servers]]\nurl = 'http://x/path'",
        "[[servers]]\nurl = 3",
        "[[servers]]\nurl = 'http://x'\napi_key = \"a\\u000Ab\"",
        "[[servers]]\nurl = 'http://x'\napi_key_file = '/does/not/exist'",
    };
    struct servers s;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e = {0};

        CHECK(servers_parse(str_of(bad[i]), "f", &s, &e) < 0);
        CHECK(e.msg[0]);
    }
}
