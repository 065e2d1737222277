#include "net/h1.h"

#include "test.h"

#define HOST "Host: h\r\n"

static enum h1_error parse(struct str in, struct http_headers *room, struct h1_request *ret)
{
    struct h1_scan scan = {0};
    struct str head;
    enum h1_error e = h1_find_head(in, &h1_default_limits, &scan, &head);

    return e ? e : h1_parse_request(head, &h1_default_limits, room, ret);
}

struct verdict {
    const char *name;
    struct str bytes;
    enum h1_error error;
};

static void check_verdicts(const struct verdict *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct http_header header_rows[8];
        struct http_headers room = {header_rows, 0, ARRAY_LEN(header_rows)};
        struct h1_request req;
        enum h1_error e = parse(rows[i].bytes, &room, &req);

        if (e != rows[i].error)
            test_fail(__FILE__, __LINE__, "%s: %s, not %s", rows[i].name, h1_error_name(e),
                      h1_error_name(rows[i].error));
    }
}

TEST(h1, parses_a_request_in_place)
{
    const struct str in = STR("POST /a/b?c=d&e HTTP/1.1\r\nHost: h:80\r\nX-Empty:\r\n"
                              "x-spaces: \t a b\t \r\nCONTENT-length: 3\r\n\r\nabcGET");
    struct http_header rows[8];
    struct http_headers room = {rows, 0, ARRAY_LEN(rows)};
    struct h1_scan scan = {0};
    struct h1_request req;
    struct str head;

    CHECK_EQ(h1_find_head(in, &h1_default_limits, &scan, &head), H1_OK);
    CHECK_EQ(head.p - in.p + head.n, in.n - 6);
    CHECK_EQ(h1_parse_request(head, &h1_default_limits, &room, &req), H1_OK);
    CHECK_EQ(req.method, HTTP_POST);
    CHECK_EQ(req.form, H1_ORIGIN_FORM);
    CHECK_EQ(req.minor, 1);
    CHECK_SPAN(req.method_name, "POST");
    CHECK_SPAN(req.target, "/a/b?c=d&e");
    CHECK_SPAN(req.path, "/a/b");
    CHECK_SPAN(req.query, "c=d&e");
    CHECK_SPAN(req.host, "h:80");
    CHECK_EQ(req.headers.count, 4);
    CHECK_SPAN(rows[1].name, "X-Empty");
    CHECK_SPAN(rows[1].value, "");
    CHECK_SPAN(rows[2].value, "a b");
    CHECK_EQ(req.fields.count[H1_CONTENT_LENGTH], 1);
    CHECK_SPAN(req.fields.value[H1_CONTENT_LENGTH], "3");
    CHECK(!req.fields.value[H1_EXPECT].p);
}

TEST(h1, knows_the_four_forms_of_target)
{
    static const struct {
        struct str line, path, query, host;
        enum h1_target_form form;
    } rows[] = {
        {STR_INIT("GET /"),              STR_INIT("/"),  {NULL, 0},               STR_INIT("h"),     H1_ORIGIN_FORM   },
        {STR_INIT("GET /?"),             STR_INIT("/"),  STR_INIT(""),            STR_INIT("h"),     H1_ORIGIN_FORM   },
        {STR_INIT("GET //x/../%zz"),
         STR_INIT("//x/../%zz"),
         {NULL, 0},
         STR_INIT("h"),
         H1_ORIGIN_FORM                                                                                               },
        {STR_INIT("GET /x?u=http://y/"), STR_INIT("/x"), STR_INIT("u=http://y/"), STR_INIT("h"),
         H1_ORIGIN_FORM                                                                                               },
        {STR_INIT("GET http://o:1/p?q"), STR_INIT("/p"), STR_INIT("q"),           STR_INIT("o:1"),
         H1_ABSOLUTE_FORM                                                                                             },
        {STR_INIT("GET HTTPS://[::1]"),
         STR_INIT("/"),
         {NULL, 0},
         STR_INIT("[::1]"),
         H1_ABSOLUTE_FORM                                                                                             },
        {STR_INIT("GET http://o?q"),     STR_INIT("/"),  STR_INIT("q"),           STR_INIT("o"),     H1_ABSOLUTE_FORM },
        {STR_INIT("CONNECT o:443"),      STR_INIT(""),   {NULL, 0},               STR_INIT("o:443"), H1_AUTHORITY_FORM},
        {STR_INIT("OPTIONS *"),          STR_INIT("*"),  {NULL, 0},               STR_INIT("h"),     H1_ASTERISK_FORM },
        {STR_INIT("PURGE /"),            STR_INIT("/"),  {NULL, 0},               STR_INIT("h"),     H1_ORIGIN_FORM   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header header_rows[8];
        struct http_headers room = {header_rows, 0, ARRAY_LEN(header_rows)};
        struct h1_request req;
        char in[200];
        int n = snprintf(in, sizeof(in), "%s HTTP/1.1\r\n" HOST "\r\n", rows[i].line.p);

        CHECK_EQ(parse(str_make(in, (size_t)n), &room, &req), H1_OK);
        CHECK_EQ(req.form, rows[i].form);
        CHECK(str_eq(req.path, rows[i].path));
        CHECK(str_eq(req.query, rows[i].query));
        CHECK_EQ(!req.query.p, !rows[i].query.p);
        CHECK(str_eq(req.host, rows[i].host));
    }
}

TEST(h1, refuses_what_line_ends_can_hide)
{
    static const struct verdict rows[] = {
        {"LF only",                   STR_INIT("GET / HTTP/1.1\nHost: h\n\n"),                H1_BARE_LF},
        {"LF after the request line", STR_INIT("GET / HTTP/1.1\n" HOST "\r\n"),               H1_BARE_LF},
        {"LF after a header",         STR_INIT("GET / HTTP/1.1\r\nHost: h\n\r\n"),            H1_BARE_LF},
        {"LF as the empty line",      STR_INIT("GET / HTTP/1.1\r\n" HOST "\n"),               H1_BARE_LF},
        {"LF in a value",             STR_INIT("GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n"),    H1_BARE_LF},
        {"LF first",                  STR_INIT("\nGET / HTTP/1.1\r\n" HOST "\r\n"),           H1_BARE_LF},
        {"CR in a value",             STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\rb\r\n\r\n"),  H1_BARE_CR},
        {"CR CR LF",                  STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\r\r\n\r\n"),   H1_BARE_CR},
        {"CR in a name",              STR_INIT("GET / HTTP/1.1\r\n" HOST "X\rY: a\r\n\r\n"),  H1_BARE_CR},
        {"CR in the target",          STR_INIT("GET /\r HTTP/1.1\r\n" HOST "\r\n"),           H1_BARE_CR},
        {"CR behind the version",     STR_INIT("GET / HTTP/1.1\r\r\n" HOST "\r\n"),           H1_BARE_CR},
        {"CR for CRLF",               STR_INIT("GET / HTTP/1.1\rHost: h\r\n\r\n"),            H1_BARE_CR},
        {"CR first",                  STR_INIT("\rGET / HTTP/1.1\r\n" HOST "\r\n"),           H1_BARE_CR},
        {"one empty line",            STR_INIT("\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),         H1_OK     },
        {"two empty lines",           STR_INIT("\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),     H1_OK     },
        {"three empty lines",         STR_INIT("\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"),
         H1_EMPTY_LINES                                                                                 },
        {"CR LF CR at the end",       STR_INIT("GET / HTTP/1.1\r\n" HOST "\r"),               H1_AGAIN  },
        {"CR CR LF at the end",       STR_INIT("GET / HTTP/1.1\r\n" HOST "\r\r\n\r\n"),       H1_BARE_CR},
    };

    check_verdicts(rows, ARRAY_LEN(rows));
}

TEST(h1, refuses_malformed_headers)
{
    static const struct verdict rows[] = {
        {"folding with space",             STR_INIT("GET / HTTP/1.1\r\n" HOST " X: y\r\n\r\n"),           H1_OBS_FOLD       },
        {"folding with tab",               STR_INIT("GET / HTTP/1.1\r\n" HOST "\tz\r\n\r\n"),             H1_OBS_FOLD       },
        {"space behind the request line",  STR_INIT("GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
         H1_OBS_FOLD                                                                                                        },
        {"space before colon",             STR_INIT("GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
         H1_SPACE_BEFORE_COLON                                                                                              },
        {"tab before colon",
         STR_INIT("GET / HTTP/1.1\r\n" HOST "Transfer-Encoding\t: chunked\r\n"
                  "\r\n"),
         H1_SPACE_BEFORE_COLON                                                                                              },
        {"space in a name",                STR_INIT("GET / HTTP/1.1\r\n" HOST "X Y: z\r\n\r\n"),
         H1_BAD_HEADER_NAME                                                                                                 },
        {"empty name",                     STR_INIT("GET / HTTP/1.1\r\n" HOST ": z\r\n\r\n"),             H1_BAD_HEADER_NAME},
        {"NUL in a name",                  STR_INIT("GET / HTTP/1.1\r\n" HOST "X\0: z\r\n\r\n"),          H1_BAD_HEADER_NAME},
        {"VT before a name",               STR_INIT("GET / HTTP/1.1\r\n" HOST "\vX: z\r\n\r\n"),
         H1_BAD_HEADER_NAME                                                                                                 },
        {"non-ASCII name",                 STR_INIT("GET / HTTP/1.1\r\n" HOST "\xc3\xa9: z\r\n\r\n"),
         H1_BAD_HEADER_NAME                                                                                                 },
        {"quoted name",                    STR_INIT("GET / HTTP/1.1\r\n" HOST "\"X\": z\r\n\r\n"),        H1_BAD_HEADER_NAME},
        {"no colon",                       STR_INIT("GET / HTTP/1.1\r\n" HOST "nonsense\r\n\r\n"),        H1_NO_COLON       },
        {"NUL in a value",                 STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n"),
         H1_BAD_VALUE_BYTE                                                                                                  },
        {"VT in a value",                  STR_INIT("GET / HTTP/1.1\r\n" HOST "X: \vchunked\r\n\r\n"),
         H1_BAD_VALUE_BYTE                                                                                                  },
        {"ESC in a value",                 STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\033[0m\r\n\r\n"),
         H1_BAD_VALUE_BYTE                                                                                                  },
        {"DEL in a value",                 STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\x7f\r\n\r\n"),
         H1_BAD_VALUE_BYTE                                                                                                  },
        {"tab and UTF-8 in a value",       STR_INIT("GET / HTTP/1.1\r\n" HOST "X: a\tb\xc3\xa9\r\n\r\n"),
         H1_OK                                                                                                              },
        {"no Host",                        STR_INIT("GET / HTTP/1.1\r\n\r\n"),                            H1_NO_HOST        },
        {"no Host but an absolute target", STR_INIT("GET http://h/ HTTP/1.1\r\n\r\n"),                    H1_NO_HOST        },
        {"no Host in 1.0",                 STR_INIT("GET / HTTP/1.0\r\n\r\n"),                            H1_OK             },
        {"two Hosts",                      STR_INIT("GET / HTTP/1.1\r\n" HOST "hOST: h\r\n\r\n"),         H1_MANY_HOSTS     },
        {"two Hosts in 1.0",               STR_INIT("GET / HTTP/1.0\r\n" HOST HOST "\r\n"),               H1_MANY_HOSTS     },
        {"empty Host",                     STR_INIT("GET / HTTP/1.1\r\nHost:\r\n\r\n"),                   H1_BAD_HOST       },
        {"Host list",                      STR_INIT("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),              H1_BAD_HOST       },
        {"Host with user",                 STR_INIT("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),               H1_BAD_HOST       },
        {"Host with path",                 STR_INIT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),               H1_BAD_HOST       },
        {"nine headers in room for eight",
         STR_INIT("GET / HTTP/1.1\r\n" HOST "a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n"),
         H1_TOO_MANY_HEADERS                                                                                                },
        {"eight headers",
         STR_INIT("GET / HTTP/1.1\r\n" HOST "a:\r\na:\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n"),
         H1_OK                                                                                                              },
    };

    check_verdicts(rows, ARRAY_LEN(rows));
}

TEST(h1, refuses_malformed_request_lines)
{
    static const struct verdict rows[] = {
        {"no target",                STR_INIT("GET HTTP/1.1\r\n" HOST "\r\n"),                                 H1_BAD_START_LINE },
        {"HTTP/0.9",                 STR_INIT("GET /\r\n\r\n"),                                                H1_BAD_START_LINE },
        {"two spaces",               STR_INIT("GET  / HTTP/1.1\r\n" HOST "\r\n"),                              H1_BAD_START_LINE },
        {"two spaces behind",        STR_INIT("GET /  HTTP/1.1\r\n" HOST "\r\n"),                              H1_BAD_VERSION    },
        {"tab",                      STR_INIT("GET\t/ HTTP/1.1\r\n" HOST "\r\n"),                              H1_BAD_METHOD     },
        {"no method",                STR_INIT(" / HTTP/1.1\r\n" HOST "\r\n"),                                  H1_BAD_METHOD     },
        {"method with brace",        STR_INIT("G{T / HTTP/1.1\r\n" HOST "\r\n"),                               H1_BAD_METHOD     },
        {"method of 32",             STR_INIT("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1\r\n" HOST "\r\n"),
         H1_OK                                                                                                                   },
        {"method of 33",             STR_INIT("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST "\r\n"),
         H1_BAD_METHOD                                                                                                           },
        {"TLS hello",                STR_INIT("\x16\x03\x01\x02\x00\r\n\r\n"),                                 H1_BAD_METHOD     },
        {"space in the target",      STR_INIT("GET /a b HTTP/1.1\r\n" HOST "\r\n"),                            H1_BAD_VERSION    },
        {"tab in the target",        STR_INIT("GET /a\tb HTTP/1.1\r\n" HOST "\r\n"),                           H1_BAD_TARGET_BYTE},
        {"NUL in the target",        STR_INIT("GET /a\0b HTTP/1.1\r\n" HOST "\r\n"),                           H1_BAD_TARGET_BYTE},
        {"DEL in the target",        STR_INIT("GET /a\x7f HTTP/1.1\r\n" HOST "\r\n"),                          H1_BAD_TARGET_BYTE},
        {"UTF-8 in the target",      STR_INIT("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"),
         H1_BAD_TARGET_BYTE                                                                                                      },
        {"fragment",                 STR_INIT("GET /a#b HTTP/1.1\r\n" HOST "\r\n"),                            H1_FRAGMENT       },
        {"relative",                 STR_INIT("GET a/b HTTP/1.1\r\n" HOST "\r\n"),                             H1_BAD_TARGET     },
        {"other scheme",             STR_INIT("GET ftp://h/ HTTP/1.1\r\n" HOST "\r\n"),                        H1_BAD_TARGET     },
        {"absolute without host",    STR_INIT("GET http:///x HTTP/1.1\r\n" HOST "\r\n"),                       H1_BAD_HOST       },
        {"absolute with user",       STR_INIT("GET http://u@h/ HTTP/1.1\r\n" HOST "\r\n"),                     H1_BAD_HOST       },
        {"authority for GET",        STR_INIT("GET h:80 HTTP/1.1\r\n" HOST "\r\n"),                            H1_TARGET_FORM    },
        {"asterisk for GET",         STR_INIT("GET * HTTP/1.1\r\n" HOST "\r\n"),                               H1_TARGET_FORM    },
        {"path for CONNECT",         STR_INIT("CONNECT / HTTP/1.1\r\n" HOST "\r\n"),                           H1_TARGET_FORM    },
        {"CONNECT without port",     STR_INIT("CONNECT h HTTP/1.1\r\n" HOST "\r\n"),                           H1_BAD_HOST       },
        {"CONNECT with empty port",  STR_INIT("CONNECT h: HTTP/1.1\r\n" HOST "\r\n"),                          H1_BAD_HOST       },
        {"CONNECT to [::1]",         STR_INIT("CONNECT [::1] HTTP/1.1\r\n" HOST "\r\n"),                       H1_BAD_HOST       },
        {"CONNECT to a URL",         STR_INIT("CONNECT http://h/ HTTP/1.1\r\n" HOST "\r\n"),                   H1_BAD_HOST       },
        {"1.2",                      STR_INIT("GET / HTTP/1.2\r\n" HOST "\r\n"),                               H1_OTHER_VERSION  },
        {"2.0",                      STR_INIT("GET / HTTP/2.0\r\n" HOST "\r\n"),                               H1_OTHER_VERSION  },
        {"0.9",                      STR_INIT("GET / HTTP/0.9\r\n" HOST "\r\n"),                               H1_OTHER_VERSION  },
        {"HTTP/2 preface",           STR_INIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),                             H1_HTTP2_PREFACE  },
        {"small letters",            STR_INIT("GET / http/1.1\r\n" HOST "\r\n"),                               H1_BAD_VERSION    },
        {"1.10",                     STR_INIT("GET / HTTP/1.10\r\n" HOST "\r\n"),                              H1_BAD_VERSION    },
        {"11",                       STR_INIT("GET / HTTP/11\r\n" HOST "\r\n"),                                H1_BAD_VERSION    },
        {"1.",                       STR_INIT("GET / HTTP/1.\r\n" HOST "\r\n"),                                H1_BAD_VERSION    },
        {"space behind the version", STR_INIT("GET / HTTP/1.1 \r\n" HOST "\r\n"),                              H1_BAD_VERSION    },
        {"NUL in the version",       STR_INIT("GET / HTTP/1.1\0\r\n" HOST "\r\n"),                             H1_BAD_START_LINE },
    };

    check_verdicts(rows, ARRAY_LEN(rows));
}

TEST(h1, refuses_a_head_that_is_cut_short_or_goes_on)
{
    const struct str whole = STR("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n");
    struct http_header rows[8];
    struct http_headers room = {rows, 0, ARRAY_LEN(rows)};
    struct h1_request req;

    for (size_t n = 0; n < whole.n; n++) /* never crashes, never succeeds */
        CHECK(h1_parse_request(str_make(whole.p, n), &h1_default_limits, &room, &req) > H1_AGAIN);
    CHECK_EQ(h1_parse_request(STR("GET / HTTP/1.0\r\n\r\nX"), &h1_default_limits, &room, &req),
             H1_BAD_START_LINE);
}

/* Feeds `in` in two pieces cut at every place, and byte by byte. */
static void check_splits(struct str in, size_t head_end)
{
    for (size_t cut = 0; cut < head_end; cut++) {
        struct h1_scan scan = {0}, drip = {0};
        struct str head;

        CHECK_EQ(h1_find_head(str_make(in.p, cut), &h1_default_limits, &scan, &head), H1_AGAIN);
        CHECK_EQ(h1_find_head(in, &h1_default_limits, &scan, &head), H1_OK);
        CHECK_EQ(head.p - in.p + head.n, head_end);
        for (size_t n = 0; n < head_end; n++)
            CHECK_EQ(h1_find_head(str_make(in.p, n), &h1_default_limits, &drip, &head), H1_AGAIN);
        CHECK_EQ(h1_find_head(str_make(in.p, head_end), &h1_default_limits, &drip, &head), H1_OK);
        CHECK_EQ(head.p - in.p + head.n, head_end);
    }
}

TEST(h1, finds_the_same_head_however_it_arrives)
{
    const struct str body = STR("\r\n\r\nPOST /x?y HTTP/1.1\r\nHost: h\r\nA:\r\nB: \r\n\r\nbody\n");
    const struct str bare = STR("GET / HTTP/1.0\r\n\r\n");

    check_splits(body, body.n - 5);
    check_splits(bare, bare.n);
}

TEST(h1, looks_at_each_byte_once)
{
    struct h1_scan scan = {0};
    struct str head;
    char in[64] = "GET / HTTP/1.1\r\nA: b";

    CHECK_EQ(h1_find_head(str_of(in), &h1_default_limits, &scan, &head), H1_AGAIN);
    memset(in + 1, '\n', 9); /* a search that began again would stumble here */
    memcpy(in + strlen(in), "\r\n\r\n", 5);
    CHECK_EQ(h1_find_head(str_of(in), &h1_default_limits, &scan, &head), H1_OK);
    CHECK_EQ(head.n, strlen(in));
}

/* A request with `pad` bytes more in its target or in a header. */
static enum h1_error parse_padded(size_t target_pad, size_t header_pad, bool drip)
{
    static char in[80 << 10];
    struct http_header rows[8];
    struct http_headers room = {rows, 0, ARRAY_LEN(rows)};
    struct h1_request req;
    struct h1_scan scan = {0};
    struct str head;
    enum h1_error e = H1_AGAIN;
    size_t n;

    n = (size_t)snprintf(in, sizeof(in), "GET /%0*d HTTP/1.1\r\nHost: h\r\nA: %0*d\r\n\r\n",
                         (int)target_pad - 1, 0, (int)header_pad, 0);
    for (size_t have = drip ? 0 : n; e == H1_AGAIN && have <= n; have++)
        e = h1_find_head(str_make(in, have), &h1_default_limits, &scan, &head);
    return e ? e : h1_parse_request(head, &h1_default_limits, &room, &req);
}

TEST(h1, holds_its_limits)
{
    const size_t rest = sizeof("GET /0 HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n") - 1;

    for (int drip = 0; drip <= 1; drip++) {
        CHECK_EQ(parse_padded(H1_TARGET_BYTES_MAX, 1, drip), H1_OK);
        CHECK_EQ(parse_padded(H1_TARGET_BYTES_MAX + 1, 1, drip), H1_TARGET_TOO_LONG);
        CHECK_EQ(parse_padded(60 << 10, 1, drip), H1_TARGET_TOO_LONG);
        CHECK_EQ(parse_padded(2, H1_HEAD_BYTES_MAX - rest, drip), H1_OK);
        CHECK_EQ(parse_padded(2, H1_HEAD_BYTES_MAX - rest + 1, drip), H1_HEAD_TOO_LARGE);
        CHECK_EQ(parse_padded(2, 60 << 10, drip), H1_HEAD_TOO_LARGE);
    }
}

TEST(h1, says_too_long_before_malformed_however_it_arrives)
{
    static char in[H1_TARGET_BYTES_MAX + 100];
    struct h1_scan at_once = {0}, in_two = {0};
    struct str head;

    memset(in, 'x', sizeof(in));
    in[sizeof(in) - 1] = '\n';
    CHECK_EQ(h1_find_head(str_make(in, sizeof(in)), &h1_default_limits, &at_once, &head),
             H1_TARGET_TOO_LONG);
    CHECK_EQ(h1_find_head(str_make(in, sizeof(in) - 1), &h1_default_limits, &in_two, &head),
             H1_TARGET_TOO_LONG);
}

TEST(h1, gives_every_error_a_status_and_a_sentence)
{
    for (int e = H1_BARE_LF; e < H1_ERROR_COUNT; e++) {
        struct str text = h1_error_text((enum h1_error)e);

        CHECK(http_status_reason(h1_error_status((enum h1_error)e)).n > 0);
        CHECK(h1_error_status((enum h1_error)e) >= 400);
        CHECK(text.n > 10 && text.p[text.n - 1] == '.');
    }
    CHECK_EQ(h1_error_status(H1_TARGET_TOO_LONG), 414);
    CHECK_EQ(h1_error_status(H1_HEAD_TOO_LARGE), 431);
    CHECK_EQ(h1_error_status(H1_TOO_MANY_HEADERS), 431);
    CHECK_EQ(h1_error_status(H1_OTHER_VERSION), 505);
    CHECK_EQ(h1_error_status(H1_OTHER_CODING), 501);
    CHECK_EQ(h1_error_status(H1_OTHER_EXPECT), 417);
    CHECK_STR(h1_error_name(H1_BARE_LF), "BARE_LF");
}

TEST(h1, parses_responses)
{
    static const struct {
        struct str head;
        enum h1_error error;
        int status;
        struct str reason;
    } rows[] = {
        {STR_INIT("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),      H1_OK,                 200, STR_INIT("OK")             },
        {STR_INIT("HTTP/1.0 404 Not  Found \xe9\r\n\r\n"), H1_OK,                 404, STR_INIT("Not  Found \xe9")},
        {STR_INIT("HTTP/1.1 599 \r\n\r\n"),                H1_OK,                 599, STR_INIT("")               },
        {STR_INIT("HTTP/1.1 204\r\n\r\n"),                 H1_OK,                 204, STR_INIT("")               },
        {STR_INIT("HTTP/1.1 099 x\r\n\r\n"),               H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 600 x\r\n\r\n"),               H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 20 x\r\n\r\n"),                H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 2000 x\r\n\r\n"),              H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1  200 x\r\n\r\n"),              H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 +20 x\r\n\r\n"),               H1_BAD_STATUS,         0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1\r\n\r\n"),                     H1_BAD_START_LINE,     0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 200 O\0K\r\n\r\n"),            H1_BAD_START_LINE,     0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 200 O\rK\r\n\r\n"),            H1_BARE_CR,            0,   {NULL, 0}                  },
        {STR_INIT("HTTP/2.0 200 OK\r\n\r\n"),              H1_OTHER_VERSION,      0,   {NULL, 0}                  },
        {STR_INIT("ICY 200 OK\r\n\r\n"),                   H1_BAD_VERSION,        0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 200 OK\r\nA : b\r\n\r\n"),     H1_SPACE_BEFORE_COLON, 0,   {NULL, 0}                  },
        {STR_INIT("HTTP/1.1 200 OK\r\n b\r\n\r\n"),        H1_OBS_FOLD,           0,   {NULL, 0}                  },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_header header_rows[8];
        struct http_headers room = {header_rows, 0, ARRAY_LEN(header_rows)};
        struct h1_response res;
        enum h1_error e = h1_parse_response(rows[i].head, &h1_default_limits, &room, &res);

        if (e != rows[i].error)
            test_fail(__FILE__, __LINE__, "row %zu: %s", i, h1_error_name(e));
        if (e)
            continue;
        CHECK_EQ(res.status, rows[i].status);
        CHECK(str_eq(res.reason, rows[i].reason));
    }
}
