#include "net/h1_chunked.h"

#include "base/buf.h"
#include "test.h"

/* Feeds `in` until the end, an error or its last byte; adds the body to `body` and says how much of
 * `in` was consumed. */
static enum h1_error decode(struct h1_chunked *c, struct str in, struct buf *body, size_t *consumed)
{
    enum h1_error e;
    struct str data;
    size_t n;

    for (;;) {
        e = h1_chunked_next(c, str_skip(in, *consumed), &data, &n);
        if (e > H1_AGAIN)
            return e;
        CHECK(data.p >= in.p && data.p + data.n <= in.p + in.n);
        CHECK_EQ(buf_add(body, data), 0);
        *consumed += n;
        if (e || h1_chunked_ended(c))
            return e;
    }
}

TEST(h1_chunked, has_one_answer_for_every_body)
{
    static const struct {
        const char *name;
        struct str in;
        enum h1_error error;
        struct str body;
    } rows[] = {
        {"nothing",                          STR_INIT("0\r\n\r\n"),                                     H1_OK,              STR_INIT("")   },
        {"one",                              STR_INIT("3\r\nabc\r\n0\r\n\r\n"),                         H1_OK,              STR_INIT("abc")},
        {"capitals and zeros",               STR_INIT("00A\r\n0123456789\r\n000\r\n\r\n"),              H1_OK,
         STR_INIT("0123456789")                                                                                                            },
        {"line ends are data",               STR_INIT("4\r\n\r\n0\r\r\n1\r\n\n\r\n0\r\n\r\n"),          H1_OK,
         STR_INIT("\r\n0\r\n")                                                                                                             },
        {"extensions",                       STR_INIT("1;a\r\nx\r\n1 ;b=\"c;\"\r\ny\r\n0;\r\n\r\n"),    H1_OK,
         STR_INIT("xy")                                                                                                                    },
        {"trailers",                         STR_INIT("0\r\nA: b\r\nContent-Length:\t9\r\nC:\r\n\r\n"), H1_OK,
         STR_INIT("")                                                                                                                      },
        {"sixteen digits",                   STR_INIT("0000000000000001\r\nx\r\n0\r\n\r\n"),            H1_OK,              STR_INIT("x")  },
        {"seventeen digits",                 STR_INIT("00000000000000001\r\nx\r\n0\r\n\r\n"),           H1_BAD_CHUNK_SIZE,
         STR_INIT("")                                                                                                                      },
        {"too large",                        STR_INIT("8000000000000000\r\n"),                          H1_CHUNK_TOO_LARGE, STR_INIT("")   },
        {"all bits",                         STR_INIT("ffffffffffffffff\r\n"),                          H1_CHUNK_TOO_LARGE, STR_INIT("")   },
        {"largest",                          STR_INIT("7fffffffffffffff\r\nab"),                        H1_AGAIN,           STR_INIT("ab") },
        {"no size",                          STR_INIT("\r\n"),                                          H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"extension without size",           STR_INIT(";a\r\n"),                                        H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"0x",                               STR_INIT("0x1\r\nx\r\n"),                                  H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"plus",                             STR_INIT("+1\r\nx\r\n"),                                   H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"minus",                            STR_INIT("-1\r\nx\r\n"),                                   H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"space first",                      STR_INIT(" 1\r\nx\r\n"),                                   H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"space behind",                     STR_INIT("1 \r\nx\r\n"),                                   H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"two sizes",                        STR_INIT("1 1\r\nx\r\n"),                                  H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"letter",                           STR_INIT("1g\r\nx\r\n"),                                   H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"LF behind the size",               STR_INIT("1\nx\r\n"),                                      H1_BAD_CHUNK_SIZE,  STR_INIT("")   },
        {"CR behind the size",               STR_INIT("1\rx\r\n"),                                      H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"CR CR LF",                         STR_INIT("1\r\r\nx\r\n"),                                  H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"LF in an extension",               STR_INIT("1;a\nx\r\n"),                                    H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"CR in an extension",               STR_INIT("1;a\rb\r\nx\r\n"),                               H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"NUL in an extension",              STR_INIT("1;a\0\r\nx\r\n"),                                H1_BAD_CHUNK_LINE,  STR_INIT("")   },
        {"LF behind the data",               STR_INIT("1\r\nx\n0\r\n\r\n"),                             H1_BAD_CHUNK_END,   STR_INIT("x")  },
        {"CR behind the data",               STR_INIT("1\r\nx\r0\r\n\r\n"),                             H1_BAD_CHUNK_END,   STR_INIT("x")  },
        {"too much data",                    STR_INIT("1\r\nxy\r\n0\r\n\r\n"),                          H1_BAD_CHUNK_END,   STR_INIT("x")  },
        {"LF at the end",                    STR_INIT("0\r\n\n"),                                       H1_BAD_TRAILER,     STR_INIT("")   },
        {"CR x at the end",                  STR_INIT("0\r\n\rx"),                                      H1_BAD_TRAILER,     STR_INIT("")   },
        {"request behind a bare last chunk", STR_INIT("0\r\nGET / HTTP/1.1\r\n"),                       H1_BAD_TRAILER,
         STR_INIT("")                                                                                                                      },
        {"LF behind a trailer",              STR_INIT("0\r\nA: b\n\r\n"),                               H1_BAD_TRAILER,     STR_INIT("")   },
        {"CR in a trailer",                  STR_INIT("0\r\nA: b\rc\r\n\r\n"),                          H1_BAD_TRAILER,     STR_INIT("")   },
        {"folded trailer",                   STR_INIT("0\r\nA: b\r\n c\r\n\r\n"),                       H1_BAD_TRAILER,     STR_INIT("")   },
        {"nameless trailer",                 STR_INIT("0\r\n: b\r\n\r\n"),                              H1_BAD_TRAILER,     STR_INIT("")   },
        {"space before colon",               STR_INIT("0\r\nA : b\r\n\r\n"),                            H1_BAD_TRAILER,     STR_INIT("")   },
        {"NUL in a trailer",                 STR_INIT("0\r\nA: \0\r\n\r\n"),                            H1_BAD_TRAILER,     STR_INIT("")   },
        {"unfinished",                       STR_INIT("0\r\n\r"),                                       H1_AGAIN,           STR_INIT("")   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct h1_chunked c = {0};
        AUTO_BUF(body, 4096);
        size_t consumed = 0;
        enum h1_error e = decode(&c, rows[i].in, &body, &consumed);

        if (e != rows[i].error || !str_eq(buf_str(&body), rows[i].body))
            test_fail(__FILE__, __LINE__, "%s: %s, \"%s\"", rows[i].name, h1_error_name(e), body.p);
        if (e == H1_OK)
            CHECK_EQ(consumed, rows[i].in.n);
    }
}

TEST(h1_chunked, decodes_alike_however_it_arrives_and_stops_at_the_end)
{
    const struct str in = STR("3;x=y\r\nabc\r\n1\t;z\r\n\n\r\n10\r\n0123456789abcdef\r\n"
                              "0\r\nA: b\r\nB:\r\n\r\nGET / HTTP/1.1\r\n");
    const size_t end = in.n - 16;

    for (size_t cut = 0; cut <= end; cut++) {
        struct h1_chunked c = {0};
        AUTO_BUF(body, 4096);
        size_t consumed = 0;

        if (cut < end) {
            CHECK_EQ(decode(&c, str_make(in.p, cut), &body, &consumed), H1_AGAIN);
            CHECK_EQ(consumed < cut, 0);
        }
        CHECK_EQ(decode(&c, in, &body, &consumed), H1_OK);
        CHECK_EQ(consumed, end);
        CHECK_STR(body.p, "abc\n0123456789abcdef");
    }
}

TEST(h1_chunked, stays_at_the_end)
{
    struct h1_chunked c = {0};
    AUTO_BUF(body, 16);
    size_t consumed = 0, n = 9;
    struct str data;

    CHECK_EQ(decode(&c, STR("0\r\n\r\n"), &body, &consumed), H1_OK);
    CHECK_EQ(h1_chunked_next(&c, STR("5\r\n"), &data, &n), H1_OK);
    CHECK(h1_chunked_ended(&c));
    CHECK_EQ(n + data.n, 0);
}

/* Repeats `unit` until an error; returns it and how many whole units passed. */
static enum h1_error decode_repeated(struct str start, struct str unit, size_t *ret_units)
{
    struct h1_chunked c = {0};
    AUTO_BUF(body, 1 << 20);
    enum h1_error e;
    size_t consumed = 0;

    e = decode(&c, start, &body, &consumed);
    for (*ret_units = 0; e == H1_AGAIN && *ret_units < 100000; ++*ret_units) {
        consumed = 0;
        e = decode(&c, unit, &body, &consumed);
    }
    --*ret_units;
    return e;
}

TEST(h1_chunked, bounds_extensions_and_trailers_of_a_whole_message)
{
    size_t units;

    CHECK_EQ(decode_repeated(STR(""), STR("1;12345678\r\nx\r\n"), &units), H1_EXTENSIONS_TOO_LARGE);
    CHECK_EQ(units, H1_EXTENSION_BYTES_MAX / 8);
    CHECK_EQ(decode_repeated(STR("1;"), STR("a"), &units), H1_EXTENSIONS_TOO_LARGE);
    CHECK_EQ(units, H1_EXTENSION_BYTES_MAX);
    CHECK_EQ(decode_repeated(STR("1"), STR(" "), &units), H1_EXTENSIONS_TOO_LARGE);
    CHECK_EQ(decode_repeated(STR("0\r\n"), STR("A: 345\r\n"), &units), H1_TRAILERS_TOO_LARGE);
    CHECK_EQ(units, H1_TRAILER_BYTES_MAX / 8);
    CHECK_EQ(decode_repeated(STR("0\r\nA:"), STR("a"), &units), H1_TRAILERS_TOO_LARGE);
}

TEST(h1_chunked, writes_sizes_it_can_read)
{
    static const size_t sizes[] = {1, 9, 10, 15, 16, 255, 256, 65536, 0xabcdef, INT64_MAX};

    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char out[H1_CHUNK_HEADER_MAX];
        size_t n = h1_chunk_header(out, sizes[i]), consumed;
        struct h1_chunked c = {0};
        struct str data;

        CHECK_EQ(h1_chunked_next(&c, str_make(out, n), &data, &consumed), H1_AGAIN);
        CHECK_EQ(consumed, n);
        CHECK_EQ(c.left, sizes[i]);
    }
}
