#include "osb/cli.h"

#include "test.h"

enum { TEXT_MAX = 64 * 1024 };

static void check_shape(const char *text, const char *shape, const char *wanted)
{
    AUTO_ARENA(a, 1024 * 1024);
    AUTO_BUF(out, TEXT_MAX);
    struct json_writer w;
    struct json *v = NULL;

    CHECK_EQ(json_parse(&a, str_of(text), NULL, &v, NULL), 0);
    json_write_begin(&w, &out);
    if (shape)
        shape_write(&w, v, shape);
    else
        shape_snake(&w, v);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(out.p, wanted);
}

TEST(shape, writes_members_in_snake_case_and_null_for_what_is_missing)
{
    check_shape("{\"createdAt\":1,\"extra\":2}", "id created_at", "{\"id\":null,\"created_at\":1}");
}

TEST(shape, follows_one_level_and_renames)
{
    check_shape("{\"image\":{\"uri\":\"x\"},\"status\":null}",
                "status{state} image{image=uri auth}",
                "{\"status\":null,\"image\":{\"image\":\"x\",\"auth\":null}}");
}

TEST(shape, snake_case_leaves_maps_of_the_user_alone)
{
    check_shape("{\"fooBar\":[{\"aB\":1}],\"metadata\":{\"aB\":1}}", NULL,
                "{\"foo_bar\":[{\"a_b\":1}],\"metadata\":{\"aB\":1}}");
}
