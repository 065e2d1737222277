#include "base/json.h"

#include <math.h>
#include <time.h>

#include "base/buf.h"
#include "base/fault.h"
#include "test.h"

enum { ARENA_BYTES_MAX = 64 << 20 };

static const struct json *parse(struct arena *a, struct str text, const struct json_limits *limits)
{
    struct err e = {0};
    struct json *v = NULL;

    if (json_parse(a, text, limits, &v, &e) < 0)
        test_fail(__FILE__, __LINE__, "%.*s: %s", STR_ARG(text), e.msg);
    return v;
}

TEST(json, reads_every_kind_of_value)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    const struct json *v = parse(
        &a, STR(" {\"n\":null,\"t\":true,\"f\":false,\"s\":\"x\",\"l\":[1,2],\"o\":{},\"i\":-7} "),
        NULL);
    bool flag = false;
    struct str s;
    int64_t i;

    CHECK_EQ(v->type, JSON_OBJECT);
    CHECK_EQ(json_count(v), 7);
    CHECK_EQ(json_get(v, STR("n"))->type, JSON_NULL);
    CHECK_EQ(json_to_bool(json_get(v, STR("t")), &flag), 0);
    CHECK(flag);
    CHECK_EQ(json_to_bool(json_get(v, STR("f")), &flag), 0);
    CHECK(!flag);
    CHECK_EQ(json_to_str(json_get(v, STR("s")), &s), 0);
    CHECK_STR(s.p, "x"); /* also a C string */
    CHECK_EQ(json_count(json_get(v, STR("l"))), 2);
    CHECK_EQ(json_count(json_get(v, STR("o"))), 0);
    CHECK_EQ(json_to_i64(json_get(v, STR("i")), &i), 0);
    CHECK_EQ(i, -7);
}

TEST(json, keeps_the_order_of_members_and_elements)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    AUTO_BUF(order, 64);
    const struct json *v = parse(&a, STR("{\"z\":[3,1,2],\"a\":0,\"m\":0}"), NULL);

    json_each(member, v) buf_add(&order, member->key);
    json_each(item, json_get(v, STR("z"))) buf_add(&order, item->text);
    CHECK_STR(order.p, "zam312");
    CHECK_SPAN(json_at(v, 2)->key, "m");
    CHECK(!json_at(v, 3));
}

TEST(json, owns_what_it_read)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    char text[] = "[\"kept\",12]";
    const struct json *v = parse(&a, str_of(text), NULL);

    memset(text, 'x', sizeof(text));
    CHECK_SPAN(json_at(v, 0)->string, "kept");
    CHECK_SPAN(json_at(v, 1)->text, "12");
}

TEST(json, answers_absent_and_mistyped_values)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    const struct json *v =
        parse(&a, STR("{\"s\":\"x\",\"d\":1.0,\"neg\":-1,\"e\":1e3,\"E\":1E3}"), NULL);
    struct str s;
    bool flag;
    double d;
    int64_t i;
    uint64_t u;

    CHECK_EQ(json_to_str(json_get(v, STR("none")), &s), -ENOENT);
    CHECK_EQ(json_to_i64(json_get(json_get(v, STR("s")), STR("deeper")), &i), -ENOENT);
    CHECK_EQ(json_to_bool(json_get(v, STR("s")), &flag), -EINVAL);
    CHECK_EQ(json_to_double(json_get(v, STR("s")), &d), -EINVAL);
    CHECK_EQ(json_to_i64(json_get(v, STR("d")), &i), -EINVAL); /* written as a fraction */
    CHECK_EQ(json_to_u64(json_get(v, STR("e")), &u), -EINVAL);
    CHECK_EQ(json_to_u64(json_get(v, STR("E")), &u), -EINVAL);
    CHECK_EQ(json_to_u64(json_get(v, STR("neg")), &u), -ERANGE);
    CHECK(!json_first(json_get(v, STR("s"))));
    CHECK_EQ(json_count(NULL), 0);
    CHECK_STR(json_type_name(json_get(v, STR("s"))), "a string");
}

TEST(json, keeps_integers_of_64_bits_exact)
{
    static const struct {
        struct str text;
        enum json_number kind;
        uint64_t bits;
    } cases[] = {
        {STR_INIT("0"),                    JSON_INT,  0                    },
        {STR_INIT("-0"),                   JSON_INT,  0                    },
        {STR_INIT("9007199254740993"),     JSON_INT,  9007199254740993u    },
        {STR_INIT("9223372036854775807"),  JSON_INT,  INT64_MAX            },
        {STR_INIT("9223372036854775808"),  JSON_UINT, 9223372036854775808u },
        {STR_INIT("-9223372036854775808"), JSON_INT,  9223372036854775808u },
        {STR_INIT("18446744073709551615"), JSON_UINT, UINT64_MAX           },
        {STR_INIT("10000000000000000000"), JSON_UINT, 10000000000000000000u},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_ARENA(a, ARENA_BYTES_MAX);
        const struct json *v = parse(&a, cases[i].text, NULL);

        CHECK_EQ(v->number, cases[i].kind);
        CHECK_EQ(v->u64, cases[i].bits);
        CHECK(str_eq(v->text, cases[i].text));
    }
}

TEST(json, keeps_the_text_of_integers_that_do_not_fit)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    const struct json *v =
        parse(&a, STR("[18446744073709551616,-9223372036854775809,123456789012345678901234567890]"),
              NULL);
    int64_t i;
    uint64_t u;

    CHECK_EQ(json_at(v, 0)->number, JSON_REAL);
    CHECK(json_at(v, 0)->real == 18446744073709551616.0);
    CHECK_EQ(json_to_u64(json_at(v, 0), &u), -ERANGE);
    CHECK_EQ(json_at(v, 1)->number, JSON_REAL);
    CHECK(json_at(v, 1)->real == -9223372036854775808.0);
    CHECK_EQ(json_to_i64(json_at(v, 1), &i), -ERANGE);
    CHECK_SPAN(json_at(v, 2)->text, "123456789012345678901234567890");
}

TEST(json, rounds_doubles_as_strtod_does)
{
    static const char *const cases[] = {
        "0.1",
        "-0.0",
        "1e22",
        "1e23",
        "123456789.123456789",
        "2.2250738585072011e-308",
        "5e-324",
        "4.9e-324",
        "2e-324",
        "1e-400",
        "1.7976931348623157e308",
        "9007199254740993.0",
        "0.500000000000000166533453693773481063544750213623046875",
        "3.518437208883201171875E13",
        "1.00000000000000000000000000000000000000000001",
        "100000000000000000000000.5",
        "1E+2",
        "0e99999999999999999999",
        "0.000000000000000000000000000000000000000001e42",
        "9007199254740992e0",
        "10187660625885437e16",
        "9007199254740991e22",
        "9007199254740991e-22",
        "1e-22",
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_ARENA(a, ARENA_BYTES_MAX);
        const struct json *v = parse(&a, str_of(cases[i]), NULL);
        double want = strtod(cases[i], NULL);

        if (v->number != JSON_REAL || memcmp(&v->real, &want, sizeof(want)) != 0)
            test_fail(__FILE__, __LINE__, "%s read as %.17g", cases[i], v->real);
    }
}

TEST(json, decodes_escapes)
{
    static const struct {
        struct str text, want;
    } cases[] = {
        {STR_INIT("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),         STR_INIT("\"\\/\b\f\n\r\t")      },
        {STR_INIT("\"\\u0041\\u00e9\\u20AC\""),              STR_INIT("A\xc3\xa9\xe2\x82\xac")},
        {STR_INIT("\"\\ud83d\\uDE00\""),                     STR_INIT("\xf0\x9f\x98\x80")     },
        {STR_INIT("\"\\udbff\\udfff\""),                     STR_INIT("\xf4\x8f\xbf\xbf")     },
        {STR_INIT("\"a\\u0000b\""),                          STR_INIT("a\0b")                 },
        {STR_INIT("\"long plain text \\n and more of it\""),
         STR_INIT("long plain text \n and more of it")                                        },
        {STR_INIT("\"\""),                                   STR_INIT("")                     },
        {STR_INIT("\"\x7f\xc2\x80\""),                       STR_INIT("\x7f\xc2\x80")         },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_ARENA(a, ARENA_BYTES_MAX);
        const struct json *v = parse(&a, cases[i].text, NULL);

        if (!str_eq(v->string, cases[i].want))
            test_fail(__FILE__, __LINE__, "case %zu", i);
        CHECK_EQ(v->string.p[v->string.n], 0);
    }
}

static void check_refused(struct str text, const struct json_limits *limits, int code,
                          const char *message)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct err e = {0};
    struct json *v = NULL;
    int r = json_parse(&a, text, limits, &v, &e);

    if (r != -code || strcmp(e.msg, message) != 0)
        test_fail(__FILE__, __LINE__, "%.*s: %d, \"%s\", not \"%s\"", STR_ARG(text), r, e.msg,
                  message);
    CHECK(!v);
    CHECK_EQ(json_parse(&a, text, limits, &v, NULL), -code);
}

TEST(json, says_where_and_what_it_expected)
{
    static const struct {
        struct str text;
        const char *message;
    } cases[] = {
        {STR_INIT(""),                    "line 1, column 1: expected a value, got the end of the text"   },
        {STR_INIT("[1,]"),                "line 1, column 4: expected a value, got ']'"                   },
        {STR_INIT("[1\n 2]"),             "line 2, column 2: expected ',' or ']', got '2'"                },
        {STR_INIT("{\"a\":1 \"b\"}"),     "line 1, column 8: expected ',' or '}', got '\"'"               },
        {STR_INIT("{\"a\":1,}"),          "line 1, column 8: expected a key in quotes, got '}'"           },
        {STR_INIT("{\"a\" 1}"),           "line 1, column 6: expected ':' behind a key, got '1'"          },
        {STR_INIT("{a:1}"),               "line 1, column 2: expected a key in quotes, got 'a'"           },
        {STR_INIT("[\"\xc3\xa9\", x]"),   "line 1, column 7: expected a value, got 'x'"                   },
        {STR_INIT("[1"),                  "line 1, column 3: expected ',' or ']', got the end of the text"},
        {STR_INIT("1 2"),                 "line 1, column 3: expected the end of the text, got '2'"       },
        {STR_INIT("nul"),                 "line 1, column 4: expected 'null', got the end of the text"    },
        {STR_INIT("01"),                  "line 1, column 1: expected no digit behind a leading 0"        },
        {STR_INIT("-"),                   "line 1, column 2: expected a digit, got the end of the text"   },
        {STR_INIT("1.e3"),                "line 1, column 3: expected a digit, got 'e'"                   },
        {STR_INIT("1e+"),                 "line 1, column 4: expected a digit, got the end of the text"   },
        {STR_INIT("[1e999]"),             "line 1, column 2: expected a number in the range of a double"  },
        {STR_INIT("\"abc"),
         "line 1, column 5: expected the closing quote of a string, got the end of the text"              },
        {STR_INIT("\"a\tb\""),
         "line 1, column 3: expected the closing quote of a string, got byte 0x09"                        },
        {STR_INIT("\"a\0b\""),
         "line 1, column 3: expected the closing quote of a string, got byte 0x00"                        },
        {STR_INIT("1\0"),                 "line 1, column 2: expected the end of the text, got byte 0x00" },
        {STR_INIT("\"\\x\""),
         "line 1, column 3: expected one of \"\\/bfnrtu behind a backslash, got 'x'"                      },
        {STR_INIT("\"\\u12g4\""),         "line 1, column 6: expected a hexadecimal digit, got 'g'"       },
        {STR_INIT("\"\\ud800\""),         "line 1, column 2: expected a surrogate pair, got half of one"  },
        {STR_INIT("\"\\udc00\\ud800\""),
         "line 1, column 2: expected a surrogate pair, got half of one"                                   },
        {STR_INIT("\"\\udc00\\udc00\""),
         "line 1, column 2: expected a surrogate pair, got half of one"                                   },
        {STR_INIT("\"\\ud800\\ue000\""),
         "line 1, column 2: expected a surrogate pair, got half of one"                                   },
        {STR_INIT("\"\\ud800\\u0041\""),
         "line 1, column 2: expected a surrogate pair, got half of one"                                   },
        {STR_INIT("\xef\xbb\xbf{}"),      "line 1, column 1: expected a value, got a byte order mark"     },
        {STR_INIT("[\"\xff\"]"),          "line 1, column 3: expected UTF-8, got an invalid byte"         },
        {STR_INIT("{\"a\":1,\n\"a\":2}"),
         "line 2, column 1: expected each key once, got a duplicate"                                      },
        {STR_INIT("\xc2\xa0[]"),          "line 1, column 1: expected a value, got a non-ASCII character" },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_refused(cases[i].text, NULL, EBADMSG, cases[i].message);
    check_refused(STR_NONE, NULL, EBADMSG, cases[0].message);
}

TEST(json, holds_to_its_limits)
{
    check_refused(STR("[[1]]"), &(struct json_limits){.depth_max = 1}, EMSGSIZE,
                  "line 1, column 2: nested too deeply");
    check_refused(STR("[1,2]"), &(struct json_limits){.nodes_max = 2}, EMSGSIZE,
                  "line 1, column 4: too many values");
    check_refused(STR("[\"abcd\"]"), &(struct json_limits){.string_bytes_max = 3}, EMSGSIZE,
                  "line 1, column 7: string too long");
    check_refused(STR("[1,2]"), &(struct json_limits){.text_bytes_max = 4}, EMSGSIZE,
                  "document of 5 bytes exceeds the limit of 4");
}

TEST(json, counts_depth_to_the_last_bracket)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    AUTO_BUF(text, 1 << 20);
    struct json *v;

    for (int i = 0; i < 64; i++)
        buf_add_char(&text, '[');
    for (int i = 0; i < 64; i++)
        buf_add_char(&text, ']');
    CHECK_EQ(json_parse(&a, buf_str(&text), NULL, &v, NULL), 0);
    buf_clear(&text);
    for (int i = 0; i < 1 << 20; i++)
        buf_add_char(&text, '[');
    CHECK_EQ(json_parse(&a, buf_str(&text), NULL, &v, NULL), -EMSGSIZE);
    CHECK_EQ(json_parse(&a, buf_str(&text), &(struct json_limits){.depth_max = JSON_DEPTH_CEILING},
                        &v, NULL),
             -EMSGSIZE);
}

TEST(json, reports_a_full_arena)
{
    AUTO_ARENA(tiny, 256);
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct json *v = NULL;

    CHECK_EQ(json_parse(&tiny, STR("[1,2,3,4,5,6,7,8]"), NULL, &v, NULL), -ENOMEM);
    fault_arm(FAULT_ALLOC, 1);
    CHECK_EQ(json_parse(&a, STR("[1]"), NULL, &v, NULL), -ENOMEM);
    CHECK(!v);
}

TEST(json, survives_every_failed_allocation)
{
    AUTO_BUF(text, 1 << 20);
    long nth = 0;
    int r;

    buf_add_char(&text, '{');
    for (int i = 0; i < 400; i++)
        buf_addf(&text, "\"k%d\":[%d,\"\\n\"],", i % 300, i);
    buf_add(&text, STR("\"bad\":\"\xff\"}"));
    do {
        AUTO_ARENA(a, ARENA_BYTES_MAX);
        struct json *v = NULL;

        fault_arm(FAULT_ALLOC, ++nth);
        r = json_parse(
            &a, buf_str(&text),
            &(struct json_limits){.duplicates = JSON_DUPLICATES_LAST, .replace_invalid = true}, &v,
            NULL);
        CHECK(r == 0 ? json_count(v) == 301 : r == -ENOMEM && !v);
    } while (r < 0);
    CHECK(nth > 3); /* so that the copies, nodes and sorted keys each had their turn */
    fault_arm(FAULT_ALLOC, 0);
}

TEST(json, resolves_duplicates_by_policy)
{
    struct str text = STR("{\"a\":1,\"b\":[2],\"a\":{\"x\":3},\"c\":4,\"a\":\"last\",\"b\":5}");
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    const struct json *v =
        parse(&a, text, &(struct json_limits){.duplicates = JSON_DUPLICATES_LAST});

    CHECK_EQ(json_count(v), 3);
    CHECK_SPAN(json_at(v, 0)->key, "a");
    CHECK_SPAN(json_at(v, 0)->string, "last");
    CHECK_SPAN(json_at(v, 1)->text, "5");
    CHECK_SPAN(json_at(v, 2)->key, "c");
    v = parse(&a, text, &(struct json_limits){.duplicates = JSON_DUPLICATES_FIRST});
    CHECK_EQ(json_count(v), 3);
    CHECK_SPAN(json_at(v, 0)->text, "1");
    CHECK_EQ(json_at(v, 1)->type, JSON_ARRAY);
    CHECK_SPAN(json_at(v, 2)->key, "c");
}

TEST(json, sees_escaped_keys_as_equal)
{
    check_refused(STR("{\"a\":1,\"\\u0061\":2}"), NULL, EBADMSG,
                  "line 1, column 8: expected each key once, got a duplicate");
    check_refused(STR("{\"\":1,\"\":2}"), NULL, EBADMSG,
                  "line 1, column 7: expected each key once, got a duplicate");
}

/* An object of `n` keys, the last repeating the key numbered `twin`. */
static void add_many_keys(struct buf *text, int n, int twin)
{
    buf_add_char(text, '{');
    for (int i = 0; i < n; i++)
        buf_addf(text, "\"k%06d\":%d,", i, i);
    buf_addf(text, "\"k%06d\":-1}", twin);
}

TEST(json, finds_duplicates_among_100k_keys_quickly)
{
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    AUTO_BUF(text, 8 << 20);
    const struct json *v;
    clock_t start = clock();
    struct json *none;

    add_many_keys(&text, 100000, 100000);
    CHECK_EQ(json_count(parse(&a, buf_str(&text), NULL)), 100001);
    buf_clear(&text);
    add_many_keys(&text, 100000, 54321);
    CHECK_EQ(json_parse(&a, buf_str(&text), NULL, &none, NULL), -EBADMSG);
    v = parse(&a, buf_str(&text), &(struct json_limits){.duplicates = JSON_DUPLICATES_LAST});
    CHECK_EQ(json_count(v), 100000);
    CHECK_EQ(json_at(v, 54321)->i64, -1);
    CHECK((clock() - start) / CLOCKS_PER_SEC < 10); /* 5e9 comparisons if quadratic */
}

TEST(json, replaces_what_is_invalid_when_asked)
{
    const struct json_limits lenient = {.replace_invalid = true};
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    const struct json *v =
        parse(&a, STR("[\"a\xff\xe2\x82z\",\"\\ud800x\",\"\\ud800\\n\",\"\\udc00\\ud83d\\ude00\"]"),
              &lenient);

    CHECK_SPAN(json_at(v, 0)->string, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz");
    CHECK_SPAN(json_at(v, 1)->string, "\xef\xbf\xbdx");
    CHECK_SPAN(json_at(v, 2)->string, "\xef\xbf\xbd\n");
    CHECK_SPAN(json_at(v, 3)->string, "\xef\xbf\xbd\xf0\x9f\x98\x80");
    check_refused(STR("[\"\xff\xff\", x]"), &lenient, EBADMSG,
                  "line 1, column 8: expected a value, got 'x'");
}

TEST(json, reads_the_first_value_only_when_asked)
{
    static const struct json_limits limits = {.first_only = true};
    AUTO_ARENA(a, ARENA_BYTES_MAX);
    struct json *v;

    CHECK_EQ(json_get(parse(&a, STR("{\"a\":1}{\"a\":2}"), &limits), STR("a"))->i64, 1);
    CHECK_EQ(parse(&a, STR(" 7 ]"), &limits)->i64, 7);
    CHECK_EQ(parse(&a, STR("[1]}"), &limits)->count, 1);
    CHECK_EQ(json_parse(&a, STR("[1"), &limits, &v, NULL), -EBADMSG);
    CHECK_EQ(json_parse(&a, STR(""), &limits, &v, NULL), -EBADMSG);
    CHECK_EQ(json_parse(&a, STR("[1]}"), NULL, &v, NULL), -EBADMSG);
}
