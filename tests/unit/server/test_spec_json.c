#include "server/spec_json.h"

#include <stdlib.h>

#include "base/mem.h"
#include "test.h"

static struct json_pair pair(const char *key, const char *value)
{
    return (struct json_pair){str_of(key), str_of(value)};
}

TEST(spec_json, masks_what_looks_secret_before_it_is_kept)
{
    struct json_pair env[] = {
        pair("A", "b"),       pair("MY_TOKEN", "x"), pair("password", "x"),
        pair("sEcReTs", "x"), pair("KEYBOARD", "x"), pair("TOKE", "n"),
    };
    struct api_create spec = {.env = env, .env_count = ARRAY_LEN(env)};
    auto_free char *json = spec_json_new(&spec);

    CHECK(json != NULL);
    CHECK(!strstr(json, "\"x\""));
    CHECK(strstr(json, "\"env\":{\"A\":\"b\",\"MY_TOKEN\":\"***\",\"password\":\"***\","
                       "\"sEcReTs\":\"***\",\"KEYBOARD\":\"***\",\"TOKE\":\"n\"}"));
}

TEST(spec_json, prints_a_line_for_each)
{
    struct json_pair env[] = {pair("A", "b c"), pair("N\nL", "\n"), pair("E", "")};
    struct api_create spec = {.env = env, .env_count = 3, .limits = {.memory_bytes = 77}};
    auto_free char *json = spec_json_new(&spec);
    AUTO_BUF(out, 1000);

    CHECK_EQ(spec_json_print(str_of(json), &out), 0);
    CHECK_STR(out.p, "cpu limit:  the server's default\n"
                     "mem. limit: 77 bytes\n"
                     "disk limit: the server's default\n"
                     "env:        A=b c\n"
                     "env:        \"N\\nL\"=\"\\n\"\n"
                     "env:        E=\n");
    buf_clear(&out);
    CHECK_EQ(spec_json_print(STR(""), &out), 0); /* of an older server */
    CHECK_EQ(spec_json_print(STR("{"), &out), 0);
    CHECK_EQ(out.n, 0);
}

TEST(spec_json, leaves_out_an_environment_that_is_too_large)
{
    auto_free char *value = mem_alloc(1 << 20);
    struct json_pair env[] = {
        {STR("A"), str_make(value, 1 << 20)}
    };
    struct api_create spec = {.env = env, .env_count = 1};
    auto_free char *json = NULL;

    memset(value, 'v', 1 << 20);
    json = spec_json_new(&spec);
    CHECK(json && strstr(json, "limits") && !strstr(json, "env"));
}
