#include "base/json_bind.h"

#include "test.h"

enum action { ACTION_ALLOW = 1, ACTION_DENY };

struct rule {
    int action;
    struct str target;
    uint16_t port;
};

struct policy {
    struct rule *egress;
    size_t egress_count;
    int32_t *scores;
    size_t scores_count;
};

struct span { /* what the custom row makes of "3-7" */
    uint64_t from, to;
};

struct row {
    int64_t *cells;
    size_t cells_count;
};

struct request {
    struct str name;
    bool secure, secure_seen;
    int64_t offset;
    uint64_t big;
    uint32_t count;
    double ratio;
    const struct json *extra;
    struct policy policy;
    struct json_pair *labels;
    size_t labels_count;
    struct span span;
    struct row *rows;
    size_t rows_count;
};

static int parse_span(struct arena *a, const struct json *v, const struct json_field *f, void *ret,
                      struct err *e)
{
    struct span *span = ret;
    struct str rest, from;

    if (json_to_str(v, &rest) < 0)
        return err_set(e, EBADMSG, "expected a span, got %s", json_type_name(v));
    if (!str_cut(&rest, '-', &from) || str_to_u64(from, &span->from) < 0 || !rest.p ||
        str_to_u64(rest, &span->to) < 0)
        return err_set(e, EBADMSG, "expected a span such as \"3-7\"");
    return 0;
}

static const struct json_name action_names[] = {
    {"allow", ACTION_ALLOW},
    {"deny",  ACTION_DENY },
    {NULL,    0           },
};

static const struct json_field rule_fields[] = {
    JSON_FIELD("action", JSON_AS_ENUM, JSON_REQUIRED, struct rule, action, .names = action_names),
    JSON_FIELD("target", JSON_AS_STR, JSON_REQUIRED, struct rule, target, .min = 1, .max = 8),
    JSON_FIELD("port", JSON_AS_U16, 0, struct rule, port, .min = 1, .max = 65535),
};
static const struct json_table rule_table = JSON_TABLE(struct rule, rule_fields, JSON_STRICT);

static const struct json_field rule_element = {NULL, JSON_AS_OBJECT, .table = &rule_table};
static const struct json_field score_element = {NULL, JSON_AS_I32, .min = -5, .max = 5};

static const struct json_field policy_fields[] = {
    JSON_LIST("egress", JSON_AS_ARRAY, 0, struct policy, egress, .max = 3,
              .element = &rule_element),
    JSON_LIST("scores", JSON_AS_ARRAY, 0, struct policy, scores, .element = &score_element),
};
static const struct json_table policy_table = JSON_TABLE(struct policy, policy_fields, 0);

static const struct json_field cell_element = {NULL, JSON_AS_I64, JSON_NULLABLE};
static const struct json_field row_element =
    JSON_LIST(NULL, JSON_AS_ARRAY, 0, struct row, cells, .element = &cell_element,
              .size = sizeof(struct row));

static const struct json_field request_fields[] = {
    JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct request, name),
    JSON_FIELD("secure", JSON_AS_BOOL, JSON_NULLABLE, struct request, secure,
               .seen_at = JSON_SEEN(struct request, secure_seen)),
    JSON_FIELD("offset", JSON_AS_I64, 0, struct request, offset),
    JSON_FIELD("big", JSON_AS_U64, 0, struct request, big),
    JSON_FIELD("count", JSON_AS_U32, 0, struct request, count),
    JSON_FIELD("ratio", JSON_AS_DOUBLE, 0, struct request, ratio, .min = -1, .max = 1),
    JSON_FIELD("extra", JSON_AS_RAW, 0, struct request, extra),
    JSON_FIELD("networkPolicy", JSON_AS_OBJECT, 0, struct request, policy, .table = &policy_table),
    JSON_LIST("labels", JSON_AS_MAP, 0, struct request, labels, .max = 2),
    JSON_FIELD("span", JSON_AS_CUSTOM, 0, struct request, span, .parse = parse_span),
    JSON_LIST("rows", JSON_AS_ARRAY, 0, struct request, rows, .element = &row_element),
};
static const struct json_table request_table = JSON_TABLE(struct request, request_fields, 0);

static int bind(struct arena *a, const char *text, struct request *ret, struct err *e)
{
    struct json *v = NULL;

    if (json_parse(a, str_of(text), NULL, &v, e) < 0)
        test_fail(__FILE__, __LINE__, "%s: %s", text, e->msg);
    return json_bind(a, v, &request_table, ret, e);
}

TEST(json_bind, fills_a_struct_of_every_kind)
{
    AUTO_ARENA(a, 1 << 20);
    struct request q = {.count = 9};
    struct err e = {0};
    int r =
        bind(&a,
             "{\"name\":\"n\",\"secure\":true,\"offset\":-3,\"big\":18446744073709551615,"
             "\"ratio\":0.5,\"extra\":[null],\"span\":\"3-7\",\"unknown\":1,"
             "\"networkPolicy\":{\"egress\":[{\"action\":\"deny\",\"target\":\"x\",\"port\":80},"
             "{\"action\":\"allow\",\"target\":\"y\"}],\"scores\":[-5,5]},"
             "\"labels\":{\"k\":\"v\",\"l\":\"w\"},\"rows\":[[1,null,3],[]]}",
             &q, &e);

    CHECK_STR(e.msg, "");
    CHECK_EQ(r, 0);
    CHECK_SPAN(q.name, "n");
    CHECK(q.secure && q.secure_seen);
    CHECK_EQ(q.offset, -3);
    CHECK_EQ(q.big, UINT64_MAX);
    CHECK_EQ(q.count, 9); /* absent: as it was */
    CHECK(q.ratio == 0.5);
    CHECK_EQ(json_count(q.extra), 1);
    CHECK_EQ(q.policy.egress_count, 2);
    CHECK_EQ(q.policy.egress[0].action, ACTION_DENY);
    CHECK_EQ(q.policy.egress[0].port, 80);
    CHECK_SPAN(q.policy.egress[1].target, "y");
    CHECK_EQ(q.policy.egress[1].port, 0);
    CHECK_EQ(q.policy.scores_count, 2);
    CHECK_EQ(q.policy.scores[0], -5);
    CHECK_EQ(q.policy.scores[1], 5);
    CHECK_EQ(q.labels_count, 2);
    CHECK_SPAN(q.labels[1].key, "l");
    CHECK_SPAN(q.labels[1].value, "w");
    CHECK_EQ(q.span.from, 3);
    CHECK_EQ(q.span.to, 7);
    CHECK_EQ(q.rows_count, 2);
    CHECK_EQ(q.rows[0].cells_count, 3);
    CHECK_EQ(q.rows[0].cells[2], 3);
    CHECK_EQ(q.rows[1].cells_count, 0);
}

TEST(json_bind, takes_null_as_absent_where_the_row_says_so)
{
    AUTO_ARENA(a, 1 << 20);
    struct request q = {.secure = true, .secure_seen = true};
    struct err e = {0};

    CHECK_EQ(bind(&a, "{\"name\":\"n\",\"secure\":null,\"extra\":null}", &q, &e), 0);
    CHECK(q.secure && !q.secure_seen);
    CHECK_EQ(q.extra->type, JSON_NULL);
}

TEST(json_bind, names_the_path_of_the_offending_field)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"[]",                                                                                       "expected an object, got an array"                               },
        {"{}",                                                                                       "name: required, but missing"                                    },
        {"{\"name\":null}",                                                                          "name: expected a string, got null"                              },
        {"{\"name\":\"n\",\"secure\":1}",                                                            "secure: expected a boolean, got a number"                       },
        {"{\"name\":\"n\",\"offset\":1.5}",                                                          "offset: expected an integer, got 1.5"                           },
        {"{\"name\":\"n\",\"offset\":\"1\"}",                                                        "offset: expected an integer, got a string"                      },
        {"{\"name\":\"n\",\"offset\":9223372036854775808}",
         "offset: expected an integer from -9223372036854775808 to 9223372036854775807, "
         "got 9223372036854775808"                                                                                                                                    },
        {"{\"name\":\"n\",\"big\":-1}",
         "big: expected an integer from 0 to 18446744073709551615, got -1"                                                                                            },
        {"{\"name\":\"n\",\"count\":4294967296}",
         "count: expected an integer from 0 to 4294967295, got 4294967296"                                                                                            },
        {"{\"name\":\"n\",\"ratio\":1.01}",                                                          "ratio: expected a number from -1 to 1, got 1.01"                },
        {"{\"name\":\"n\",\"ratio\":[]}",                                                            "ratio: expected a number, got an array"                         },
        {"{\"name\":\"n\",\"networkPolicy\":3}",                                                     "networkPolicy: expected an object, got a number"                },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[{\"action\":\"deny\",\"target\":\"x\"},"
         "{\"action\":\"deny\",\"target\":\"x\"},{\"action\":\"deny\",\"target\":7}]}}",    "networkPolicy.egress[2].target: expected a string, got a number"},
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[{\"action\":\"drop\",\"target\":\"x\"}]}}",
         "networkPolicy.egress[0].action: expected one of allow, deny; got \"drop\""                                                                                  },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[{\"action\":\"deny\",\"target\":\"\"}]}}",
         "networkPolicy.egress[0].target: expected at least 1 bytes, got 0"                                                                                           },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[{\"action\":\"deny\",\"target\":"
         "\"123456789\"}]}}",                                                               "networkPolicy.egress[0].target: expected at most 8 bytes, got 9"},
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[{\"x\\ny\":1}]}}",
         "networkPolicy.egress[0].x?y: unknown field"                                                                                                                 },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[1]}}",
         "networkPolicy.egress[0]: expected an object, got a number"                                                                                                  },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":[1,2,3,4]}}",
         "networkPolicy.egress: expected at most 3 elements, got 4"                                                                                                   },
        {"{\"name\":\"n\",\"networkPolicy\":{\"egress\":{}}}",
         "networkPolicy.egress: expected an array, got an object"                                                                                                     },
        {"{\"name\":\"n\",\"networkPolicy\":{\"scores\":[0,6]}}",
         "networkPolicy.scores[1]: expected an integer from -5 to 5, got 6"                                                                                           },
        {"{\"name\":\"n\",\"labels\":{\"k\":1}}",                                                    "labels.k: expected a string, got a number"                      },
        {"{\"name\":\"n\",\"labels\":{\"a\":\"\",\"b\":\"\",\"c\":\"\"}}",
         "labels: expected at most 2 members, got 3"                                                                                                                  },
        {"{\"name\":\"n\",\"span\":\"3\"}",                                                          "span: expected a span such as \"3-7\""                          },
        {"{\"name\":\"n\",\"span\":3}",                                                              "span: expected a span, got a number"                            },
        {"{\"name\":\"n\",\"rows\":[[],[1,true]]}",
         "rows[1][1]: expected an integer, got a boolean"                                                                                                             },
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct request q = {0};
        struct err e = {0};

        CHECK_EQ(bind(&a, cases[i].text, &q, &e), -EBADMSG);
        CHECK_STR(e.msg, cases[i].message);
        CHECK_EQ(e.code, EBADMSG);
    }
}

TEST(json_bind, reports_a_full_arena)
{
    AUTO_ARENA(doc, 1 << 20);
    AUTO_ARENA(tiny, 8);
    struct request q = {0};
    struct err e = {0};
    struct json *v;

    CHECK_EQ(json_parse(&doc, STR("{\"name\":\"n\",\"labels\":{\"k\":\"v\"}}"), NULL, &v, NULL), 0);
    CHECK_EQ(json_bind(&tiny, v, &request_table, &q, &e), -ENOMEM);
    CHECK_STR(e.msg, "labels: no memory left");
}

struct knot {
    struct knot *below;
    size_t below_count;
};

extern const struct json_table knot_table;
static const struct json_field knot_element = {NULL, JSON_AS_OBJECT, .table = &knot_table};
static const struct json_field knot_fields[] = {
    JSON_LIST("below", JSON_AS_ARRAY, 0, struct knot, below, .element = &knot_element),
};
const struct json_table knot_table = JSON_TABLE(struct knot, knot_fields, 0);

TEST(json_bind, bounds_a_table_that_contains_itself)
{
    AUTO_ARENA(a, 1 << 20);
    struct knot k = {0};
    struct err e = {0};
    char text[1024] = "";
    struct json *v;

    for (int i = 0; i < 20; i++)
        memcpy(text + strlen(text), "{\"below\":[", sizeof("{\"below\":["));
    memcpy(text + strlen(text), "{}", sizeof("{}"));
    for (int i = 0; i < 20; i++)
        memcpy(text + strlen(text), "]}", sizeof("]}"));
    CHECK_EQ(json_parse(&a, str_of(text), NULL, &v, NULL), 0);
    CHECK_EQ(json_bind(&a, v, &knot_table, &k, &e), -EMSGSIZE);
    CHECK(strstr(e.msg, "below[0].below[0]") == e.msg);
}

struct lenient {
    struct str claim_name;
    int action;
};

static const struct json_field lenient_fields[] = {
    JSON_FIELD("claimName", JSON_AS_STR, JSON_REQUIRED, struct lenient, claim_name),
    JSON_FIELD("action", JSON_AS_ENUM, JSON_ANY_CASE, struct lenient, action,
               .names = action_names),
};
static const struct json_table lenient_table =
    JSON_TABLE(struct lenient, lenient_fields, JSON_STRICT | JSON_SNAKE);

TEST(json_bind, takes_snake_case_and_any_case_where_a_table_says_so)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"{\"claim_name\":\"c\",\"action\":\"Deny\"}",                 ""                                          },
        {"{\"claimName\":\"c\",\"claim_name\":7,\"action\":\"DENY\"}", ""                                          },
        {"{\"claim_Name\":\"c\"}",                                     "claim_Name: unknown field"                 },
        {"{\"claimname\":\"c\"}",                                      "claimname: unknown field"                  },
        {"{\"claim_name_\":\"c\"}",                                    "claim_name_: unknown field"                },
        {"{\"claim_\":\"c\"}",                                         "claim_: unknown field"                     },
        {"{\"claim_name\":7}",                                         "claimName: expected a string, got a number"},
        {"{\"claim_name\":\"c\",\"action\":\"Denied\"}",
         "action: expected one of allow, deny; got \"Denied\""                                                     },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        AUTO_ARENA(a, 1 << 20);
        struct lenient q = {0};
        struct err e = {0};
        struct json *v;
        int r;

        CHECK_EQ(json_parse(&a, str_of(rows[i].text), NULL, &v, &e), 0);
        r = json_bind(&a, v, &lenient_table, &q, &e);
        CHECK_STR(e.msg, rows[i].error);
        if (r == 0) {
            CHECK_SPAN(q.claim_name, "c");
            CHECK_EQ(q.action, ACTION_DENY);
        }
    }
}

/* --- the other direction --- */

TEST(json_bind, writes_what_it_bound)
{
    static const char text[] =
        "{\"name\":\"n\",\"secure\":false,\"offset\":-5,\"big\":18446744073709551615,\"count\":7,"
        "\"ratio\":0.5,\"extra\":[1,null],\"labels\":{\"a\":\"b\"}}";
    static const struct json_field fields[] = {
        JSON_FIELD("name", JSON_AS_STR, 0, struct request, name),
        JSON_FIELD("secure", JSON_AS_BOOL, 0, struct request, secure,
                   .seen_at = JSON_SEEN(struct request, secure_seen)),
        JSON_FIELD("offset", JSON_AS_I64, 0, struct request, offset),
        JSON_FIELD("big", JSON_AS_U64, 0, struct request, big),
        JSON_FIELD("count", JSON_AS_U32, 0, struct request, count),
        JSON_FIELD("ratio", JSON_AS_DOUBLE, 0, struct request, ratio),
        JSON_FIELD("extra", JSON_AS_RAW, 0, struct request, extra),
        JSON_LIST("labels", JSON_AS_MAP, 0, struct request, labels),
    };
    static const struct json_table table = JSON_TABLE(struct request, fields, 0);
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 4096);
    struct json_writer w;
    struct request req = {0};
    struct json *v;

    CHECK_EQ(json_parse(&a, str_of(text), NULL, &v, NULL), 0);
    CHECK_EQ(json_bind(&a, v, &table, &req, NULL), 0);
    json_write_begin(&w, &out);
    json_bind_write(&w, &table, &req);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, text);

    /* What was not given is not written. */
    buf_clear(&out);
    req = (struct request){0};
    json_write_begin(&w, &out);
    json_bind_write(&w, &table, &req);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, "{}");
}

TEST(json_bind, writes_objects_lists_and_names)
{
    static const struct json_name names[] = {
        {"allow", ACTION_ALLOW},
        {"deny",  ACTION_DENY },
        {NULL,    0           },
    };
    static const struct json_field rule_rows[] = {
        JSON_FIELD("action", JSON_AS_ENUM, JSON_REQUIRED, struct rule, action, .names = names),
        JSON_FIELD("target", JSON_AS_STR, JSON_REQUIRED, struct rule, target),
        JSON_FIELD("port", JSON_AS_U16, 0, struct rule, port),
    };
    static const struct json_table rule_t = JSON_TABLE(struct rule, rule_rows, 0);
    static const struct json_field element = {.as = JSON_AS_OBJECT, .table = &rule_t};
    static const struct json_field policy_rows[] = {
        JSON_LIST("egress", JSON_AS_ARRAY, 0, struct policy, egress, .element = &element),
    };
    static const struct json_table policy_t = JSON_TABLE(struct policy, policy_rows, 0);
    static const struct json_field rows[] = {
        JSON_FIELD("name", JSON_AS_STR, JSON_REQUIRED, struct request, name),
        JSON_FIELD("policy", JSON_AS_OBJECT, 0, struct request, policy, .table = &policy_t),
        JSON_FIELD("count", JSON_AS_U32, 0, struct request, count),
    };
    static const struct json_table table = JSON_TABLE(struct request, rows, 0);
    struct rule rules[] = {
        {ACTION_DENY,  STR("a"), 0 },
        {ACTION_ALLOW, STR(""),  80},
    };
    struct request req = {
        .policy = {.egress = rules, .egress_count = 2},
          .count = 1
    };
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    json_bind_write(&w, &table, &req);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p,
              "{\"name\":\"\",\"policy\":{\"egress\":[{\"action\":\"deny\",\"target\":\"a\"},"
              "{\"action\":\"allow\",\"target\":\"\",\"port\":80}]},\"count\":1}");
    buf_clear(&out);
    req.policy.egress_count = 0; /* an object with nothing in it is taken back, comma and all */
    json_write_begin(&w, &out);
    json_bind_write(&w, &table, &req);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, "{\"name\":\"\",\"count\":1}");
}
