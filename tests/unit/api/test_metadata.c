#include "api/metadata.h"

#include "api/requests.h"
#include "base/buf.h"

#define SIXTY      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SIXTYTHREE SIXTY "aaa"

TEST(metadata, knows_a_label_s_key)
{
    static const char *const good[] = {
        "a",       "a/b",      "a.b/c",         "A",  "0",        "a-b",           "a_b.c-d",
        "x-1.y/Z", SIXTYTHREE, "a/" SIXTYTHREE, "a1", "k8s.io/a", SIXTYTHREE "a/b"};
    static const char *const bad[] = {"",
                                      "A/b",
                                      "a/b/c",
                                      "-a",
                                      "a-",
                                      SIXTYTHREE "a",
                                      "/a",
                                      "a/",
                                      "a b",
                                      "a\n",
                                      "\na",
                                      "a/b\n",
                                      "a../b",
                                      ".a/b",
                                      "-a/b",
                                      "a-/b",
                                      "a_b/c",
                                      "\xc3\xa4",
                                      SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaaaaaa/a"};

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (!api_is_label_key(str_of(good[i])))
            test_fail(__FILE__, __LINE__, "'%s' was refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (api_is_label_key(str_of(bad[i])))
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
    CHECK(!api_is_label_key(str_make("a\0b", 3)));
    CHECK(api_is_label_key(STR(SIXTY SIXTY SIXTY SIXTY "aaaaaaaaaaaaa/a"))); /* 253 */
}

TEST(metadata, knows_a_label_s_value)
{
    CHECK(api_is_label_value(STR("")));
    CHECK(api_is_label_value(STR("a")));
    CHECK(api_is_label_value(STR("1.2_3-Z")));
    CHECK(api_is_label_value(STR(SIXTYTHREE)));
    CHECK(!api_is_label_value(STR(SIXTYTHREE "a")));
    CHECK(!api_is_label_value(STR("-")));
    CHECK(!api_is_label_value(STR("a b")));
    CHECK(!api_is_label_value(STR("a/b")));
    CHECK(!api_is_label_value(STR("a\n")));
}

TEST(metadata, knows_names)
{
    CHECK(api_is_name(STR("a"), 63));
    CHECK(api_is_name(STR("a-1"), 3));
    CHECK(!api_is_name(STR("a-1"), 2));
    CHECK(!api_is_name(STR(""), 63));
    CHECK(!api_is_name(STR("A"), 63));
    CHECK(!api_is_name(STR("a."), 63));
    CHECK(!api_is_name(STR("a.b"), 63));
    CHECK(!api_is_name(STR("-a"), 63));
}

TEST(metadata, refuses_reserved_keys_and_what_is_no_label)
{
    const struct json_pair reserved = {STR("opensandbox.io/id"), STR("a")};
    const struct json_pair bad_key = {STR("a b"), STR("a")}, bad_value = {STR("a"), STR("b c")};
    const struct json_pair good = {STR("opensandbox.iox/id"), STR("a")};
    struct api_fail f = {0};

    CHECK_EQ(api_labels_check(&good, 1, &f), 0);
    CHECK_EQ(api_labels_check(&reserved, 1, &f), -EBADMSG);
    CHECK_STR(f.code, "SANDBOX::INVALID_METADATA_LABEL");
    CHECK_EQ(f.status, 400);
    CHECK_EQ(api_labels_check(&bad_key, 1, &f), -EBADMSG);
    CHECK_STR(f.code, "SANDBOX::INVALID_METADATA_LABEL");
    CHECK(strstr(f.message, "metadata key 'a b': expected"));
    CHECK_EQ(api_labels_check(&bad_value, 1, &f), -EBADMSG);
    CHECK_STR(f.code, "SANDBOX::INVALID_METADATA_LABEL");
    CHECK(strstr(f.message, "metadata value of 'a': expected"));
}

/* What base becomes under a patch, or the code it is refused with. */
static const char *apply(struct arena *a, const char *base, const char *body)
{
    static struct api_fail f;
    struct api_patch patch;
    struct str json;

    f = (struct api_fail){0};
    if (api_patch_parse(a, STR("application/merge-patch+json"), json_quoted(a, body), &patch, &f) <
            0 ||
        api_patch_apply(a, json_quoted(a, base), &patch, &json, &f) < 0) {
        CHECK(f.status && f.code && f.message[0]);
        return f.code;
    }
    CHECK_EQ(json.p[json.n], '\0');
    return json.p;
}

#define CHECK_PATCH(base, patch, want)                                                             \
    do {                                                                                           \
        AUTO_ARENA(a_, 1 << 20);                                                                   \
                                                                                                   \
        CHECK_STR(apply(&a_, base, patch), json_quoted(&a_, want).p);                              \
    } while (0)

TEST(metadata, patches_as_rfc_7396_has_it)
{
    CHECK_PATCH("", "{}", "{}");
    CHECK_PATCH("{}", "{'a':null}", "{}");
    CHECK_PATCH("{'a':'1'}", "{}", "{'a':'1'}");
    CHECK_PATCH("{'a':'1'}", "{'a':'2'}", "{'a':'2'}");
    CHECK_PATCH("{'b':'1'}", "{'a':'2','c':''}", "{'a':'2','b':'1','c':''}");
    CHECK_PATCH("{'a':'1','b':'2'}", "{'a':null}", "{'b':'2'}");
    CHECK_PATCH("{'a':'1'}", "{'not a label':null}", "{'a':'1'}");
}

TEST(metadata, refuses_patches_by_the_codes_of_the_contract)
{
    CHECK_PATCH("{'a':'1'}", "{'b c':'1'}", "SANDBOX::INVALID_METADATA_LABEL");
    CHECK_PATCH("{'a':'1'}", "{'b':'1 2'}", "SANDBOX::INVALID_METADATA_LABEL");
    CHECK_PATCH("", "{'opensandbox.io/x':'1'}", "INVALID_METADATA_LABEL");
    CHECK_PATCH("", "{'b c':'','opensandbox.io/x':null}", "INVALID_METADATA_LABEL");
    CHECK_PATCH("", "{'a':1}", "SANDBOX::INVALID_PARAMETER");
    CHECK_PATCH("", "[]", "SANDBOX::INVALID_PARAMETER");
    CHECK_PATCH("", "null", "SANDBOX::INVALID_PARAMETER");
    CHECK_PATCH("", "", "SANDBOX::INVALID_PARAMETER");
    CHECK_PATCH("{'a':1}", "{}", "DOCKER::SANDBOX_QUERY_FAILED");
    CHECK_PATCH("nonsense", "{}", "DOCKER::SANDBOX_QUERY_FAILED");
}

/* {"k0":"v","k1":"v",...}, or with nulls. */
static void many(struct buf *b, int count, const char *value)
{
    buf_clear(b);
    for (int i = 0; i < count; i++)
        CHECK_EQ(buf_addf(b, "%c'k%d':%s", i ? ',' : '{', i, value), 0);
    CHECK_EQ(buf_add_char(b, '}'), 0);
}

TEST(metadata, has_a_ceiling_that_counts_what_is_left)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(base, 1 << 16);
    AUTO_BUF(patch, 1 << 16);

    many(&base, API_METADATA_MAX, "'v'");
    CHECK_STR(apply(&a, base.p, "{'new':'v'}"), "SANDBOX::INVALID_PARAMETER");
    CHECK(apply(&a, base.p, "{'new':'v','k0':null}")[0] == '{');
    many(&patch, API_PATCH_MAX, "null");
    CHECK_STR(apply(&a, base.p, patch.p), "{}");
    many(&patch, API_PATCH_MAX + 1, "null");
    CHECK_STR(apply(&a, base.p, patch.p), "SANDBOX::INVALID_PARAMETER");
}
