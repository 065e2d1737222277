#include "api/request.h"

#include "base/time.h"
#include "test.h"

#define JSON STR("application/json")

static int renew(const char *body, int64_t *ret_us, struct api_fail *f)
{
    AUTO_ARENA(a, 1 << 20);

    *f = (struct api_fail){0};
    return api_renew_parse(&a, JSON, str_of(body), ret_us, f);
}

TEST(request, reads_the_time_of_a_renewal_in_every_form)
{
    static const struct {
        const char *value;
        int64_t us;
    } rows[] = {
        {"\"2033-05-18T03:33:20Z\"",         2000000000000000},
        {"\"2033-05-18T05:33:20+02:00\"",    2000000000000000},
        {"\"2033-05-18 03:33:20\"",          2000000000000000},
        {"\"2033-05-18T03:33\"",             1999999980000000},
        {"\"2033-05-18\"",                   1999987200000000},
        {"\"2033-05-18T03:33:20.1234567Z\"", 2000000000123456},
        {"2000000000",                       2000000000000000},
        {"2000000000000",                    2000000000000000},
        {"2000000000.5",                     2000000000500000},
        {"\"2000000000\"",                   2000000000000000},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_fail f;
        char body[128];
        int64_t us = 0;

        snprintf(body, sizeof(body), "{\"expiresAt\":%s,\"other\":1}", rows[i].value);
        CHECK_EQ(renew(body, &us, &f), 0);
        CHECK_EQ(us, rows[i].us);
    }
}

TEST(request, refuses_a_renewal_without_a_time)
{
    static const struct {
        const char *body, *message;
    } rows[] = {
        {"",                               "body: required, but missing"                  },
        {"[]",                             "body: expected an object, got an array"       },
        {"{}",                             "expiresAt: required, but missing"             },
        {"{\"expiresAt\":null}",           "expiresAt: expected a time, got null"         },
        {"{\"expiresAt\":true}",           "expiresAt: expected a time, got "             },
        {"{\"expiresAt\":\"soon\"}",       "expiresAt: expected a time like 2030-01-31T12"},
        {"{\"expiresAt\":\"2033-02-30\"}", "expiresAt: expected a time like 2030-01-31T12"},
        {"{\"expiresAt\":1e400}",          "body: line 1, column "                        },
        {"{\"expiresAt\":\"\"}",           "expiresAt: expected a time like 2030-01-31T12"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct api_fail f;
        int64_t us;

        CHECK_EQ(renew(rows[i].body, &us, &f), -EBADMSG);
        CHECK_EQ(f.status, 400);
        f.message[strlen(rows[i].message)] = '\0';
        CHECK_STR(f.message, rows[i].message);
    }
}

TEST(request, takes_a_snapshot_with_or_without_a_name)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_fail f = {0};
    struct api_snapshot_create got = {.memory = true};

    CHECK_EQ(api_snapshot_create_parse(&a, STR_NONE, STR_NONE, &got, &f), 0);
    CHECK_SPAN(got.name, "");
    CHECK(!got.memory);
    CHECK_EQ(api_snapshot_create_parse(&a, JSON, STR("{\"memory\":true}"), &got, &f), 0);
    CHECK(got.memory);
    CHECK_EQ(api_snapshot_create_parse(&a, STR_NONE, STR("null"), &got, &f), 0);
    CHECK_EQ(api_snapshot_create_parse(&a, JSON, STR("{}"), &got, &f), 0);
    CHECK_SPAN(got.name, "");
    CHECK_EQ(api_snapshot_create_parse(&a, JSON, STR("{\"name\":\"n 1\"}"), &got, &f), 0);
    CHECK_SPAN(got.name, "n 1");
    CHECK_EQ(api_snapshot_create_parse(&a, JSON, STR("{\"name\":\"\"}"), &got, &f), -EBADMSG);
    CHECK_STR(f.message, "name: expected at least 1 bytes, got 0");
    CHECK_EQ(api_snapshot_create_parse(&a, STR_NONE, STR("{}"), &got, &f), -EBADMSG);
    CHECK_EQ(api_snapshot_create_parse(&a, JSON, STR("[]"), &got, &f), -EBADMSG);
}

static const char *pool(const char *body, bool create, struct api_fail *f)
{
    AUTO_ARENA(a, 1 << 20);
    struct api_pool got;

    *f = (struct api_fail){0};
    return api_pool_parse(&a, JSON, str_of(body), create, &got, f) < 0 ? f->message : "ok";
}

#define CAPACITY "\"capacitySpec\":{\"bufferMax\":3,\"bufferMin\":1.0,\"poolMax\":9,\"poolMin\":0}"

TEST(request, checks_pools)
{
    struct api_fail f;

    CHECK_STR(pool("{\"name\":\"p-1\",\"template\":{}," CAPACITY "}", true, &f), "ok");
    CHECK_STR(pool("{" CAPACITY "}", false, &f), "ok");
    CHECK_STR(pool("{\"capacity_spec\":{\"bufferMax\":\"3\",\"buffer_min\":true,\"poolMax\":"
                   "\"2\",\"poolMin\":0}}",
                   false, &f),
              "ok");
    CHECK_STR(pool("{}", false, &f), "capacitySpec: required, but missing");
    CHECK_STR(pool("{\"name\":\"p\"," CAPACITY "}", true, &f), "template: required, but missing");
    CHECK_STR(pool("{\"name\":\"p\",\"template\":null," CAPACITY "}", true, &f),
              "template: expected an object, got null");
    CHECK(
        strstr(pool("{\"name\":\"P\",\"template\":{}," CAPACITY "}", true, &f), "name: expected"));
    CHECK_STR(pool("{\"capacitySpec\":{\"bufferMax\":-1}}", false, &f),
              "capacitySpec.bufferMax: expected an integer from 0 to 2147483647, got -1");
    CHECK_STR(pool("{\"capacitySpec\":{\"bufferMax\":1}}", false, &f),
              "capacitySpec.bufferMin: required, but missing");
}

TEST(request, writes_what_the_server_reads)
{
    AUTO_ARENA(a, 1 << 20);
    AUTO_BUF(out, 4096);
    struct api_fail f = {0};
    struct json_pair env[] = {
        {STR("A"), STR("1")},
        {STR("B"), STR_NONE}
    };
    struct api_fork fork = {.count = 3, .timeout_s = 90, .env = env, .env_count = 2}, got;
    struct api_pool pool =
                        {
                            .name = STR("p"), .capacity = {3, 1, 9, 0}
    },
                    read;
    struct json template = {.type = JSON_OBJECT};
    struct str snapshot = STR_NONE;

    CHECK_EQ(api_fork_write(&a, &out, &fork), 0);
    CHECK_EQ(api_fork_parse(&a, JSON, buf_str(&out), &got, &f), 0);
    CHECK_EQ(got.count, 3);
    CHECK_EQ(got.timeout_s, 90);
    CHECK_EQ(got.env_count, 2);
    CHECK_SPAN(got.env[0].value, "1");
    CHECK(!got.env[1].value.p && !got.has_metadata);
    buf_clear(&out);
    CHECK_EQ(api_fork_write(&a, &out, &(struct api_fork){0}), 0);
    CHECK_STR(out.p, "{}");
    buf_clear(&out);
    CHECK_EQ(api_fork_write(&a, &out, &(struct api_fork){.memory = true}), 0);
    CHECK_STR(out.p, "{\"memory\":true}");
    buf_clear(&out);
    CHECK_EQ(api_snapshot_create_write(&out, &(struct api_snapshot_create){.name = STR("n")}), 0);
    CHECK_STR(out.p, "{\"name\":\"n\"}");
    buf_clear(&out);
    CHECK_EQ(api_snapshot_create_write(&out, &(struct api_snapshot_create){.memory = true}), 0);
    CHECK_STR(out.p, "{\"memory\":true}");
    buf_clear(&out);
    CHECK_EQ(api_rollback_write(&out, STR("snap")), 0);
    CHECK_EQ(api_rollback_parse(&a, JSON, buf_str(&out), &snapshot, &f), 0);
    CHECK_SPAN(snapshot, "snap");
    buf_clear(&out);
    pool.template = &template;
    CHECK_EQ(api_pool_write(&out, &pool, true), 0);
    CHECK_EQ(api_pool_parse(&a, JSON, buf_str(&out), true, &read, &f), 0);
    CHECK_EQ(read.capacity.buffer_max, 3);
    CHECK_EQ(read.capacity.pool_min, 0);
    buf_clear(&out);
    CHECK_EQ(api_pool_write(&out, &pool, false), 0);
    CHECK_STR(out.p, "{\"capacitySpec\":{\"bufferMax\":3,\"bufferMin\":1,\"poolMax\":9,"
                     "\"poolMin\":0}}");
}
