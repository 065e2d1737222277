#include "execd/core/answer.h"

#include <errno.h>

#include "test.h"

struct inner {
    struct str language, cwd;
};

struct outer {
    struct str code;
    struct inner context;
    struct json_pair *envs;
    size_t envs_count;
};

static const struct json_field inner_fields[] = {
    JSON_FIELD("language", JSON_AS_STR, JSON_NULLABLE, struct inner, language, .min = 0),
    JSON_FIELD("cwd", JSON_AS_STR, JSON_NULLABLE, struct inner, cwd, .min = 0),
};
static const struct json_table inner_table = JSON_TABLE(struct inner, inner_fields, 0);
static const struct json_field outer_fields[] = {
    JSON_FIELD("code", JSON_AS_STR, JSON_NULLABLE, struct outer, code, .min = 0),
    JSON_FIELD("context", JSON_AS_OBJECT, JSON_NULLABLE, struct outer, context,
               .table = &inner_table),
    JSON_LIST("envs", JSON_AS_MAP, JSON_NULLABLE, struct outer, envs, .min = 0),
};
static const struct json_table outer_table = JSON_TABLE(struct outer, outer_fields, 0);

static int read_text(struct arena *a, const char *text, struct outer *ret)
{
    return answer_read_json(str_of(text), a, &outer_table, ret, NULL);
}

TEST(answer, finds_names_in_any_case_at_any_depth)
{
    AUTO_ARENA(a, 1 << 16);
    struct outer o = {.code = STR("")};

    CHECK_EQ(
        read_text(&a, "{\"CODE\":\"1\",\"Context\":{\"Language\":\"python\",\"cwD\":\"/\"}}", &o),
        0);
    CHECK(str_eq(o.code, STR("1")));
    CHECK(str_eq(o.context.language, STR("python")));
    CHECK(str_eq(o.context.cwd, STR("/")));
}

TEST(answer, takes_the_last_of_two_names_that_differ_in_case)
{
    AUTO_ARENA(a, 1 << 16);
    struct outer o = {.code = STR("")};

    CHECK_EQ(read_text(&a, "{\"context\":{\"language\":\"go\",\"LANGUAGE\":\"java\"}}", &o), 0);
    CHECK(str_eq(o.context.language, STR("java")));
}

TEST(answer, leaves_the_keys_of_maps_alone)
{
    AUTO_ARENA(a, 1 << 16);
    struct outer o = {.code = STR("")};

    CHECK_EQ(read_text(&a, "{\"Envs\":{\"CODE\":\"1\",\"Language\":\"2\"}}", &o), 0);
    CHECK_EQ(o.envs_count, 2);
    CHECK(str_eq(o.envs[0].key, STR("CODE")));
    CHECK(str_eq(o.envs[1].key, STR("Language")));
    CHECK_EQ(o.code.n, 0);
}

TEST(answer, takes_a_null_body_for_an_empty_one)
{
    AUTO_ARENA(a, 1 << 16);
    struct outer o = {.code = STR("kept")};

    CHECK_EQ(read_text(&a, "null", &o), 0);
    CHECK_EQ(read_text(&a, "{\"code\":null,\"context\":{\"language\":null},\"envs\":null}", &o), 0);
    CHECK(str_eq(o.code, STR("kept")));
    CHECK_EQ(o.envs_count, 0);
    CHECK_EQ(read_text(&a, "{\"context\":null,\"envs\":{\"A\":null,\"B\":\"b\"}}", &o), 0);
    CHECK_EQ(o.envs_count, 2);
    CHECK(str_eq(o.envs[0].value, STR("")));
    CHECK(str_eq(o.envs[1].value, STR("b")));
}

TEST(answer, refuses_what_does_not_fit)
{
    AUTO_ARENA(a, 1 << 16);
    struct outer o = {.code = STR("")};

    CHECK_EQ(read_text(&a, "", &o), -EBADMSG);
    CHECK_EQ(read_text(&a, "[]", &o), -EBADMSG);
    CHECK_EQ(read_text(&a, "{\"context\":{\"Language\":1}}", &o), -EBADMSG);
    CHECK_EQ(read_text(&a, "{\"context\":[]}", &o), -EBADMSG);
    CHECK_EQ(read_text(&a, "{\"envs\":{\"A\":1}}", &o), -EBADMSG);
}
