#include "base/json_write.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "test.h"

TEST(json_write, places_commas_and_nests)
{
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    json_write_object(&w);
    json_write_key(&w, STR("list"));
    json_write_array(&w);
    json_write_i64(&w, INT64_MIN);
    json_write_u64(&w, UINT64_MAX);
    json_write_object(&w);
    json_write_object_end(&w);
    json_write_array(&w);
    json_write_array_end(&w);
    json_write_array_end(&w);
    json_write_key(&w, STR("yes"));
    json_write_bool(&w, true);
    json_write_key(&w, STR("nothing"));
    json_write_null(&w);
    json_write_key(&w, STR("raw"));
    json_write_raw(&w, STR("{\"a\":1}"));
    json_write_object_end(&w);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, "{\"list\":[-9223372036854775808,18446744073709551615,{},[]],\"yes\":true,"
                     "\"nothing\":null,\"raw\":{\"a\":1}}");
}

TEST(json_write, has_a_word_for_a_key_and_its_value)
{
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    json_write_object(&w);
    json_member_string(&w, STR("s"), STR("a\"b"));
    json_member_time(&w, STR("t"), 0);
    json_member_i64(&w, STR("i"), -1);
    json_member_u64(&w, STR("u"), UINT64_MAX);
    json_member_double(&w, STR("d"), 0.5);
    json_member_bool(&w, STR("b"), false);
    json_write_object_end(&w);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, "{\"s\":\"a\\\"b\",\"t\":\"1970-01-01T00:00:00Z\",\"i\":-1,"
                     "\"u\":18446744073709551615,\"d\":0.5,\"b\":false}");
}

TEST(json_write, escapes_what_the_wire_asks_for)
{
    static const struct {
        struct str text, want;
    } cases[] = {
        {STR_INIT("plain"),                                        STR_INIT("\"plain\"")                       },
        {STR_INIT(""),                                             STR_INIT("\"\"")                            },
        {STR_INIT("\"\\\n\r\t\b\f/"),                              STR_INIT("\"\\\"\\\\\\n\\r\\t\\b\\f/\"")    },
        {STR_INIT("\0\x01\x0b\x1f"),                               STR_INIT("\"\\u0000\\u0001\\u000b\\u001f\"")},
        {STR_INIT("<a>&"),                                         STR_INIT("\"\\u003ca\\u003e\\u0026\"")      },
        {STR_INIT("\x7f"),                                         STR_INIT("\"\x7f\"")                        },
        {STR_INIT("\xc2\x85\xe2\x80\xa8\xe2\x80\xa9"),             STR_INIT("\"\\u0085\\u2028\\u2029\"")       },
        {STR_INIT("\xc2\x84\xe2\x80\xa7\xc3\xa9\xf0\x9f\x98\x80"),
         STR_INIT("\"\xc2\x84\xe2\x80\xa7\xc3\xa9\xf0\x9f\x98\x80\"")                                          },
        {STR_INIT("a\xff\xe2\x82z"),                               STR_INIT("\"a\\ufffd\\ufffd\\ufffdz\"")     },
        {STR_INIT("\xed\xa0\x80"),                                 STR_INIT("\"\\ufffd\\ufffd\\ufffd\"")       },
        {STR_INIT("\xef\xbf\xbd"),                                 STR_INIT("\"\xef\xbf\xbd\"")                },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF(out, 4096);
        struct json_writer w;

        json_write_begin(&w, &out);
        json_write_string(&w, cases[i].text);
        CHECK_EQ(json_write_end(&w), 0);
        if (!str_eq(buf_str(&out), cases[i].want))
            test_fail(__FILE__, __LINE__, "case %zu is %s", i, out.p);
    }
}

TEST(json_write, prints_the_shortest_double_that_reads_back)
{
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0.0,                     "0"                      },
        {-0.0,                    "-0"                     },
        {1.0,                     "1"                      },
        {-1.5,                    "-1.5"                   },
        {0.1,                     "0.1"                    },
        {0.1 + 0.2,               "0.30000000000000004"    },
        {100.0,                   "100"                    },
        {123456789.125,           "123456789.125"          },
        {1e20,                    "100000000000000000000"  },
        {1e21,                    "1e+21"                  },
        {1.5e300,                 "1.5e+300"               },
        {0.000001,                "0.000001"               },
        {0.0000012345,            "0.0000012345"           },
        {1e-7,                    "1e-7"                   },
        {5e-324,                  "5e-324"                 },
        {1.7976931348623157e308,  "1.7976931348623157e+308"},
        {2.2250738585072014e-308, "2.2250738585072014e-308"},
        {9007199254740993.0,      "9007199254740992"       },
        {5.684341886080802e-14,   "5.684341886080802e-14"  }, /* 2^-44: uneven neighbours */
        {4.35,                    "4.35"                   },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_BUF(out, 4096);
        struct json_writer w;

        json_write_begin(&w, &out);
        json_write_double(&w, cases[i].v);
        CHECK_EQ(json_write_end(&w), 0);
        CHECK_STR(out.p, cases[i].want);
    }
}

TEST(json_write, refuses_doubles_that_json_cannot_say)
{
    const double bad[] = {NAN, INFINITY, -INFINITY};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        AUTO_BUF(out, 4096);
        struct json_writer w;

        json_write_begin(&w, &out);
        json_write_array(&w);
        json_write_double(&w, bad[i]);
        json_write_array_end(&w);
        CHECK_EQ(json_write_end(&w), -EDOM);
        CHECK_STR(out.p, "");
    }
}

TEST(json_write, keeps_the_first_failure_and_leaves_the_buffer_as_it_was)
{
    AUTO_BUF(out, 16);
    struct json_writer w;

    CHECK_EQ(buf_add(&out, STR("before ")), 0);
    json_write_begin(&w, &out);
    json_write_array(&w);
    json_write_string(&w, STR("far too long for it"));
    json_write_double(&w, NAN);
    json_write_array_end(&w);
    CHECK_EQ(json_write_end(&w), -EMSGSIZE);
    CHECK_STR(out.p, "before ");
}

TEST(json_write, reports_that_memory_is_out)
{
    AUTO_BUF(out, 4096);
    struct json_writer w;

    fault_arm(FAULT_ALLOC, 1);
    json_write_begin(&w, &out);
    json_write_null(&w);
    CHECK_EQ(json_write_end(&w), -ENOMEM);
    CHECK_STR(out.p, "");
}

TEST(json_write, refuses_to_nest_without_end)
{
    AUTO_BUF(out, 1 << 20);
    struct json_writer w;

    json_write_begin(&w, &out);
    for (int i = 0; i <= JSON_WRITE_DEPTH_MAX; i++)
        json_write_array(&w);
    CHECK_EQ(json_write_end(&w), -ELOOP);
}

static void check_echo(struct str text, struct str want)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 1 << 20);
    struct json_writer w;
    struct json *v;

    CHECK_EQ(json_parse(&a, text, &(struct json_limits){.depth_max = JSON_DEPTH_CEILING}, &v, NULL),
             0);
    json_write_begin(&w, &out);
    json_write_array(&w);
    json_write_value(&w, v);
    json_write_value(&w, v);
    json_write_array_end(&w);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK(str_eq(str_make(out.p + 1, want.n), want));
    CHECK_EQ(out.n, 2 * want.n + 3);
}

TEST(json_write, prints_a_tree_as_it_was_read)
{
    AUTO_BUF(deep, 4096);

    check_echo(STR(" 1.50 "), STR("1.50"));
    check_echo(STR("[ ]"), STR("[]"));
    check_echo(STR("{\"a\" : [1, {\"b\" : [[], {}, -0]}, 2e5], \"\\u0062\" : null, \"\": true}"),
               STR("{\"a\":[1,{\"b\":[[],{},-0]},2e5],\"b\":null,\"\":true}"));
    for (int i = 0; i < JSON_DEPTH_CEILING; i++)
        CHECK_EQ(buf_add_char(&deep, '['), 0);
    for (int i = 0; i < JSON_DEPTH_CEILING; i++)
        CHECK_EQ(buf_add_char(&deep, ']'), 0);
    check_echo(buf_str(&deep), buf_str(&deep));
}

static void misuse_value_without_key(struct json_writer *w)
{
    json_write_object(w);
    json_write_null(w);
}

static void misuse_key_in_array(struct json_writer *w)
{
    json_write_array(w);
    json_write_key(w, STR("k"));
}

static void misuse_key_without_value(struct json_writer *w)
{
    json_write_object(w);
    json_write_key(w, STR("k"));
    json_write_object_end(w);
}

static void misuse_wrong_end(struct json_writer *w)
{
    json_write_array(w);
    json_write_object_end(w);
}

static void misuse_second_value(struct json_writer *w)
{
    json_write_null(w);
    json_write_null(w);
}

static void misuse_left_open(struct json_writer *w)
{
    json_write_array(w);
    if (json_write_end(w) == 0)
        _exit(0);
}

static void misuse_nothing(struct json_writer *w)
{
    if (json_write_end(w) == 0)
        _exit(0);
}

TEST(json_write, asserts_that_it_is_used_in_order)
{
    static void (*const misuses[])(struct json_writer *) = {
        misuse_value_without_key, misuse_key_in_array, misuse_key_without_value, misuse_wrong_end,
        misuse_second_value,      misuse_left_open,    misuse_nothing,
    };

    for (size_t i = 0; i < ARRAY_LEN(misuses); i++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            AUTO_BUF(out, 4096);
            struct json_writer w;

            close(STDERR_FILENO);
            json_write_begin(&w, &out);
            misuses[i](&w);
            _exit(0);
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            test_fail(__FILE__, __LINE__, "misuse %zu went unnoticed", i);
    }
}
