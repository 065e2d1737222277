#include "ingress/options.h"

#include "test.h"

static int parse(struct options *o, enum options_wish *wish, struct err *e, const char *const *args)
{
    char *argv[16] = {(char *)"opensandbox-ingress"};
    int argc = 1;

    while (args[argc - 1]) {
        argv[argc] = (char *)args[argc - 1];
        argc++;
    }
    return options_parse(argc, argv, o, wish, e);
}
#define PARSE(...) parse(&o, &wish, &e, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

TEST(options, have_the_defaults_of_the_contract)
{
    struct options o;
    enum options_wish wish;
    struct err e = {0};

    CHECK_EQ(PARSE(), 0);
    CHECK_EQ(wish, OPTIONS_RUN);
    CHECK_EQ(o.port, 28888);
    CHECK_EQ(o.mode, ROUTE_BY_HEADER);
    CHECK_STR(o.provider, "batchsandbox");
    CHECK_EQ(o.log_level, LOG_INFO);
    CHECK(!o.renew);
    CHECK_STR(o.redis_dsn, "redis://127.0.0.1:6379/0");
    CHECK_STR(o.queue_key, "opensandbox:renew:intent");
    CHECK_EQ(o.queue_max, 0);
    CHECK_EQ(o.min_interval_s, 60);
}

TEST(options, are_read_with_one_dash_or_two)
{
    struct options o;
    enum options_wish wish;
    struct err e = {0};

    CHECK_EQ(PARSE("-port", "1", "--mode=uri", "-renew-intent-enabled", "--log-level", "debug",
                   "--renew-intent-min-interval=-1"),
             0);
    CHECK_EQ(o.port, 1);
    CHECK_EQ(o.mode, ROUTE_BY_PATH);
    CHECK(o.renew);
    CHECK_EQ(o.log_level, LOG_DEBUG);
    CHECK_EQ(o.min_interval_s, -1);
    CHECK_EQ(PARSE("--renew-intent-enabled=false"), 0);
    CHECK(!o.renew);
    CHECK_EQ(PARSE("--mode", "other"), 0);
    CHECK_EQ(o.mode, ROUTE_BY_NOTHING);
    CHECK_EQ(PARSE("--mode", "wildcard"), 0);
    CHECK_EQ(o.mode, ROUTE_BY_HEADER);
    CHECK_EQ(PARSE("--help"), 0);
    CHECK_EQ(wish, OPTIONS_HELP);
}

TEST(options, say_what_is_wrong)
{
    struct options o;
    enum options_wish wish;
    struct err e = {0};

    CHECK_EQ(PARSE("--secure-access-enabled"), -EINVAL);
    CHECK(strstr(e.msg, "secure-access-enabled"));
    CHECK_EQ(PARSE("--port", "65536"), -EINVAL);
    CHECK_EQ(PARSE("--port"), -EINVAL);
    CHECK_EQ(PARSE("port"), -EINVAL);
    CHECK_EQ(PARSE("--renew-intent-enabled=maybe"), -EINVAL);
    CHECK_EQ(PARSE("--tls-cert", "x"), -EINVAL);
    CHECK_EQ(PARSE("--unprotected", "x"), -EINVAL);
    CHECK_EQ(PARSE("--secure-access-keys", "a=YQ==", "--secure-access-keys-file", "f"), -EINVAL);
}

TEST(options, are_all_in_the_help)
{
    static const char *const names[] = {"--port ",        "--metrics-address", "--servers-file",
                                        "--wake-timeout", "--source-failures", "--drain-timeout"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        CHECK(strstr(options_help, names[i]));
}
