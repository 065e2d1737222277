#include "net/h1.h"

#include "test.h"

static enum h1_error frame_request(struct str head, struct h1_framing *ret)
{
    struct http_header rows[8];
    struct http_headers room = {rows, 0, ARRAY_LEN(rows)};
    struct h1_request req;

    CHECK_EQ(h1_parse_request(head, &h1_default_limits, &room, &req), H1_OK);
    return h1_request_framing(&req, ret);
}

#define POST_1_1(headers) STR_INIT("POST / HTTP/1.1\r\nHost: h\r\n" headers "\r\n")
#define POST_1_0(headers) STR_INIT("POST / HTTP/1.0\r\n" headers "\r\n")

TEST(h1_framing, has_one_answer_for_every_request)
{
    static const struct {
        const char *name;
        struct str head;
        enum h1_error error;
        enum h1_body body;
        uint64_t body_bytes;
    } rows[] = {
        {"neither",                    POST_1_1(""),                                                    H1_OK,               H1_BODY_NONE,    0 },
        {"neither in 1.0",             POST_1_0(""),                                                    H1_OK,               H1_BODY_NONE,    0 },
        {"length",                     POST_1_1("Content-Length: 5\r\n"),                               H1_OK,               H1_BODY_LENGTH,  5 },
        {"length of nothing",          POST_1_1("content-length:0\r\n"),                                H1_OK,               H1_BODY_LENGTH,  0 },
        {"leading zeros",              POST_1_1("Content-Length: 0010\r\n"),                            H1_OK,               H1_BODY_LENGTH,  10},
        {"largest",                    POST_1_1("Content-Length: 9223372036854775807\r\n"),             H1_OK,               H1_BODY_LENGTH,
         INT64_MAX                                                                                                                              },
        {"too large",                  POST_1_1("Content-Length: 9223372036854775808\r\n"),             H1_LENGTH_TOO_LARGE, 0,
         0                                                                                                                                      },
        {"far too large",              POST_1_1("Content-Length: 99999999999999999999999\r\n"),
         H1_LENGTH_TOO_LARGE,                                                                                                0,               0 },
        {"wraps to 5",                 POST_1_1("Content-Length: 18446744073709551621\r\n"),            H1_LENGTH_TOO_LARGE, 0,
         0                                                                                                                                      },
        {"plus",                       POST_1_1("Content-Length: +5\r\n"),                              H1_BAD_LENGTH,       0,               0 },
        {"minus",                      POST_1_1("Content-Length: -5\r\n"),                              H1_BAD_LENGTH,       0,               0 },
        {"hexadecimal",                POST_1_1("Content-Length: 0x5\r\n"),                             H1_BAD_LENGTH,       0,               0 },
        {"empty",                      POST_1_1("Content-Length:\r\n"),                                 H1_BAD_LENGTH,       0,               0 },
        {"space inside",               POST_1_1("Content-Length: 5 5\r\n"),                             H1_BAD_LENGTH,       0,               0 },
        {"list",                       POST_1_1("Content-Length: 5, 5\r\n"),                            H1_BAD_LENGTH,       0,               0 },
        {"trailing comma",             POST_1_1("Content-Length: 5,\r\n"),                              H1_BAD_LENGTH,       0,               0 },
        {"fraction",                   POST_1_1("Content-Length: 5.0\r\n"),                             H1_BAD_LENGTH,       0,               0 },
        {"twice alike",                POST_1_1("Content-Length: 5\r\nContent-Length: 5\r\n"),          H1_MANY_LENGTHS,     0,
         0                                                                                                                                      },
        {"twice unlike",               POST_1_1("Content-Length: 5\r\ncontent-length: 6\r\n"),          H1_MANY_LENGTHS,     0,
         0                                                                                                                                      },
        {"both",                       POST_1_1("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
         H1_LENGTH_AND_CODING,                                                                                               0,               0 },
        {"both, swapped",              POST_1_1("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
         H1_LENGTH_AND_CODING,                                                                                               0,               0 },
        {"both, odd coding",           POST_1_1("Content-Length: 5\r\nTransfer-Encoding: x\r\n"),
         H1_LENGTH_AND_CODING,                                                                                               0,               0 },
        {"chunked",                    POST_1_1("Transfer-Encoding: chunked\r\n"),                      H1_OK,               H1_BODY_CHUNKED, 0 },
        {"capitals",                   POST_1_1("TRANSFER-ENCODING:\tCHUNKED \r\n"),                    H1_OK,               H1_BODY_CHUNKED, 0 },
        {"chunked in 1.0",             POST_1_0("Transfer-Encoding: chunked\r\n"),                      H1_CODING_IN_1_0,    0,               0 },
        {"twice chunked",              POST_1_1("Transfer-Encoding: chunked, chunked\r\n"),             H1_BAD_CODING,       0,               0 },
        {"twice chunked in two rows",
         POST_1_1("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),                      H1_BAD_CODING,       0,
         0                                                                                                                                      },
        {"chunked not last",           POST_1_1("Transfer-Encoding: chunked, gzip\r\n"),                H1_BAD_CODING,       0,               0 },
        {"chunked not last, two rows",
         POST_1_1("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),                     H1_BAD_CODING,
         0,                                                                                                                                   0 },
        {"gzip, chunked",              POST_1_1("Transfer-Encoding: gzip, chunked\r\n"),                H1_OTHER_CODING,     0,               0 },
        {"gzip",                       POST_1_1("Transfer-Encoding: gzip\r\n"),                         H1_OTHER_CODING,     0,               0 },
        {"identity",                   POST_1_1("Transfer-Encoding: identity\r\n"),                     H1_OTHER_CODING,     0,               0 },
        {"xchunked",                   POST_1_1("Transfer-Encoding: xchunked\r\n"),                     H1_OTHER_CODING,     0,               0 },
        {"quoted",                     POST_1_1("Transfer-Encoding: \"chunked\"\r\n"),                  H1_OTHER_CODING,     0,               0 },
        {"parameter",                  POST_1_1("Transfer-Encoding: chunked;a=b\r\n"),                  H1_OTHER_CODING,     0,               0 },
        {"two words",                  POST_1_1("Transfer-Encoding: chunked foo\r\n"),                  H1_OTHER_CODING,     0,               0 },
        {"no coding",                  POST_1_1("Transfer-Encoding:\r\n"),                              H1_BAD_CODING,       0,               0 },
        {"empty member",               POST_1_1("Transfer-Encoding: , chunked\r\n"),                    H1_BAD_CODING,       0,               0 },
        {"empty member last",          POST_1_1("Transfer-Encoding: chunked,\r\n"),                     H1_BAD_CODING,       0,               0 },
        {"expectation",                POST_1_1("Expect: 200-ok\r\n"),                                  H1_OTHER_EXPECT,     0,               0 },
        {"expectation in 1.0",         POST_1_0("Expect: 200-ok\r\n"),                                  H1_OK,               H1_BODY_NONE,    0 },
        {"empty expectation",          POST_1_1("Expect:\r\n"),                                         H1_OTHER_EXPECT,     0,               0 },
        {"two expectations",           POST_1_1("Expect: 100-continue, x\r\n"),                         H1_OTHER_EXPECT,     0,               0 },
        {"second expectation",         POST_1_1("Expect: 100-continue\r\nExpect: x\r\n"),               H1_OTHER_EXPECT,
         0,                                                                                                                                   0 },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h1_framing framing = {0};
        enum h1_error e = frame_request(rows[i].head, &framing);

        if (e != rows[i].error || framing.body != rows[i].body ||
            framing.body_bytes != rows[i].body_bytes)
            test_fail(__FILE__, __LINE__, "%s: %s, body %d of %" PRIu64, rows[i].name,
                      h1_error_name(e), framing.body, framing.body_bytes);
    }
}

TEST(h1_framing, keeps_connections_alive_as_the_version_says)
{
    static const struct {
        struct str head;
        bool keep_alive;
    } rows[] = {
        {POST_1_1(""),                                                true },
        {POST_1_1("Connection: close\r\n"),                           false},
        {POST_1_1("connection: foo, CLOSE\r\n"),                      false},
        {POST_1_1("Connection: keep-alive\r\nConnection: close\r\n"), false},
        {POST_1_1("Connection: closed\r\n"),                          true },
        {POST_1_1("Connection: upgrade\r\n"),                         true },
        {POST_1_0(""),                                                false},
        {POST_1_0("Connection: Keep-Alive\r\n"),                      true },
        {POST_1_0("Connection: keep-alive, close\r\n"),               false},
        {POST_1_0("Connection: foo\r\nConnection: keep-alive\r\n"),   true },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h1_framing framing;

        CHECK_EQ(frame_request(rows[i].head, &framing), H1_OK);
        if (framing.keep_alive != rows[i].keep_alive)
            test_fail(__FILE__, __LINE__, "row %zu", i);
    }
}

TEST(h1_framing, continues_only_where_a_body_is_waited_for)
{
    static const struct {
        struct str head;
        bool expect_continue;
    } rows[] = {
        {POST_1_1("Content-Length: 5\r\n"),                                  false},
        {POST_1_1("Content-Length: 5\r\nExpect: 100-Continue\r\n"),          true },
        {POST_1_1("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n"), true },
        {POST_1_1("Content-Length: 0\r\nExpect: 100-continue\r\n"),          false},
        {POST_1_1("Expect: 100-continue\r\n"),                               false},
        {POST_1_0("Content-Length: 5\r\nExpect: 100-continue\r\n"),          false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h1_framing framing;

        CHECK_EQ(frame_request(rows[i].head, &framing), H1_OK);
        if (framing.expect_continue != rows[i].expect_continue)
            test_fail(__FILE__, __LINE__, "row %zu", i);
    }
}

TEST(h1_framing, has_one_answer_for_every_response)
{
    static const struct {
        const char *name;
        enum http_method method;
        struct str head;
        enum h1_error error;
        enum h1_body body;
        uint64_t body_bytes;
        bool keep_alive;
    } rows[] = {
        {"length",          HTTP_GET,     STR_INIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),           H1_OK,
         H1_BODY_LENGTH,                                                                                                                         5, true },
        {"chunked",         HTTP_GET,     STR_INIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
         H1_OK,                                                                                                                 H1_BODY_CHUNKED, 0, true },
        {"until close",     HTTP_GET,     STR_INIT("HTTP/1.1 200 OK\r\n\r\n"),                                H1_OK,            H1_BODY_CLOSE,   0,
         false                                                                                                                                           },
        {"close wins",      HTTP_GET,
         STR_INIT("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"),                       H1_OK,
         H1_BODY_LENGTH,                                                                                                                         5, false},
        {"old and kept",    HTTP_GET,
         STR_INIT("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n"),                  H1_OK,
         H1_BODY_LENGTH,                                                                                                                         5, true },
        {"HEAD",            HTTP_HEAD,    STR_INIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),           H1_OK,
         H1_BODY_NONE,                                                                                                                           0, true },
        {"204",             HTTP_GET,     STR_INIT("HTTP/1.1 204 No Content\r\n\r\n"),                        H1_OK,            H1_BODY_NONE,    0,
         true                                                                                                                                            },
        {"304",             HTTP_GET,     STR_INIT("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"), H1_OK,
         H1_BODY_NONE,                                                                                                                           0, true },
        {"100",             HTTP_POST,    STR_INIT("HTTP/1.1 100 Continue\r\n\r\n"),                          H1_OK,            H1_BODY_NONE,    0, true },
        {"101",             HTTP_GET,     STR_INIT("HTTP/1.1 101 Switching Protocols\r\n\r\n"),               H1_OK,            H1_BODY_NONE,
         0,                                                                                                                                         true },
        {"CONNECT",         HTTP_CONNECT, STR_INIT("HTTP/1.1 200 OK\r\n\r\n"),                                H1_OK,            H1_BODY_NONE,    0,
         true                                                                                                                                            },
        {"CONNECT refused", HTTP_CONNECT,
         STR_INIT("HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\n"),                                     H1_OK,            H1_BODY_LENGTH,  5,
         true                                                                                                                                            },
        {"both",            HTTP_GET,
         STR_INIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
         H1_LENGTH_AND_CODING,                                                                                                  0,               0, false},
        {"two lengths",     HTTP_GET,
         STR_INIT("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
         H1_MANY_LENGTHS,                                                                                                       0,               0, false},
        {"bad length",      HTTP_GET,     STR_INIT("HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n"),
         H1_BAD_LENGTH,                                                                                                         0,               0, false},
        {"other coding",    HTTP_GET,     STR_INIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
         H1_OTHER_CODING,                                                                                                       0,               0, false},
        {"chunked in 1.0",  HTTP_GET,
         STR_INIT("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),                                   H1_CODING_IN_1_0, 0,               0,
         false                                                                                                                                           },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header header_rows[8];
        struct http_headers room = {header_rows, 0, ARRAY_LEN(header_rows)};
        struct h1_framing framing = {0};
        struct h1_response res;
        enum h1_error e;

        CHECK_EQ(h1_parse_response(rows[i].head, &h1_default_limits, &room, &res), H1_OK);
        e = h1_response_framing(rows[i].method, &res, &framing);
        if (e != rows[i].error || framing.body != rows[i].body ||
            framing.body_bytes != rows[i].body_bytes || framing.keep_alive != rows[i].keep_alive)
            test_fail(__FILE__, __LINE__, "%s: %s, body %d", rows[i].name, h1_error_name(e),
                      framing.body);
    }
}
