#include "mcp/schema.h"

#include "test.h"

static const struct field inner_fields[] = {
    {"path", FIELD_STRING, true, "A path"}
};
static const struct field fields[] = {
    {.name = "id",              .type = FIELD_STRING, .required = true,                 .about = "An id"},
    {.name = "port",                         .type = FIELD_INTEGER,                                .otherwise = "80",                   .min = 1, .max = 65535},
    {.name = "env",                 .type = FIELD_STRING_MAP                        },
    {.name = "raw",.type = FIELD_STRING,.any_bytes = true                                      },
    {.name = "entries",        .type = FIELD_OBJECTS,                                                .inner = SCHEMA(inner_fields)},
};
static const struct schema schema = SCHEMA(fields);

static const char *verdict(const char *text)
{
    AUTO_ARENA(arena, 1 << 20);
    static struct err e;
    struct json *v;

    e = (struct err){0};
    CHECK_EQ(json_parse(&arena, str_of(text), NULL, &v, NULL), 0);
    return schema_check(&schema, v, &e) < 0 ? e.msg : "";
}

TEST(schema, is_written_as_json_schema)
{
    const struct schema small = {fields, 2};
    AUTO_BUF(out, 4096);
    struct json_writer w;

    json_write_begin(&w, &out);
    schema_write(&w, &small);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_SPAN(buf_str(&out),
               "{\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\","
               "\"description\":\"An id\"},\"port\":{\"type\":\"integer\",\"minimum\":1,"
               "\"maximum\":65535,\"default\":80}},\"required\":[\"id\"],"
               "\"additionalProperties\":false}");
}

TEST(schema, accepts_what_it_describes)
{
    CHECK_STR(verdict("{\"id\":\"a\",\"port\":null,\"env\":{\"A\":\"b\"},"
                      "\"raw\":\"\\u0000\",\"entries\":[{\"path\":\"/\"}]}"),
              "");
}

TEST(schema, says_what_would_be_right)
{
    CHECK_STR(verdict("{}"), "'id' is missing: a string");
    CHECK_STR(verdict("{\"id\":7}"), "id: expected a string without NULs, got a number");
    CHECK_STR(verdict("{\"id\":\"a\",\"port\":0}"), "port: expected 1 to 65535, got 0");
    CHECK_STR(verdict("{\"id\":\"a\",\"env\":{\"A\":1}}"),
              "env: expected an object whose values are strings, got an object");
    CHECK_STR(verdict("{\"id\":\"a\",\"entries\":[{}]}"), "entries: 'path' is missing: a string");
    CHECK_STR(verdict("{\"ID\":\"a\"}"),
              "unknown argument 'ID'; there are id, port, env, raw, entries");
}
