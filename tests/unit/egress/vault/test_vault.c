#include "egress/vault/vault.h"
#include "test.h"

static int allow_listed(void *user, struct str host)
{
    const char *const *hosts = user;

    for (; *hosts; hosts++)
        if (str_eq(host, str_of(*hosts)))
            return 1;
    return 0;
}

static const struct vault_host any_host = {.intercepting = true, .ready = true};
static struct err e;

static int create(struct vault *v, const char *json)
{
    return vault_create(v, str_of(json), &any_host, &e);
}

static int patch(struct vault *v, const char *json)
{
    return vault_patch(v, str_of(json), &any_host, &e);
}

static void check_state(struct vault *v, const char *want)
{
    struct vault_set *s = vault_current(v);
    AUTO_BUF(b, 64 << 10);
    struct json_writer w;

    json_write_begin(&w, &b);
    vault_write_state(&w, s);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_STR(b.p, want);
    vault_set_unref(s);
}

#define CREDENTIAL(name, value) "{\"name\":\"" name "\",\"source\":{\"value\":\"" value "\"}}"
#define BEARER(name, host, credential)                                                             \
    "{\"name\":\"" name "\",\"match\":{\"hosts\":[\"" host                                         \
    "\"]},\"auth\":{\"type\":\"bearer\",\"credential\":\"" credential "\"}}"
#define VAULT(credentials, bindings)                                                               \
    "{\"credentials\":[" credentials "],\"bindings\":[" bindings "]}"

TEST(vault, shows_the_worked_example_of_the_contract)
{
    struct vault *v = vault_new();

    CHECK_EQ(
        create(v, "{\"credentials\":[{\"name\":\"acme\",\"source\":{\"value\":\"s3cr3t-42\"}}],"
                  "\"bindings\":[{\"name\":\"acme-api\",\"match\":{\"hosts\":[\"API.acme.test.\"],"
                  "\"methods\":[\"post\"],\"paths\":[\"/v2/*\"]},"
                  "\"auth\":{\"type\":\"apiKey\",\"name\":\"x-acme-key\","
                  "\"credential\":\"acme\"}}]}"),
        0);
    check_state(v, "{\"revision\":1,\"credentials\":[{\"name\":\"acme\",\"sourceType\":\"inline\","
                   "\"revision\":1}],\"bindings\":[{\"name\":\"acme-api\",\"revision\":1,"
                   "\"match\":{\"schemes\":[\"https\"],\"ports\":[443],"
                   "\"hosts\":[\"api.acme.test\"],\"methods\":[\"POST\"],\"paths\":[\"/v2/*\"]},"
                   "\"auth\":{\"type\":\"apiKey\",\"name\":\"X-Acme-Key\"}}]}");
    vault_free(v);
}

TEST(vault, counts_revisions_one_to_six)
{
    struct vault *v = vault_new();

    CHECK_EQ(create(v, VAULT(CREDENTIAL("a", "value-a"), BEARER("ba", "a.test", "a"))), 0);
    CHECK_EQ(vault_revision(v), 1);
    CHECK_EQ(patch(v, "{\"expectedRevision\":1,\"credentials\":{\"add\":[" CREDENTIAL(
                          "b", "value-b") "]}}"),
             0);
    CHECK_EQ(patch(v, "{\"bindings\":{\"add\":[" BEARER("bb", "b.test", "b") "]}}"), 0);
    CHECK_EQ(patch(v, "{\"credentials\":{\"replace\":[" CREDENTIAL("a", "value-a2") "]}}"), 0);
    CHECK_EQ(patch(v, "{\"bindings\":{\"delete\":[\"bb\"]},\"credentials\":{\"delete\":[\"b\"]}}"),
             0);
    CHECK_EQ(patch(v, "{}"), 0);
    CHECK_EQ(vault_revision(v), 6);
    check_state(v, "{\"revision\":6,\"credentials\":[{\"name\":\"a\",\"sourceType\":\"inline\","
                   "\"revision\":4}],\"bindings\":[{\"name\":\"ba\",\"revision\":6,\"match\":{"
                   "\"schemes\":[\"https\"],\"ports\":[443],\"hosts\":[\"a.test\"],\"methods\":["
                   "\"GET\",\"POST\",\"PUT\",\"PATCH\",\"DELETE\"],\"paths\":[\"/*\"]},"
                   "\"auth\":{\"type\":\"bearer\"}}]}");
    CHECK_EQ(vault_delete(v, &any_host, &e), 0);
    CHECK_EQ(create(v, "{}"), 0);
    CHECK_EQ(vault_revision(v), 1);
    check_state(v, "{\"revision\":1,\"credentials\":[],\"bindings\":[]}");
    vault_free(v);
}

TEST(vault, answers_changes_out_of_order)
{
    struct vault *v = vault_new();

    CHECK_EQ(patch(v, "{}"), -ENOENT);
    CHECK_STR(e.msg, "credential vault not found");
    CHECK_EQ(vault_delete(v, &any_host, &e), -ENOENT);
    CHECK_EQ(create(v, VAULT(CREDENTIAL("a", "value-a"), BEARER("ba", "a.test", "a"))), 0);
    CHECK_EQ(create(v, "{}"), -EEXIST);
    CHECK_STR(e.msg, "credential vault already exists");
    CHECK_EQ(patch(v, "{\"expectedRevision\":7}"), -ESTALE);
    CHECK(strstr(e.msg, "expectedRevision"));
    CHECK_EQ(vault_revision(v), 1);
    vault_free(v);
}

TEST(vault, refuses_what_does_not_fit_together)
{
    static const char *const bad[] = {
        "{\"credentials\":{\"delete\":[\"a\"]}}", /* still referenced */
        "{\"credentials\":{\"delete\":[\"x\"]}}",
        "{\"bindings\":{\"delete\":[\"x\"]}}",
        "{\"credentials\":{\"replace\":[" CREDENTIAL("x", "v") "]}}",
        "{\"credentials\":{\"add\":[" CREDENTIAL("a", "v") "]}}",
        "{\"credentials\":{\"add\":[" CREDENTIAL("n", "v") "," CREDENTIAL(" n ", "v") "]}}",
        "{\"bindings\":{\"delete\":[\"ba\"],\"add\":[" BEARER("ba", "c.test", "a") "]}}",
        "{\"bindings\":{\"add\":[" BEARER("bx", "x.test", "nothing") "]}}",
        "{\"bindings\":{\"add\":[" BEARER("bx", "a.test", "a") "]}}", /* ambiguous */
        "{\"bindings\":{\"add\":[" BEARER("b1", "*.b.test", "a") "," BEARER("b2", "*.c.b.test",
                                                                            "a") "]}}",
        "{\"unknown\":1}",
        "[]",
        "",
    };
    struct vault *v = vault_new();

    CHECK_EQ(create(v, VAULT(CREDENTIAL("a", "value-a"), BEARER("ba", "a.test", "a"))), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (patch(v, bad[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
    CHECK_EQ(vault_revision(v), 1);
    /* exact and wildcard never conflict; other paths and methods do not either */
    CHECK_EQ(patch(v, "{\"bindings\":{\"add\":[" BEARER("bw", "*.a.test", "a") "]}}"), 0);
    CHECK_EQ(patch(v, "{\"bindings\":{\"add\":[{\"name\":\"p\",\"match\":{\"hosts\":[\"a.test\"],"
                      "\"methods\":[\"HEAD\"]},\"auth\":{\"type\":\"basic\",\"credential\":\"a\"}}"
                      "]}}"),
             0);
    vault_free(v);
}

TEST(vault, refuses_parts_that_are_wrong)
{
    static const char *const bad[] = {
        VAULT("{\"name\":\" \",\"source\":{\"value\":\"v\"}}", ""),
        VAULT("{\"name\":\"a\",\"source\":{\"value\":\"\"}}", ""),
        VAULT("{\"name\":\"a\",\"source\":{\"type\":\"env\",\"value\":\"v\"}}", ""),
        VAULT("{\"name\":\"a\"}", ""),
        VAULT(CREDENTIAL("a", "line\\r\\nX-Injected: 1"), ""),
        VAULT(CREDENTIAL("a", "v") "," CREDENTIAL("a", "w"), ""),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "localhost", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "10.0.0.1", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "a.test:443", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "a.*.test", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "*", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "a_b.test", "a")),
        VAULT(CREDENTIAL("a", "v"), BEARER("b", "-a.test", "a")),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{},\"auth\":{\"type\":\"bearer\","
                                    "\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"],\"ports\":"
                                    "[8443]},\"auth\":{\"type\":\"bearer\",\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"],\"schemes\":"
                                    "[\"ftp\"]},\"auth\":{\"type\":\"bearer\",\"credential\":"
                                    "\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"),
              "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"],\"paths\":"
              "[\"v1\"]},\"auth\":{\"type\":\"bearer\",\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"],\"paths\":"
                                    "[\"/v1/../x\"]},\"auth\":{\"type\":\"bearer\",\"credential\":"
                                    "\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{"
                                    "\"type\":\"apiKey\",\"name\":\"Host\",\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{"
                                    "\"type\":\"apiKey\",\"name\":\"a b\",\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{"
                                    "\"type\":\"customHeaders\",\"headers\":[]}}"),
        VAULT(CREDENTIAL("a", "v"),
              "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{\"type\":"
              "\"customHeaders\",\"headers\":[{\"name\":\"X-A\",\"credential\":\"a\"},{\"name\":"
              "\"x-a\",\"credential\":\"a\"}]}}"),
        VAULT(CREDENTIAL("a", "v"), "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{"
                                    "\"type\":\"oauth\",\"credential\":\"a\"}}"),
        VAULT(CREDENTIAL("a", "v"),
              "{\"name\":\"b\",\"match\":{\"hosts\":[\"a.test\"]},\"auth\":{\"type\":"
              "\"passthrough\",\"substitutions\":[{\"credential\":\"a\",\"placeholder\":\"p\","
              "\"in\":[\"cookie\"]}]}}"),
    };
    struct vault *v = vault_new();

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (create(v, bad[i]) != -EINVAL)
            test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
    CHECK(!vault_exists(v));
    vault_free(v);
}

TEST(vault, accepts_null_lists)
{
    struct vault *v = vault_new();

    CHECK_EQ(create(v, "{\"credentials\":null,\"bindings\":null} trailing"), 0);
    vault_free(v);
}

TEST(vault, needs_an_explicit_rule_for_every_host)
{
    static const char *allowed[] = {"a.test", "*.wild.test", NULL};
    struct vault_host h = {
        .intercepting = true, .ready = true, .host_allowed = allow_listed, .user = allowed};
    struct vault *v = vault_new();

    CHECK_EQ(vault_create(v, STR(VAULT(CREDENTIAL("a", "v"), BEARER("b", "b.test", "a"))), &h, &e),
             -EINVAL);
    CHECK_EQ(
        vault_create(v, STR(VAULT(CREDENTIAL("a", "v"), BEARER("b", "*.wild.test", "a"))), &h, &e),
        0);
    CHECK_EQ(vault_policy_check(v, &h, &e), 0);
    allowed[1] = NULL;
    CHECK_EQ(vault_policy_check(v, &h, &e), -EINVAL);
    CHECK(str_starts(str_of(e.msg), STR("credential vault policy validation: ")));
    vault_free(v);
}

static const char *match(struct vault_set *s, const char *scheme, const char *host,
                         const char *method, const char *path)
{
    struct vault_request r = {str_of(scheme), strcmp(scheme, "http") ? 443 : 80, str_of(host),
                              str_of(method), str_of(path)};
    const struct vault_binding *b = NULL;
    enum vault_verdict verdict = vault_set_match(s, &r, &b);

    return verdict == VAULT_MATCH ? b->name.p : verdict == VAULT_AMBIGUOUS ? "ambiguous" : "none";
}

TEST(vault, matches_by_host_method_path_and_scheme)
{
    struct vault *v = vault_new();
    struct vault_set *s;

    CHECK_EQ(create(v, "{\"credentials\":[" CREDENTIAL("a", "value-a") "],\"bindings\":[" BEARER(
                           "wild", "*.x.test",
                           "a") "," BEARER("exact", "api.x.test",
                                           "a") ","
                                                "{\"name\":\"plain\",\"match\":{\"schemes\":["
                                                "\"http\"],\"hosts\":[\"p.test\"],"
                                                "\"paths\":[\"/v1/*\",\"/"
                                                "exact\"]},\"auth\":{\"type\":\"bearer\","
                                                "\"credential\":\"a\"}}]}"),
             0);
    s = vault_current(v);
    CHECK_STR(match(s, "https", "api.x.test", "GET", "/"), "exact");
    CHECK_STR(match(s, "https", "b.x.test", "get", "/"), "wild");
    CHECK_STR(match(s, "https", "x.test", "GET", "/"), "none");
    CHECK_STR(match(s, "https", "evilx.test", "GET", "/"), "none");
    CHECK_STR(match(s, "https", "api.x.test", "HEAD", "/"), "none");
    CHECK_STR(match(s, "http", "api.x.test", "GET", "/"), "none");
    CHECK_STR(match(s, "http", "p.test", "GET", "/v1/a"), "plain");
    CHECK_STR(match(s, "http", "p.test", "GET", "/v1"), "none");
    CHECK_STR(match(s, "http", "p.test", "GET", "/exact"), "plain");
    CHECK_STR(match(s, "http", "p.test", "GET", "/exact/"), "none");
    CHECK_STR(match(s, "https", "p.test", "GET", "/v1/a"), "none");
    vault_set_unref(s);
    vault_free(v);
}

TEST(vault, renders_the_headers_of_each_kind)
{
    struct vault *v = vault_new();
    struct vault_set *s;

    CHECK_EQ(
        create(
            v,
            "{\"credentials\":[" CREDENTIAL("a", "value-a") "," CREDENTIAL(
                "b",
                "dTpw") "],\"bindings\":[" BEARER("1", "1.test",
                                                  "a") ","
                                                       "{\"name\":\"2\",\"match\":{\"hosts\":[\"2."
                                                       "test\"]},\"auth\":{\"type\":"
                                                       "\"basic\",\"credential\":\"b\"}},"
                                                       "{\"name\":\"3\",\"match\":{\"hosts\":[\"3."
                                                       "test\"]},\"auth\":{\"type\":"
                                                       "\"customHeaders\",\"headers\":[{\"name\":"
                                                       "\"PRIVATE-TOKEN\",\"credential\":"
                                                       "\"a\"},{\"name\":\"x-b\",\"credential\":"
                                                       "\"b\"}]}}]}"),
        0);
    s = vault_current(v);
    CHECK_SPAN(s->bindings[0].headers[0].name, "Authorization");
    CHECK_SPAN(s->bindings[0].headers[0].value, "Bearer value-a");
    CHECK_SPAN(s->bindings[1].headers[0].value, "Basic dTpw");
    CHECK_SPAN(s->bindings[2].headers[0].name, "Private-Token");
    CHECK_SPAN(s->bindings[2].headers[0].value, "value-a");
    CHECK_SPAN(s->bindings[2].headers[1].name, "X-B");
    vault_set_unref(s);
    vault_free(v);
}

TEST(vault, redacts_every_form_of_a_secret)
{
    struct vault *v = vault_new();
    AUTO_BUF(out, 4096);
    struct vault_set *s;

    /* "user:pass/word!" in base64, and a value that URLs and JSON write differently */
    CHECK_EQ(create(v, "{\"credentials\":[" CREDENTIAL("a", "va/lu\\\"e-1") "," CREDENTIAL(
                           "b", "dXNlcjpwYXNzL3dvcmQh") "],\"bindings\":[{\"name\":\"2\","
                                                        "\"match\":{\"hosts\":[\"2.test\"]},"
                                                        "\"auth\":{\"type\":\"basic\","
                                                        "\"credential\":\"b\"}}]}"),
             0);
    s = vault_current(v);
    CHECK_EQ(rewrite_all(s->redact_headers,
                         STR("va/lu\"e-1 va%2Flu%22e-1 va/lu\\\"e-1 dXNlcjpwYXNzL3dvcmQh "
                             "pass/word! user:"),
                         &out),
             0);
    CHECK_STR(out.p, "[REDACTED] [REDACTED] [REDACTED] [REDACTED] [REDACTED] user:");
    buf_clear(&out);
    CHECK_EQ(rewrite_all(s->redact_bodies, STR("<dXNlcjpwYXNzL3dvcmQh>"), &out), 0);
    CHECK_STR(out.p, "<[REDACTED]**********>");
    vault_set_unref(s);
    vault_free(v);
}

TEST(vault, keeps_a_set_for_requests_under_way)
{
    struct vault *v = vault_new();
    struct vault_set *s;

    CHECK_EQ(create(v, VAULT(CREDENTIAL("a", "value-a"), BEARER("ba", "a.test", "a"))), 0);
    s = vault_current(v);
    CHECK_EQ(vault_delete(v, &any_host, &e), 0);
    CHECK(vault_current(v) == NULL);
    CHECK_SPAN(s->credentials[0].value, "value-a");
    vault_set_unref(s);
    vault_free(v);
}

TEST(vault, sees_through_devious_paths)
{
    static const char *const bad[] = {
        "/v1/../admin",   "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/%252e%252e/a", "/v1/..\\admin",
        "/v1/..%5cadmin", "/v1/..;x=1/admin", "/v1/.",          "/v1/..",           "/v1/a%00b",
        "/./v1"};
    static const char *const fine[] = {"/v1/a",           "/",           "/v1/...", "/v1/a..b",
                                       "/projects/a%2Fb", "/v1/.hidden", "/v1/a%zz"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (!vault_path_is_devious(str_of(bad[i])))
            test_fail(__FILE__, __LINE__, "taken: %s", bad[i]);
    for (size_t i = 0; i < ARRAY_LEN(fine); i++)
        if (vault_path_is_devious(str_of(fine[i])))
            test_fail(__FILE__, __LINE__, "refused: %s", fine[i]);
}

TEST(vault, keeps_secrets_of_the_environment_apart)
{
    struct str hosts[] = {STR("api.openai.com")};
    char placeholder[VAULT_PLACEHOLDER_BYTES];
    struct vault_secret_env env = {STR("KEY"), STR("sk-very-secret"), STR_NONE, hosts, 1};
    struct vault *v = vault_new();
    struct vault_set *s;
    size_t at = 0;

    CHECK_EQ(vault_placeholder(placeholder, &e), 0);
    env.placeholder = str_of(placeholder);
    CHECK_EQ(env.placeholder.n, VAULT_PLACEHOLDER_BYTES - 1);
    CHECK_EQ(vault_add_env(v, &env, 1, &any_host, &e), 0);
    CHECK(!vault_exists(v));
    CHECK_EQ(create(v, VAULT(CREDENTIAL("a", "value-a"), BEARER("ba", "api.openai.com", "a"))), 0);
    CHECK_EQ(vault_revision(v), 1);
    CHECK_EQ(patch(v, "{\"bindings\":{\"delete\":[\"env/KEY\"]}}"), -EINVAL);
    check_state(v,
                "{\"revision\":1,\"credentials\":[{\"name\":\"a\",\"sourceType\":\"inline\","
                "\"revision\":1}],\"bindings\":[{\"name\":\"ba\",\"revision\":1,\"match\":{"
                "\"schemes\":[\"https\"],\"ports\":[443],\"hosts\":[\"api.openai.com\"],"
                "\"methods\":[\"GET\",\"POST\",\"PUT\",\"PATCH\",\"DELETE\"],\"paths\":[\"/*\"]},"
                "\"auth\":{\"type\":\"bearer\"}}]}");
    CHECK_EQ(vault_delete(v, &any_host, &e), 0);
    s = vault_current(v);
    CHECK(s && vault_set_next_env(s, STR("api.openai.com"), &at));
    at = 0;
    CHECK(!vault_set_next_env(s, STR("evil.test"), &at));
    CHECK(rewrite_find(s->guards, str_of(placeholder)));
    vault_set_unref(s);
    vault_free(v);
}
