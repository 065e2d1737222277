#include "server/core/spec_json.h"

#include <stdlib.h>

#include "base/mem.h"
#include "server/core/spec_request.h"
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
    auto_free char *json = spec_json_new(&spec, NULL, STR("id"));

    CHECK(json != NULL);
    CHECK(!strstr(json, "\"x\""));
    CHECK(strstr(json, "\"env\":{\"A\":\"b\",\"MY_TOKEN\":\"***\",\"password\":\"***\","
                       "\"sEcReTs\":\"***\",\"KEYBOARD\":\"***\",\"TOKE\":\"n\"}"));
}

/* What is kept of a variable. */
static bool is_masked(const char *name, const char *value)
{
    struct json_pair env[] = {pair(name, value)};
    struct api_create spec = {.env = env, .env_count = 1};
    auto_free char *json = spec_json_new(&spec, NULL, STR("id"));
    bool masked = strstr(json, ":\"***\"") != NULL;

    CHECK(strstr(json, name));
    CHECK_EQ(strstr(json, value) == NULL, masked);
    return masked;
}

TEST(spec_json, masks_by_name)
{
    static const char *const secret[] = {
        "AWS_SECRET_ACCESS",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "NPM_TOKEN",
        "DB_PASS",
        "PGPASSWORD",
        "PASSPHRASE",
        "MYSQL_PWD",
        "pwd",
        "ApiKey",
        "AWS_CREDS",
        "credentials",
        "GIT_AUTH",
        "BasicAuth",
        "GITHUB_PAT",
        "PAT",
        "pat",
        "MY-PAT-2",
        "a.pat.b",
        "PATH_PAT",
        "SENTRY_DSN",
        "PRIVATE_PEM",
        "SESSION_ID",
        "sessiondata",
        "LOGIN_COOKIE",
        "cookies_of_me",
    };
    static const char *const plain[] = {
        "PATH", "PATTERN", "COMPAT", "PATH_PATTERN", "HOME", "LANG", "PA", "SPAT", "PAT1", "",
    };

    for (size_t i = 0; i < ARRAY_LEN(secret); i++)
        if (!is_masked(secret[i], "hush"))
            test_fail(__FILE__, __LINE__, "%s is shown", secret[i]);
    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        if (is_masked(plain[i], "shown"))
            test_fail(__FILE__, __LINE__, "'%s' is masked", plain[i]);
}

TEST(spec_json, masks_addresses_with_a_password)
{
    CHECK(is_masked("DATABASE_URL", "postgres://ann:hush@db/x"));
    CHECK(is_masked("U", "redis://:hush@cache:6379"));
    CHECK(is_masked("U", "https://hush@host/"));
    CHECK(is_masked("U", "mysql://ann:hu/sh@db"));
    CHECK(is_masked("U", "--index http://a/ --extra http://ann:hush@b/"));
    CHECK(!is_masked("U", "https://host/path?x=y"));
    CHECK(!is_masked("U", "ann@host"));
    CHECK(!is_masked("U", "ann@host, see https://host/"));
    CHECK(!is_masked("U", "://"));
}

TEST(spec_json, prints_a_line_for_each)
{
    struct json_pair env[] = {pair("A", "b c"), pair("N\nL", "\n"), pair("E", "")};
    struct api_create spec = {.env = env, .env_count = 3, .limits = {.memory_bytes = 77}};
    auto_free char *json = spec_json_new(&spec, NULL, STR("id"));
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
    AUTO_BUF(out, 1000);

    memset(value, 'v', 1 << 20);
    json = spec_json_new(&spec, NULL, STR("id"));
    CHECK(json && strstr(json, "limits") && !strstr(json, "vvv"));
    CHECK_EQ(spec_json_print(str_of(json), &out), 0);
    CHECK(strstr(out.p, "\nenv:        left out: more than 32 KiB\n"));
}

TEST(spec_json, seals_the_environment_of_a_persistent_sandbox)
{
    struct json_pair env[] = {pair("MY_TOKEN", "planted"), pair("PLAIN", "also-planted")};
    struct str words[] = {STR("sleep")};
    struct api_create spec = {.image = STR("host"),
                              .persistent = true,
                              .entrypoint = words,
                              .entrypoint_count = 1,
                              .env = env,
                              .env_count = ARRAY_LEN(env)};
    const struct seal seal = {"0123456789abcdef0123456789abcde"}, other = {"another"};
    auto_free char *json = spec_json_new(&spec, &seal, STR("id"));
    auto_free char *clear = spec_json_new(&spec, NULL, STR("id"));
    auto_free char *request = NULL;

    CHECK(json && !strstr(json, "\"planted"));
    CHECK(strstr(json, "\"MY_TOKEN\":\"***\""));
    CHECK(strstr(clear, "planted"));
    request = spec_json_unseal(str_of(json), &seal, STR("id"));
    CHECK(request && strstr(request, "\"MY_TOKEN\":\"planted\""));
    CHECK(!spec_json_unseal(str_of(json), &other, STR("id")));
    CHECK(!spec_json_unseal(str_of(json), &seal, STR("another")));
    CHECK(!spec_json_unseal(str_of(json), NULL, STR("id")));
    CHECK(!spec_json_unseal(str_of(clear), &seal, STR("id")));
    CHECK(!spec_json_unseal(STR("{\"sealed\":"), &seal, STR("id")));
    CHECK(spec_json_facts(str_of(json)).persistent);
}

/* What a start, a rollback or a fork asks for. */
static struct api_limits limits_again(const struct api_limits *limits)
{
    struct str words[] = {STR("sleep")};
    struct api_create spec = {.image = STR("host"),
                              .entrypoint = words,
                              .entrypoint_count = 1,
                              .limits = *limits,
                              .renew_extend_s = 86400};
    auto_free char *request = spec_request_new(&spec, true);
    AUTO_ARENA(arena, 1 << 20);
    struct api_create again = {0};
    struct api_fail f = {0};

    CHECK_EQ(spec_request_read(&arena, str_of(request), STR_NONE, NULL, 0, &again, &f), 0);
    CHECK_EQ(again.renew_extend_s, spec.renew_extend_s);
    return again.limits;
}

TEST(spec_request, keeps_all_limits)
{
    struct api_limits limits = {
        .memory_bytes = 1 << 30, .disk_bytes = UINT64_C(1) << 40, .cpu_millicores = 1500};

    for (int32_t gpus = -1; gpus <= 2; gpus++) {
        struct api_limits again;

        limits.gpus = gpus;
        again = limits_again(&limits);
        CHECK_EQ(again.memory_bytes, limits.memory_bytes);
        CHECK_EQ(again.disk_bytes, limits.disk_bytes);
        CHECK_EQ(again.cpu_millicores, limits.cpu_millicores);
        CHECK_EQ(again.gpus, gpus);
    }
}

static struct spec_facts facts_of(const struct api_create *spec)
{
    auto_free char *json = spec_json_new(spec, NULL, STR("id"));

    return spec_json_facts(str_of(json));
}

TEST(spec_json, keeps_secure_access)
{
    CHECK(facts_of(&(struct api_create){.secure_access = true}).secure);
    CHECK(!facts_of(&(struct api_create){0}).secure);
    CHECK(!spec_json_facts(STR("")).secure);
    CHECK(!spec_json_facts(STR("{\"limits\":{}}")).secure);
    CHECK(spec_json_facts(STR("{\"limits\":")).secure);
    CHECK(spec_json_facts(STR("{\"secure_access\":1}")).secure);
}

TEST(spec_json, keeps_whether_execd_has_a_token_of_its_own)
{
    struct json_pair env[] = {pair("A", "b"), pair("EXECD_ACCESS_TOKEN", "x")};

    CHECK(facts_of(&(struct api_create){.env = env, .env_count = 2}).execd_token);
    CHECK(!facts_of(&(struct api_create){.env = env, .env_count = 1}).execd_token);
    CHECK(!facts_of(&(struct api_create){0}).execd_token);
    CHECK(spec_json_facts(STR("{\"env\":{\"EXECD_ACCESS_TOKEN\":\"***\"}}")).execd_token);
}

TEST(spec_json, keeps_it_also_when_the_environment_is_too_large)
{
    auto_free char *value = mem_alloc(1 << 20);
    struct json_pair env[] = {
        {STR("A"), str_make(value, 1 << 20)},
        pair("EXECD_ACCESS_TOKEN", "x")
    };

    memset(value, 'v', 1 << 20);
    CHECK(facts_of(&(struct api_create){.env = env, .env_count = 2}).execd_token);
    CHECK(!facts_of(&(struct api_create){.env = env, .env_count = 1}).execd_token);
}
