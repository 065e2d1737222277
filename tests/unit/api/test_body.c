#include "api/body.h"

#include "base/buf.h"
#include "test.h"

static int parse(struct arena *a, struct str type, struct str body, struct api_fail *f)
{
    struct json *tree;

    return api_body_parse(a, type, body, &tree, f);
}

TEST(body, knows_json_by_its_content_type)
{
    static const char *const json[] = {"application/json", "Application/JSON",
                                       "application/json; charset=utf-8",
                                       "application/merge-patch+json", "application/x+JSON ;a=b"};
    static const char *const other[] = {"",          "text/plain",         "application/jsonp",
                                        "text/json", "application/+jsonx", "application/",
                                        "json",      "application/x-json", ";application/json"};

    for (size_t i = 0; i < ARRAY_LEN(json); i++)
        if (!api_is_json_type(str_of(json[i])))
            test_fail(__FILE__, __LINE__, "'%s' was not taken for JSON", json[i]);
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        if (api_is_json_type(str_of(other[i])))
            test_fail(__FILE__, __LINE__, "'%s' was taken for JSON", other[i]);
    CHECK(!api_is_json_type(STR_NONE));
}

TEST(body, says_what_is_wrong_with_a_document)
{
    static const struct {
        const char *type, *body, *message;
    } rows[] = {
        {"application/json", "",                  "body: required, but missing"                },
        {"text/plain",       "{}",                "body: send JSON with Content-Type: applic"  },
        {"",                 "{}",                "body: send JSON with Content-Type: applic"  },
        {"application/json", "{\n \"a\":,}",      "body: line 2, column 6: "                   },
        {"application/json", "{\"a\":1,\"a\":2}", "body: line 1, column 8: "                   },
        {"application/json", "\"\\\\\\u0000\"",   "body: strings must not hold a NUL character"},
        {"application/json", "{\"\\u0000\":1}",   "body: strings must not hold a NUL character"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct api_fail f = {0};

        CHECK_EQ(parse(&a, str_of(rows[i].type), str_of(rows[i].body), &f), -EBADMSG);
        CHECK_EQ(f.status, 400);
        CHECK_STR(f.code, "SANDBOX::INVALID_PARAMETER");
        if (strncmp(f.message, rows[i].message, strlen(rows[i].message)) != 0)
            test_fail(__FILE__, __LINE__, "row %zu says '%s'", i, f.message);
    }
}

TEST(body, knows_an_escaped_backslash_from_a_nul)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_fail f = {0};

    CHECK_EQ(parse(&a, STR("application/json"), STR("\"\\\\u0000 \\u0001\""), &f), 0);
}

TEST(body, is_bounded_in_depth_and_memory)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_ARENA(small, 1 << 12);
    AUTO_BUF(b, 1 << 20);
    struct api_fail f = {0};

    for (int i = 0; i <= API_BODY_DEPTH_MAX; i++)
        CHECK_EQ(buf_add_char(&b, '['), 0);
    CHECK_EQ(parse(&a, STR("application/json"), buf_str(&b), &f), -EBADMSG);
    CHECK_EQ(f.status, 400);
    buf_clear(&b);
    CHECK_EQ(buf_add_char(&b, '['), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(buf_add(&b, STR("1,")), 0);
    CHECK_EQ(buf_add(&b, STR("1]")), 0);
    CHECK_EQ(parse(&small, STR("application/json"), buf_str(&b), &f), -EBADMSG);
    CHECK_EQ(f.status, 413);
    CHECK_EQ(parse(&a, STR("application/json"), buf_str(&b), &f), 0);
}

TEST(body, reads_integers_as_leniently_as_the_contract)
{
    static const struct {
        const char *text;
        int r;
        int64_t value;
    } rows[] = {
        {"60",                       0,        60 },
        {"60.0",                     0,        60 },
        {"6e1",                      0,        60 },
        {"100",                      0,        100},
        {"59",                       -EBADMSG, 0  },
        {"101",                      -EBADMSG, 0  },
        {"60.5",                     -EBADMSG, 0  },
        {"1e300",                    -EBADMSG, 0  },
        {"99999999999999999999",     -EBADMSG, 0  },
        {"18446744073709551615",     -EBADMSG, 0  },
        {"-60",                      -EBADMSG, 0  },
        {"\"60\"",                   0,        60 },
        {"\" +60.00 \"",             0,        60 },
        {"\"59\"",                   -EBADMSG, 0  },
        {"\"60.5\"",                 -EBADMSG, 0  },
        {"\"60.\"",                  -EBADMSG, 0  },
        {"\".0\"",                   -EBADMSG, 0  },
        {"\"+-60\"",                 -EBADMSG, 0  },
        {"\"6e1\"",                  -EBADMSG, 0  },
        {"\"\"",                     -EBADMSG, 0  },
        {"\"99999999999999999999\"", -EBADMSG, 0  },
        {"true",                     -EBADMSG, 0  }, /* is 1 */
        {"null",                     -EBADMSG, 0  },
        {"[60]",                     -EBADMSG, 0  },
    };
    struct json_field field = {.min = 60, .max = 100};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct err e = {0};
        struct json *v;
        int64_t value = 0;

        CHECK_EQ(json_parse(&a, str_of(rows[i].text), NULL, &v, &e), 0);
        if (api_parse_integer(&a, v, &field, &value, &e) != rows[i].r || value != rows[i].value)
            test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, e.msg);
        CHECK_EQ(e.code, -rows[i].r);
    }
}

TEST(body, reads_booleans_as_leniently_as_the_contract)
{
    static const char *const yes[] = {"true",   "1",     "1.0",   "\"true\"", "\"1\"",
                                      "\"On\"", "\"t\"", "\"Y\"", "\"YES\""};
    static const char *const no[] = {"false",   "0",     "0.0",   "\"False\"", "\"0\"",
                                     "\"off\"", "\"F\"", "\"n\"", "\"no\""};
    static const char *const neither[] = {"2",     "0.5",  "-1", "\"\"", "\" true\"",
                                          "\"2\"", "null", "[]", "{}"};
    static const struct {
        const char *const *texts;
        size_t count;
        int r;
        bool value;
    } rows[] = {
        {yes,     ARRAY_LEN(yes),     0,        true },
        {no,      ARRAY_LEN(no),      0,        false},
        {neither, ARRAY_LEN(neither), -EBADMSG, false},
    };
    static const struct json_field field = {0};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t k = 0; k < rows[i].count; k++) {
            AUTO_ARENA(a, 1 << 20);
            struct err e = {0};
            struct json *v;
            bool value = i == 1;

            CHECK_EQ(json_parse(&a, str_of(rows[i].texts[k]), NULL, &v, &e), 0);
            if (api_parse_bool(&a, v, &field, &value, &e) != rows[i].r || value != rows[i].value)
                test_fail(__FILE__, __LINE__, "%s: %s", rows[i].texts[k], e.msg);
        }
}

TEST(body, takes_true_for_one)
{
    AUTO_ARENA(a, 1 << 20);
    struct json_field field = {.max = 1};
    int64_t value = 0;
    struct json *v;

    CHECK_EQ(json_parse(&a, STR("true"), NULL, &v, NULL), 0);
    CHECK_EQ(api_parse_integer(&a, v, &field, &value, NULL), 0);
    CHECK_EQ(value, 1);
}
