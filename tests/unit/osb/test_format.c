#include "osb/cli.h"

#include "test.h"

enum { TEXT_MAX = 64 * 1024 };

#define TREE(literal)                                                                              \
    AUTO_ARENA(a, 1024 * 1024);                                                                    \
    AUTO_BUF(out, TEXT_MAX);                                                                       \
    struct json *v = NULL;                                                                         \
    CHECK_EQ(json_parse(&a, STR(literal), NULL, &v, NULL), 0)

TEST(format, indents_json_by_two)
{
    TREE("{\"a\":[1,{\"b\":null}],\"c\":[],\"d\":{},\"e\":\"x\\\"\\n<\"}");

    format_json(&out, v);
    CHECK_STR(out.p, "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": [],\n"
                     "  \"d\": {},\n  \"e\": \"x\\\"\\n<\"\n}\n");
}

TEST(format, writes_json_on_one_line)
{
    TREE("[1,{\"b\":true}]");

    format_json_line(&out, v);
    CHECK_STR(out.p, "[1, {\"b\": true}]\n");
}

TEST(format, writes_yaml_in_blocks)
{
    TREE("{\"items\":[{\"id\":\"x\",\"on\":\"yes\"},{\"id\":\"y z\"}],\"empty\":[],"
         "\"deep\":{\"n\":1,\"list\":[\"a\",[\"b\"]]},\"when\":\"2026-01-01T00:00:00Z\"}");

    format_yaml(&out, v);
    CHECK_STR(out.p,
              "items:\n- id: x\n  \"on\": \"yes\"\n- id: \"y z\"\nempty: []\ndeep:\n  \"n\": 1\n"
              "  list:\n  - a\n  - - b\nwhen: \"2026-01-01T00:00:00Z\"\n");
}

TEST(format, draws_a_table_whose_columns_fit)
{
    TREE("[{\"id\":\"äö\",\"n\":12345},{\"id\":null}]");

    format_table(&out, "id n", v, false);
    CHECK_STR(out.p, "╭────┬───────╮\n│ ID │ N     │\n├────┼───────┤\n│ äö │ 12345 │\n"
                     "│ -  │ -     │\n╰────┴───────╯\n");
}
