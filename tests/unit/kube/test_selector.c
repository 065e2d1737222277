#include "kube/selector.h"
#include "test.h"

static struct arena arena;

static struct json *json_of(const char *text)
{
    struct json *v = NULL;

    CHECK_EQ(json_parse(&arena, str_of(text), NULL, &v, NULL), 0);
    return v;
}

static bool matches(const char *selector, const char *labels)
{
    struct kube_selector s;
    struct err e = {0};
    bool found;

    arena_init(&arena, 1 << 20);
    if (kube_selector_parse(&arena, str_of(selector), &s, &e) < 0)
        test_fail(__FILE__, __LINE__, "'%s': %s", selector, e.msg);
    found = kube_selector_matches(&s, labels ? json_of(labels) : NULL);
    arena_done(&arena);
    return found;
}

TEST(selector, compares_one_value)
{
    CHECK(matches("a=b", "{\"a\":\"b\"}"));
    CHECK(matches("a==b", "{\"a\":\"b\"}"));
    CHECK(!matches("a=b", "{\"a\":\"c\"}"));
    CHECK(!matches("a=b", NULL));
    CHECK(matches("a=", "{\"a\":\"\"}"));
    CHECK(matches("a!=b", "{\"a\":\"c\"}"));
    CHECK(matches("a!=b", NULL));
    CHECK(!matches("a != b", "{\"a\":\"b\"}"));
}

TEST(selector, compares_sets_presence_and_numbers)
{
    CHECK(matches("tier in (x, y)", "{\"tier\":\"y\"}"));
    CHECK(!matches("tier in (x,y)", "{\"tier\":\"z\"}"));
    CHECK(matches("tier notin (x,y)", "{\"tier\":\"z\"}"));
    CHECK(matches("tier notin (x)", "{}"));
    CHECK(matches("gpu", "{\"gpu\":\"\"}"));
    CHECK(!matches("gpu", "{}"));
    CHECK(matches("!gpu", "{}"));
    CHECK(!matches("! gpu", "{\"gpu\":\"1\"}"));
    CHECK(matches("size>3", "{\"size\":\"4\"}"));
    CHECK(!matches("size < 3", "{\"size\":\"4\"}"));
    CHECK(!matches("size>3", "{\"size\":\"many\"}"));
    CHECK(matches("in in (in)", "{\"in\":\"in\"}"));
}

TEST(selector, needs_all_of_its_terms)
{
    const char *labels = "{\"opensandbox.io/id\":\"7\",\"app\":\"web\"}";

    CHECK(matches("", labels));
    CHECK(matches("  ", NULL));
    CHECK(matches("opensandbox.io/id,app in (web),!x", labels));
    CHECK(!matches("opensandbox.io/id,app=api", labels));
}

TEST(selector, of_the_api_is_the_same)
{
    struct kube_selector s;
    AUTO_BUF(out, 1024);

    arena_init(&arena, 1 << 20);
    CHECK_EQ(kube_selector_of(&arena,
                              json_of("{\"matchLabels\":{\"a\":\"b\"},\"matchExpressions\":["
                                      "{\"key\":\"c\",\"operator\":\"NotIn\",\"values\":[\"d\","
                                      "\"e\"]},{\"key\":\"f\",\"operator\":\"DoesNotExist\"},"
                                      "{\"key\":\"g\",\"operator\":\"Gt\",\"values\":[\"5\"]}]}"),
                              &s, NULL),
             0);
    CHECK_EQ(kube_selector_write(&s, &out), 0);
    CHECK_STR(out.p, "a=b,c notin (d,e),!f,g>5");
    CHECK(kube_selector_matches(&s, json_of("{\"a\":\"b\",\"g\":\"6\"}")));
    CHECK(!kube_selector_matches(&s, json_of("{\"a\":\"b\",\"g\":\"6\",\"c\":\"e\"}")));
    CHECK_EQ(kube_selector_of(&arena, NULL, &s, NULL), 0);
    CHECK(kube_selector_matches(&s, NULL));
    CHECK_EQ(kube_selector_of(&arena,
                              json_of("{\"matchExpressions\":[{\"key\":\"a\","
                                      "\"operator\":\"Near\"}]}"),
                              &s, NULL),
             -EINVAL);
    CHECK_EQ(kube_selector_of(&arena, json_of("{\"matchLabels\":{\"a\":1}}"), &s, NULL), -EINVAL);
    arena_done(&arena);
}

TEST(selector, that_is_none_is_refused)
{
    static const char *const bad[] = {
        ",",     "a,",  "a=b c",   "a in b",      "a in (b",   "a in", "=b",     "-a=b",
        "a=b=c", "a>x", "a/b/c=d", "a=has space", "a in (-b)", "!",    "A_/b=c", "a!b"};
    struct kube_selector s;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        arena_init(&arena, 1 << 20);
        if (kube_selector_parse(&arena, str_of(bad[i]), &s, NULL) != -EINVAL)
            test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        arena_done(&arena);
    }
}

TEST(selector, knows_valid_names)
{
    CHECK(kube_label_key_is_valid(STR("opensandbox.io/id")));
    CHECK(kube_label_key_is_valid(STR("Some_key.x")));
    CHECK(!kube_label_key_is_valid(STR("/x")));
    CHECK(!kube_label_key_is_valid(STR("x/")));
    CHECK(!kube_label_key_is_valid(STR("Upper.io/x")));
    CHECK(kube_label_value_is_valid(STR("")));
    CHECK(!kube_label_value_is_valid(STR("-x")));
    CHECK(kube_is_dns_label(STR("a-1")));
    CHECK(!kube_is_dns_label(STR("a.b")));
    CHECK(!kube_is_dns_label(STR("A")));
    CHECK(kube_is_dns_subdomain(STR("a.b-c.d")));
    CHECK(!kube_is_dns_subdomain(STR("a..b")));
}
