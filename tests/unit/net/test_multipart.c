#include "net/multipart.h"

#include "base/mem.h"
#include "test.h"

enum { LOG_BYTES_MAX = 1 << 20, TAKE_ALL = 1 << 30 };

/* Writes down what the reader tells; content is one run whatever its pieces were. */
struct recorder {
    struct buf log;
    size_t room; /* bytes of content taken before the next feed; TAKE_ALL never fills */
    int stop;    /* what part_end answers */
};

static int note_begin(void *ctx, const struct multipart_part *part)
{
    struct recorder *rec = ctx;

    buf_addf(&rec->log, "<%.*s", STR_ARG(part->name));
    if (part->filename.p)
        buf_addf(&rec->log, " file=%.*s", STR_ARG(part->filename));
    if (part->content_type.p)
        buf_addf(&rec->log, " type=%.*s", STR_ARG(part->content_type));
    buf_addf(&rec->log, " %zu>", part->header_count);
    return 0;
}

static ssize_t note_data(void *ctx, struct str piece)
{
    struct recorder *rec = ctx;
    size_t n = min_size(piece.n, rec->room);

    CHECK(piece.n > 0);
    if (rec->room != TAKE_ALL)
        rec->room -= n;
    CHECK_EQ(buf_add(&rec->log, str_make(piece.p, n)), 0);
    return (ssize_t)n;
}

static int note_end(void *ctx)
{
    struct recorder *rec = ctx;

    buf_addf(&rec->log, "</>");
    return rec->stop;
}

static int note_form_end(void *ctx)
{
    struct recorder *rec = ctx;

    buf_addf(&rec->log, ".");
    return 0;
}

static const struct multipart_ops recorder_ops = {note_begin, note_data, note_end, note_form_end};

/* Feeds an exact-size heap copy, so that ASan sees a read outside. */
static int feed(struct multipart *m, struct str bytes, struct err *e)
{
    auto_free char *copy = mem_alloc(bytes.n ? bytes.n : 1);
    ssize_t r;

    memcpy(copy, bytes.p, bytes.n);
    r = multipart_feed(m, str_make(copy, bytes.n), e);
    CHECK(r < 0 || (size_t)r == bytes.n);
    return r < 0 ? (int)r : 0;
}

#define TYPE STR("multipart/form-data; boundary=xYz")

/* Reads a body in up to three pieces; answers 0 or the error. */
static int read_pieces(struct str type, const struct multipart_limits *limits, struct str a,
                       struct str b, struct str c, struct buf *log, struct err *e)
{
    struct recorder rec = {.room = TAKE_ALL};
    struct multipart m;
    int r;

    buf_init(&rec.log, LOG_BYTES_MAX);
    r = multipart_init(&m, type, &recorder_ops, &rec, limits, e);
    if (r < 0)
        return r;
    r = feed(&m, a, e);
    if (r == 0)
        r = feed(&m, b, e);
    if (r == 0)
        r = feed(&m, c, e);
    if (r == 0)
        r = multipart_end(&m, e);
    multipart_done(&m);
    buf_clear(log);
    buf_add(log, buf_str(&rec.log));
    buf_done(&rec.log);
    return r;
}

/* Whole, then in three pieces around every byte. */
static void check_reads(struct str type, struct str body, const char *want)
{
    AUTO_BUF(log, LOG_BYTES_MAX);
    struct err e = {0};

    if (read_pieces(type, NULL, body, STR(""), STR(""), &log, &e) < 0)
        test_fail(__FILE__, __LINE__, "\"%s\": %s", body.p, e.msg);
    CHECK_STR(log.p, want);
    for (size_t i = 0; i < body.n; i++) {
        CHECK_EQ(read_pieces(type, NULL, str_make(body.p, i), str_make(body.p + i, 1),
                             str_skip(body, i + 1), &log, &e),
                 0);
        CHECK_STR(log.p, want);
    }
}

static void check_refuses(const struct multipart_limits *limits, struct str body, int code,
                          const char *message)
{
    AUTO_BUF(log, LOG_BYTES_MAX);
    struct err e = {0};

    CHECK_EQ(read_pieces(TYPE, limits, body, STR(""), STR(""), &log, &e), -code);
    CHECK_STR(e.msg, message);
    for (size_t i = 0; i < body.n; i++) {
        CHECK_EQ(read_pieces(TYPE, limits, str_make(body.p, i), str_make(body.p + i, 1),
                             str_skip(body, i + 1), &log, &e),
                 -code);
        CHECK_STR(e.msg, message);
    }
}

TEST(multipart, reads_the_upload_of_the_contract)
{
    check_reads(
        STR("multipart/form-data; boundary=----osb7MA4YWxk"),
        STR("------osb7MA4YWxk\r\n"
            "Content-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
            "Content-Type: application/json\r\n\r\n"
            "{\"path\":\"/workspace/a.txt\",\"owner\":null,\"group\":null,\"mode\":644}\r\n"
            "------osb7MA4YWxk\r\n"
            "Content-Disposition: form-data; name=\"file\"; filename=\"/workspace/a.txt\"\r\n"
            "Content-Type: application/octet-stream\r\n\r\n"
            "hello\n\r\n"
            "------osb7MA4YWxk--\r\n"),
        "<metadata file=metadata type=application/json 2>"
        "{\"path\":\"/workspace/a.txt\",\"owner\":null,\"group\":null,\"mode\":644}</>"
        "<file file=/workspace/a.txt type=application/octet-stream 2>hello\n</>.");
}

TEST(multipart, reads_what_the_csharp_client_writes)
{
    check_reads(STR("multipart/form-data; boundary=\"0d1f-22\""),
                STR("--0d1f-22\r\n"
                    "Content-Type: application/json\r\n"
                    "Content-Disposition: form-data; name=metadata; filename=metadata; "
                    "filename*=utf-8''metadata\r\n\r\n"
                    "{}\r\n--0d1f-22--\r\n"),
                "<metadata file=metadata type=application/json 2>{}</>.");
}

struct sample {
    const char *head, *want;
};

TEST(multipart, reads_every_way_to_write_part_headers)
{
    static const struct sample samples[] = {
        {"",                                                                                "< 0>"                               },
        {"Content-Disposition: form-data; name=\"a\"\r\n",                                  "<a 1>"                              },
        {"content-disposition:FORM-DATA;NAME=a;FileName=b\r\n",                             "<a file=b 1>"                       },
        {"Content-Disposition: form-data; name=\"a\"; filename=\"\"\r\n",                   "<a file= 1>"                        },
        {"Content-Length: 2\r\nContent-Disposition: form-data; name=\"a\"\r\n",             "<a 2>"                              },
        {"Content-Disposition: form-data; name=\"a\"; filename=\"\xc3\xa4;b.txt\"\r\n",
         "<a file=\xc3\xa4;b.txt 1>"                                                                                             },
        {"Content-Disposition: form-data; name=\"a\"; filename=\"x%22y%41\"\r\n",
         "<a file=x\"y%41 1>"                                                                                                    },
        {"Content-Disposition: form-data; name=\"a\"; filename=\"x\\\"y\\\\z\"\r\n",
         "<a file=x\"y\\z 1>"                                                                                                    },
        {"Content-Disposition: form-data; name=\"a\"; filename=\"C:\\temp\\f\"\r\n",
         "<a file=C:\\temp\\f 1>"                                                                                                },
        {"Content-Disposition: form-data; name=a; filename*=UTF-8'en'%C3%A4%20b\r\n",
         "<a file=\xc3\xa4 b 1>"                                                                                                 },
        {"Content-Disposition: form-data; name=a; filename*=utf-8''new; filename=old\r\n",
         "<a file=new 1>"                                                                                                        },
        {"Content-Disposition: form-data; name=a; filename=old; filename*=koi8-r''%E4\r\n",
         "<a file=old 1>"                                                                                                        },
        {"Content-Disposition: form-data; name=a; filename=my file.txt ;\r\n",
         "<a file=my file.txt 1>"                                                                                                },
        {"Content-Disposition: form-data;\r\n\tname=\"a\";\r\n filename=\"b\"\r\n",         "<a file=b 1>"                       },
        {"Content-Disposition: form-data; other=1; name = \"a\"\r\nX-Y:\r\n",               "<a 2>"                              },
        {"Content-Disposition: attachment; name=\"a\"\r\n",                                 "< 1>"                               },
        {"Content-Disposition: form-data\r\n",                                              "< 1>"                               },
        {"Content-Type: text/plain; charset=utf-8\r\n",                                     "< type=text/plain; charset=utf-8 1>"},
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        AUTO_BUF(body, LOG_BYTES_MAX);
        AUTO_BUF(want, LOG_BYTES_MAX);

        buf_addf(&body, "--xYz\r\n%s\r\nhi\r\n--xYz--\r\n", samples[i].head);
        buf_addf(&want, "%shi</>.", samples[i].want);
        check_reads(TYPE, buf_str(&body), want.p);
    }
}

TEST(multipart, tells_content_from_boundaries)
{
    static const struct sample samples[] = {
        {"",                                ""                               },
        {"\r",                              "\r"                             },
        {"\r\n",                            "\r\n"                           },
        {"\r\n\r\n--xY",                    "\r\n\r\n--xY"                   },
        {"\r\r\n--xY\r\n--xYzz\r\n--xYz-z", "\r\r\n--xY\r\n--xYzz\r\n--xYz-z"},
        {"\r\n-\r\n--\r\n--x\r",            "\r\n-\r\n--\r\n--x\r"           },
        {"--xYq",                           "--xYq"                          },
        {"a--xYz",                          "a--xYz"                         },
        {"\n--xYz\r",                       "\n--xYz\r"                      },
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        AUTO_BUF(body, LOG_BYTES_MAX);
        AUTO_BUF(want, LOG_BYTES_MAX);

        buf_addf(&body, "--xYz\r\n\r\n%s\r\n--xYz\r\n\r\n%s\r\n--xYz--", samples[i].head,
                 samples[i].head);
        buf_addf(&want, "< 0>%s</>< 0>%s</>.", samples[i].want, samples[i].want);
        check_reads(TYPE, buf_str(&body), want.p);
    }
}

TEST(multipart, ignores_what_stands_around_the_form)
{
    check_reads(TYPE, STR("--xYz--"), ".");
    check_reads(TYPE, STR("\r\n--xYz--"), ".");
    check_reads(TYPE, STR("hello\r\n--xY\r\n--xYz\r\n\r\nx\r\n--xYz--epi\r\n--xYz\r\n\r\n"),
                "< 0>x</>.");
    check_reads(TYPE, STR("--xYz \t\r\n\r\nx\r\n--xYz  \r\n\r\ny\r\n--xYz--  \r\n"),
                "< 0>x</>< 0>y</>.");
    /* A part may end with its headers: the empty line is then the boundary's own. */
    check_reads(TYPE, STR("--xYz\r\nA: b\r\n\r\n--xYz\r\n\r\n--xYz--"), "< 1></>< 0></>.");
}

TEST(multipart, refuses_malformed_forms_in_words)
{
    static const struct sample samples[] = {
        {"",                                                                      "the form ends before its first boundary"                  },
        {"--xY",                                                                  "the form ends before its first boundary"                  },
        {"--xYz",                                                                 "the form ends before its first boundary"                  },
        {"--xYz\r",                                                               "the form ends behind a boundary"                          },
        {"--xYz\r\nA: b\r\n",                                                     "the form ends in the headers of a part"                   },
        {"--xYz\r\n\r\nabc\r\n--xYz-",                                            "the form ends in the content of a part"                   },
        {"--xYz \rx",                                                             "text follows a boundary on its line"                      },
        {"--xYz x",                                                               "text follows a boundary on its line"                      },
        {"--xYz\r\nA\r\n\r\n",                                                    "part 1: a part header line is not of the form name: value"},
        {"--xYz\r\n: b\r\n\r\n",                                                  "part 1: a part header line is not of the form name: value"},
        {"--xYz\r\n A: b\r\n\r\n",                                                "part 1: a part header line is not of the form name: value"},
        {"--xYz\r\nA : b\r\n\r\n",                                                "part 1: a part header line is not of the form name: value"},
        {"--xYz\r\nA: b\n\r\n",                                                   "part 1: a header line does not end in CRLF"               },
        {"--xYz\r\nA: b\rc\r\n\r\n",                                              "part 1: a part header line does not end in CRLF"          },
        {"--xYz\r\nContent-Disposition: form-data; name=\"a\r\n\r\n",
         "part 1: Content-Disposition: parameter 'name' lacks its closing quote"                                                             },
        {"--xYz\r\nContent-Disposition: form-data; name=\"a\"b\r\n\r\n",
         "part 1: Content-Disposition: text behind the quoted parameter 'name'"                                                              },
        {"--xYz\r\nContent-Disposition: form-data; name; a=b\r\n\r\n",
         "part 1: Content-Disposition: a parameter is not of the form name=value"                                                            },
        {"--xYz\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n",
         "part 1: Content-Disposition: parameter 'name' is given twice"                                                                      },
        {"--xYz\r\nContent-Disposition: form-data; filename*=utf-8'x\r\n\r\n",
         "part 1: Content-Disposition: 'filename*' is not of the form charset'language'value"                                                },
        {"--xYz\r\nContent-Disposition: form-data; filename*=utf-8''%4\r\n\r\n",
         "part 1: Content-Disposition: 'filename*' holds a broken percent escape"                                                            },
        {"--xYz\r\nContent-Disposition: form-data; filename*=utf-8''%00\r\n\r\n",
         "part 1: Content-Disposition: 'filename*' holds a NUL or a line end"                                                                },
        {"--xYz\r\nContent-Disposition: form-data; filename*=latin1''x\r\n\r\n",
         "part 1: Content-Disposition: 'filename*' is in 'latin1'; only UTF-8 is understood"                                                 },
    };

    for (size_t i = 0; i < ARRAY_LEN(samples); i++)
        check_refuses(NULL, str_of(samples[i].head), EBADMSG, samples[i].want);
    check_refuses(NULL, STR("--xYz\r\nA: \0b\r\n\r\n"), EBADMSG,
                  "part 1: a part header holds a NUL byte");
}

TEST(multipart, keeps_its_limits)
{
    static const struct multipart_limits limits = {
        .parts_max = 1, .part_header_bytes_max = 10, .preamble_bytes_max = 9};
    AUTO_BUF(body, LOG_BYTES_MAX);
    AUTO_BUF(log, LOG_BYTES_MAX);

    CHECK_EQ(read_pieces(TYPE, &limits, STR("123456789\r\n--xYz\r\nA: 345\r\n"),
                         STR("\r\nx\r\n--xYz--"), STR(""), &log, NULL),
             0);
    check_refuses(&limits, STR("1234567890\r\n--xYz\r\n\r\n"), EMSGSIZE,
                  "no boundary in the first 9 bytes of the form");
    check_refuses(&limits, STR("--xYz\r\nA: 3456\r\n\r\n"), EMSGSIZE,
                  "the headers of part 1 exceed 10 bytes");
    check_refuses(&limits, STR("--xYz\r\n\r\nx\r\n--xYz\r\n\r\ny\r\n--xYz--"), EMSGSIZE,
                  "the form has more than 1 parts");

    buf_addf(&body, "--xYz\r\n");
    for (size_t i = 0; i < MULTIPART_HEADERS_MAX + 1; i++)
        buf_addf(&body, "H%zu: v\r\n", i);
    buf_addf(&body, "\r\n");
    check_refuses(NULL, buf_str(&body), EMSGSIZE, "part 1: a part has more than 32 headers");
}

TEST(multipart, finds_the_boundary_of_a_content_type)
{
    static const struct sample samples[] = {
        {"multipart/form-data; boundary=a",                         "a"                                                                     },
        {"Multipart/Form-Data;charset=x ; BOUNDARY=\"a b:c\"; z=1", "a b:c"                                                                 },
        {"multipart/form-data; boundary===a/b=",                    "==a/b="                                                                },
        {"multipart/form-data;boundary=01234567890123456789012345678901234567890123456789"
         "01234567890123456789",                           "0123456789012345678901234567890123456789012345678901234567890123456789"},
    };
    static const struct sample bad[] = {
        {"",                                            "Content-Type is not multipart/form-data"               },
        {"application/json",                            "Content-Type is not multipart/form-data"               },
        {"multipart/mixed; boundary=a",                 "Content-Type is not multipart/form-data"               },
        {"multipart/form-data",                         "Content-Type names no boundary"                        },
        {"multipart/form-data; boundary",
         "Content-Type: a parameter is not of the form name=value"                                              },
        {"multipart/form-data; boundary=a; boundary=b", "Content-Type names two boundaries"                     },
        {"multipart/form-data; boundary=\"a",
         "Content-Type: parameter 'boundary' lacks its closing quote"                                           },
        {"multipart/form-data; boundary=",
         "the boundary is not 1 to 70 characters of its alphabet"                                               },
        {"multipart/form-data; boundary=\"a \"",
         "the boundary is not 1 to 70 characters of its alphabet"                                               },
        {"multipart/form-data; boundary=\"a\rb\"",
         "the boundary is not 1 to 70 characters of its alphabet"                                               },
        {"multipart/form-data;boundary=01234567890123456789012345678901234567890123456789"
         "012345678901234567890",              "the boundary is not 1 to 70 characters of its alphabet"},
    };
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    struct err e;

    for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
        CHECK_EQ(multipart_boundary_parse(str_of(samples[i].head), boundary, NULL), 0);
        CHECK_STR(boundary, samples[i].want);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        e = (struct err){0};
        CHECK_EQ(multipart_boundary_parse(str_of(bad[i].head), boundary, &e), -EBADMSG);
        CHECK_STR(e.msg, bad[i].want);
    }
}

/* Feeds at most `step` bytes at a time to a sink with room for `room` between two feeds. */
static void check_slow_sink(struct str body, size_t step, size_t room, const char *want)
{
    struct recorder rec = {.room = room};
    struct multipart m;
    size_t at = 0;

    buf_init(&rec.log, LOG_BYTES_MAX);
    CHECK_EQ(multipart_init(&m, TYPE, &recorder_ops, &rec, NULL, NULL), 0);
    for (size_t calls = 0; at < body.n; calls++) {
        size_t n = min_size(step, body.n - at);
        ssize_t r = multipart_feed(&m, str_make(body.p + at, n), NULL);

        CHECK(r >= 0 && calls < 2 * body.n);
        CHECK((size_t)r == n || rec.room == 0);
        at += (size_t)r;
        rec.room = room;
    }
    CHECK_EQ(multipart_end(&m, NULL), 0);
    CHECK_STR(rec.log.p, want);
    multipart_done(&m);
    buf_done(&rec.log);
}

/* In small steps the sink also meets bytes that were withheld as a possible boundary. */
TEST(multipart, waits_for_a_full_sink_without_losing_bytes)
{
    struct str body = STR("--xYz\r\n\r\nabcdefg\r\n--xY!hij\r\n--xYz\r\n\r\nk\r\n--xYz--");

    for (size_t step = 1; step <= body.n; step++) {
        for (size_t room = 1; room < 8; room++)
            check_slow_sink(body, step, room, "< 0>abcdefg\r\n--xY!hij</>< 0>k</>.");
    }
}

TEST(multipart, stops_when_an_op_says_so)
{
    struct recorder rec = {.room = TAKE_ALL, .stop = -ENOSPC};
    struct multipart m;
    struct err e = {0};

    buf_init(&rec.log, LOG_BYTES_MAX);
    CHECK_EQ(multipart_init(&m, TYPE, &recorder_ops, &rec, NULL, NULL), 0);
    CHECK_EQ(multipart_feed(&m, STR("--xYz\r\n\r\nabc\r\n--xYz--"), &e), -ENOSPC);
    CHECK_EQ(e.code, 0);
    CHECK_STR(rec.log.p, "< 0>abc</>");
    CHECK_EQ(multipart_feed(&m, STR("x"), &e), -ENOSPC);
    CHECK_EQ(multipart_end(&m, &e), -ENOSPC);
    multipart_done(&m);
    buf_done(&rec.log);
}

static int check_headers(void *ctx, const struct multipart_part *part)
{
    CHECK_EQ(part->header_count, 3);
    CHECK_SPAN(part->headers[0].name, "X-First");
    CHECK_SPAN(part->headers[0].value, "one   two");
    CHECK_SPAN(part->headers[1].value, "form-data; name=\"a%22\"");
    CHECK_SPAN(part->headers[2].value, "");
    CHECK_SPAN(part->name, "a\"");
    CHECK(!part->filename.p && !part->content_type.p);
    return 0;
}

TEST(multipart, shows_all_headers_of_a_part_as_sent)
{
    static const struct multipart_ops ops = {check_headers, note_data, note_end, note_form_end};
    struct recorder rec = {.room = TAKE_ALL};
    struct str body = STR("--xYz\r\nX-First:  one\r\n two \r\n"
                          "Content-Disposition: form-data; name=\"a%22\"\r\nEmpty:\r\n\r\n"
                          "\r\n--xYz--");
    struct multipart m;

    buf_init(&rec.log, LOG_BYTES_MAX);
    CHECK_EQ(multipart_init(&m, TYPE, &ops, &rec, NULL, NULL), 0);
    CHECK_EQ(feed(&m, body, NULL), 0);
    CHECK_STR(rec.log.p, "</>.");
    multipart_done(&m);
    buf_done(&rec.log);
}
