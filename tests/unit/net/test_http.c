#include "net/http.h"

#include "test.h"

TEST(http, knows_methods_by_their_exact_spelling)
{
    for (int m = 0; m < HTTP_OTHER; m++)
        CHECK_EQ(http_method_of(http_method_name((enum http_method)m)), m);
    CHECK_EQ(http_method_of(STR("get")), HTTP_OTHER);
    CHECK_EQ(http_method_of(STR("GETS")), HTTP_OTHER);
    CHECK_EQ(http_method_of(STR("")), HTTP_OTHER);
    CHECK(HTTP_ANY_METHOD & HTTP_BIT(HTTP_OTHER));
    CHECK(HTTP_ANY_METHOD & HTTP_BIT(HTTP_GET));
}

TEST(http, names_statuses)
{
    CHECK_SPAN(http_status_reason(404), "Not Found");
    CHECK_SPAN(http_status_line(200), "HTTP/1.1 200 OK\r\n");
    CHECK_SPAN(http_status_line(511), "HTTP/1.1 511 Network Authentication Required\r\n");
    for (int status = -1; status < 1000; status++)
        CHECK((http_status_line(status).n == 0) == (http_status_reason(status).n == 0));
    CHECK_SPAN(http_status_reason(418), "");
    CHECK(!http_status_line(418).p);
}

TEST(http, finds_headers_in_order_and_without_case)
{
    struct http_header rows[] = {
        {STR("Host"), STR("a")},
        {STR("Via"),  STR("1")},
        {STR("X"),    STR("") },
        {STR("vIA"),  STR("2")},
    };
    struct http_headers headers = {rows, ARRAY_LEN(rows), ARRAY_LEN(rows)};
    const struct http_header *row = http_header_find(&headers, STR("via"));

    CHECK(row == &rows[1]);
    row = http_header_next(&headers, row);
    CHECK(row == &rows[3]);
    CHECK(!http_header_next(&headers, row));
    CHECK_SPAN(http_header_get(&headers, STR("HOST")), "a");
    CHECK(http_header_get(&headers, STR("x")).p); /* empty is not absent */
    CHECK(!http_header_get(&headers, STR("hos")).p);
}

TEST(http, reads_repeated_rows_as_one_token_list)
{
    struct http_header rows[] = {
        {STR("Connection"), STR("keep-alive,\tUpgrade ,")},
        {STR("connection"), STR("x-close")               },
        {STR("CONNECTION"), STR(" Close")                },
    };
    struct http_headers headers = {rows, 2, ARRAY_LEN(rows)};
    const struct str name = STR("connection");

    CHECK(http_headers_have_token(&headers, name, STR("upgrade")));
    CHECK(http_headers_have_token(&headers, name, STR("Keep-Alive")));
    CHECK(!http_headers_have_token(&headers, name, STR("close")));
    headers.count = 3;
    CHECK(http_headers_have_token(&headers, name, STR("close")));
    CHECK(!http_token_list_has(STR("keep alive"), STR("alive")));
    CHECK(!http_token_list_has(STR(""), STR("close")));
}

TEST(http, knows_which_bytes_make_tokens_and_values)
{
    for (int c = 0; c < 256; c++) {
        char byte = (char)c, line[] = "12345678abcdefghijk";
        bool token = c && strchr("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                 "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                                 c);
        bool value = c == '\t' || (c >= 32 && c != 127);

        CHECK_EQ(http_is_token(str_make(&byte, 1)), token);
        CHECK_EQ(http_is_value(str_make(&byte, 1)), value);
        for (size_t at = 0; at + 1 < sizeof(line); at++) { /* at every place of a machine word */
            char kept = line[at];

            line[at] = byte;
            CHECK_EQ(http_is_value(str_make(line, sizeof(line) - 1)), value);
            line[at] = kept;
        }
    }
    CHECK(!http_is_token(STR("")));
    CHECK(http_is_value(STR("")));
    CHECK(http_is_value(STR("\t\t\t\t\t\t\t\t\t\tx\x80\xff\x80\x80\x80\x80\x80\x80")));
    CHECK(!http_is_value(STR("\t\t\t\t\x80\x80\x80\x80\x80\x80\x80\x7f")));
}

TEST(http, knows_hosts)
{
    static const char *const good[] = {"a",     "example.com",     "a_b-c.d~e:80", "127.0.0.1:8080",
                                       "[::1]", "[2001:db8::1]:1", "host:",        "h:65535"};
    static const char *const bad[] = {"",     ":80",   "a b",   "user@host", "a/b",     "[::1",
                                      "::1",  "[]",    "a:b",   "h:65536",   "h:80:80", "[::1]x",
                                      "a,b",  "a%41",  "[g::]", "a\tb",      "a:+1",    "h:000080",
                                      "[:]a", "\x80z", "a\\b",  "[::1%25x]", "a?b",     "a#b"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!http_is_authority(str_of(good[i])))
            test_fail(__FILE__, __LINE__, "\"%s\" is refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (http_is_authority(str_of(bad[i])))
            test_fail(__FILE__, __LINE__, "\"%s\" is accepted", bad[i]);
}

TEST(http, picks_the_first_satisfiable_range)
{
    static const struct {
        const char *value;
        uint64_t size;
        int r;
        uint64_t offset, bytes;
    } rows[] = {
        {"bytes=0-4",                                       6,         0,       0, 5        },
        {"bytes=0-0",                                       6,         0,       0, 1        },
        {"bytes=2-99",                                      6,         0,       2, 4        },
        {"bytes=2-5",                                       6,         0,       2, 4        },
        {"bytes=5-",                                        6,         0,       5, 1        },
        {"bytes=0-",                                        6,         0,       0, 6        },
        {"bytes=-2",                                        6,         0,       4, 2        },
        {"bytes=-6",                                        6,         0,       0, 6        },
        {"bytes=-7",                                        6,         0,       0, 6        },
        {"Bytes=0-1",                                       6,         0,       0, 2        },
        {"bytes=9-10, 1-2, 3-4",                            6,         0,       1, 2        },
        {"bytes= 1-2 ,\t3-4",                               6,         0,       1, 2        },
        {"bytes=,,1-2,",                                    6,         0,       1, 2        },
        {"bytes=-0,2-",                                     6,         0,       2, 4        },
        {"bytes=0-18446744073709551615",                    6,         0,       0, 6        },
        {"bytes=0-99999999999999999999999",                 6,         0,       0, 6        },
        {"bytes=-99999999999999999999999",                  6,         0,       0, 6        },
        {"bytes=0-9223372036854775806",                     INT64_MAX, 0,       0, INT64_MAX},
        {"bytes=6-",                                        6,         -ERANGE, 0, 0        },
        {"bytes=6-7,8-",                                    6,         -ERANGE, 0, 0        },
        {"bytes=-0",                                        6,         -ERANGE, 0, 0        },
        {"bytes=99999999999999999999999-",                  6,         -ERANGE, 0, 0        },
        {"bytes=18446744073709551615-18446744073709551616", 6,         -ERANGE, 0, 0        },
        {"bytes=0-",                                        0,         -ERANGE, 0, 0        },
        {"bytes=-1",                                        0,         -ERANGE, 0, 0        },
        {"bytes=5-2",                                       6,         -EINVAL, 0, 0        },
        {"bytes=0-1,5-2",                                   6,         -EINVAL, 0, 0        },
        {"bytes=0-1,x",                                     6,         -EINVAL, 0, 0        },
        {"bytes=a-b",                                       6,         -EINVAL, 0, 0        },
        {"bytes=1",                                         6,         -EINVAL, 0, 0        },
        {"bytes=-",                                         6,         -EINVAL, 0, 0        },
        {"bytes=--1",                                       6,         -EINVAL, 0, 0        },
        {"bytes=1--2",                                      6,         -EINVAL, 0, 0        },
        {"bytes=+1-2",                                      6,         -EINVAL, 0, 0        },
        {"bytes=1 - 2",                                     6,         -EINVAL, 0, 0        },
        {"bytes=0x1-2",                                     6,         -EINVAL, 0, 0        },
        {"bytes=",                                          6,         -EINVAL, 0, 0        },
        {"bytes=,",                                         6,         -EINVAL, 0, 0        },
        {"bytes",                                           6,         -EINVAL, 0, 0        },
        {"bytes =0-1",                                      6,         -EINVAL, 0, 0        },
        {"lines=0-1",                                       6,         -EINVAL, 0, 0        },
        {"",                                                6,         -EINVAL, 0, 0        },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_range got = {0, 0};
        int r = http_range_parse(str_of(rows[i].value), rows[i].size, &got);

        if (r != rows[i].r || got.offset != rows[i].offset || got.bytes != rows[i].bytes)
            test_fail(__FILE__, __LINE__, "\"%s\": %d %" PRIu64 "+%" PRIu64, rows[i].value, r,
                      got.offset, got.bytes);
    }
}

TEST(http, knows_which_headers_a_person_may_add)
{
    const struct http_header good = {STR("Authorization"), STR("Bearer x")};
    static const struct http_header bad[] = {
        {STR_INIT("Content-Length"), STR_INIT("1")   },
        {STR_INIT("hOST"),           STR_INIT("a")   },
        {STR_INIT("a b"),            STR_INIT("c")   },
        {STR_INIT(""),               STR_INIT("c")   },
        {STR_INIT("a"),              STR_INIT("b\nc")},
        {STR_INIT("a"),              {NULL, 0}       },
    };

    CHECK(http_header_is_free(&good));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (http_header_is_free(&bad[i]))
            test_fail(__FILE__, __LINE__, "row %zu", i);
}
