#include "execd/metrics/telemetry_conf.h"

#include <errno.h>

#include "test.h"

static struct arena memory;

/* 1, 0 when nothing asks for it, or -errno. */
static int read_conf(const char *const *env, const char *hostinfo, struct telemetry_conf *ret,
                     struct err *e)
{
    int r;

    arena_done(&memory);
    arena_init(&memory, TELEMETRY_CONF_BYTES_MAX);
    if (!telemetry_conf_wanted(env, str_of(hostinfo), TELEMETRY_METRICS))
        return 0;
    r = telemetry_conf_read(env, str_of(hostinfo), TELEMETRY_METRICS, &memory, ret, e);
    return r < 0 ? r : 1;
}
#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_attribute(const struct otlp_attribute *row, const char *key, const char *value)
{
    CHECK(str_eq(row->key, str_of(key)));
    CHECK(str_eq(row->text, str_of(value)));
}

TEST(telemetry_conf, is_off_unless_something_asks)
{
    struct telemetry_conf c;

    CHECK_EQ(read_conf(ENV("PATH=/bin"), "", &c, NULL), 0);
    CHECK_EQ(read_conf(ENV("OTEL_EXPORTER_OTLP_ENDPOINT= \t"), "# none\n", &c, NULL), 0);
    CHECK_EQ(read_conf(ENV("HOST_IP=node-7"), "node-7\n", &c, NULL), 0);
    CHECK_EQ(read_conf(ENV("HOST_IP=10.0.0.1", "OTEL_SDK_DISABLED=True"), "", &c, NULL), 0);
}

TEST(telemetry_conf, knows_where_to_send)
{
    static const struct {
        const char *own, *base, *ip, *hostinfo;
        const char *host, *authority, *target;
    } rows[] = {
        {"http://c:1/x?y=1", "http://no",    "1.2.3.4", "",                          "c",       "c:1",            "/x?y=1"        },
        {"http://c:1",       "",             "",        "",                          "c",       "c:1",            "/"             },
        {" ",                "http://b",     "1.2.3.4", "",                          "b",       "b:80",           "/v1/metrics"   },
        {"",                 "http://b/",    "",        "",                          "b",       "b:80",           "/v1/metrics"   },
        {"",                 "http://b/in/", "",        "",                          "b",       "b:80",           "/in/v1/metrics"},
        {"",                 "",             "1.2.3.4", "5.6.7.8\n",                 "1.2.3.4", "1.2.3.4:4318",   "/v1/metrics"   },
        {"",                 "",             "fd00::1", "",                          "fd00::1", "[fd00::1]:4318", "/v1/metrics"   },
        {"",                 "",             "x",       "# a\n 5.6.7.8 \r\n9.9.9.9", "5.6.7.8", "5.6.7.8:4318",   "/v1/metrics"   },
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char own[128], base[128], ip[128];
        struct telemetry_conf c;

        (void)snprintf(own, sizeof(own), "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=%s", rows[i].own);
        (void)snprintf(base, sizeof(base), "OTEL_EXPORTER_OTLP_ENDPOINT=%s", rows[i].base);
        (void)snprintf(ip, sizeof(ip), "HOST_IP=%s", rows[i].ip);
        CHECK_EQ(read_conf(ENV(own, base, ip), rows[i].hostinfo, &c, NULL), 1);
        CHECK_STR(c.host, rows[i].host);
        CHECK(str_eq(c.authority, str_of(rows[i].authority)));
        CHECK(str_eq(c.target, str_of(rows[i].target)));
    }
}

TEST(telemetry_conf, says_what_is_wrong_with_an_endpoint)
{
    struct telemetry_conf c;
    struct err e = {0};

    CHECK_EQ(read_conf(ENV("OTEL_EXPORTER_OTLP_ENDPOINT=https://c:4318/?key=secret"), "", &c, &e),
             -EINVAL);
    CHECK_STR(e.msg, "OTEL_EXPORTER_OTLP_ENDPOINT: execd has no TLS: https does not work, http "
                     "does");
    e = (struct err){0};
    CHECK_EQ(read_conf(ENV("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=c:4318"), "", &c, &e), -EINVAL);
    e = (struct err){0};
    CHECK_EQ(read_conf(ENV("OTEL_EXPORTER_OTLP_ENDPOINT=ws://c"), "", &c, &e), -EINVAL);
    CHECK_STR(e.msg, "OTEL_EXPORTER_OTLP_ENDPOINT: it is not an http URL");
}

TEST(telemetry_conf, takes_an_interval_that_makes_sense)
{
    static const struct {
        const char *row;
        uint32_t ms;
    } rows[] = {
        {"OTEL_METRIC_EXPORT_INTERVAL=1500",        1500 },
        {"OTEL_METRIC_EXPORT_INTERVAL= 100 ",       100  },
        {"OTEL_METRIC_EXPORT_INTERVAL=",            60000},
        {"OTEL_METRIC_EXPORT_INTERVAL=0",           60000},
        {"OTEL_METRIC_EXPORT_INTERVAL=-5",          60000},
        {"OTEL_METRIC_EXPORT_INTERVAL=10s",         60000},
        {"OTEL_METRIC_EXPORT_INTERVAL=99999999999", 60000},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct telemetry_conf c;

        CHECK_EQ(read_conf(ENV("HOST_IP=1.2.3.4", rows[i].row), "", &c, NULL), 1);
        CHECK_EQ(c.interval_ms, rows[i].ms);
    }
}

TEST(telemetry_conf, collects_attributes)
{
    struct telemetry_conf c;

    CHECK_EQ(read_conf(ENV("HOST_IP=1.2.3.4", "OPENSANDBOX_ID=sb",
                           "OTEL_RESOURCE_ATTRIBUTES=team=a%20b, service.name=no,bad=%f,cut",
                           "OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS=x=1=2,,=3,y=,z=%20,x=no"),
                       "", &c, NULL),
             1);
    CHECK_EQ(c.resource_count, 3);
    CHECK(str_starts(c.resource[0].text, STR("opensandbox-execd-")));
    CHECK_SPAN(c.resource[0].key, "service.name");
    check_attribute(&c.resource[1], "sandbox_id", "sb");
    check_attribute(&c.resource[2], "team", "a b");
    CHECK_EQ(c.point_count, 3);
    check_attribute(&c.points[0], "sandbox_id", "sb");
    check_attribute(&c.points[1], "x", "1=2");
    check_attribute(&c.points[2], "z", "%20");
    CHECK_EQ(read_conf(ENV("HOST_IP=1.2.3.4"), "", &c, NULL), 1);
    CHECK_EQ(c.resource_count, 1);
    CHECK_EQ(c.point_count, 0);
}

TEST(telemetry_conf, keeps_attributes_within_bounds)
{
    AUTO_BUF(list, 1 << 20);
    struct telemetry_conf c;

    CHECK_EQ(buf_addf(&list, "OTEL_RESOURCE_ATTRIBUTES=long=%0*d,raw=\xff", 300, 0), 0);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(buf_addf(&list, ",k%d=v", i), 0);
    CHECK_EQ(read_conf(ENV("HOST_IP=1.2.3.4", list.p), "", &c, NULL), 1);
    CHECK_EQ(c.resource_count, ARRAY_LEN(c.resource));
    check_attribute(&c.resource[1], "k0", "v");
}

TEST(telemetry_conf, takes_headers_that_break_nothing)
{
    struct telemetry_conf c;

    CHECK_EQ(read_conf(ENV("HOST_IP=1.2.3.4",
                           "OTEL_EXPORTER_OTLP_HEADERS=api-key=a%3Db,host=x,a b=c,x=%0D%0Ay,z=1"),
                       "", &c, NULL),
             1);
    CHECK_EQ(c.header_count, 3);
    CHECK_SPAN(c.headers[0].value, "application/x-protobuf");
    CHECK_SPAN(c.headers[1].name, "api-key");
    CHECK_SPAN(c.headers[1].value, "a=b");
    CHECK_SPAN(c.headers[2].name, "z");
}

TEST(telemetry_conf, sends_traces_beside_metrics)
{
    const char *const *env =
        ENV("OTEL_EXPORTER_OTLP_ENDPOINT=http://b/in", "OTEL_METRIC_EXPORT_INTERVAL=1000",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=b", "OTEL_EXPORTER_OTLP_METRICS_HEADERS=c=d");
    const char *const *own =
        ENV("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t:1/x", "OTEL_BSP_SCHEDULE_DELAY=200");
    const char *const *none = ENV("HOST_IP=1.2.3.4", "OTEL_TRACES_EXPORTER=none");
    struct telemetry_conf c;

    arena_init(&memory, TELEMETRY_CONF_BYTES_MAX);
    CHECK(telemetry_conf_wanted(env, STR_NONE, TELEMETRY_TRACES));
    CHECK_EQ(telemetry_conf_read(env, STR_NONE, TELEMETRY_TRACES, &memory, &c, NULL), 0);
    CHECK(str_eq(c.target, STR("/in/v1/traces")) && c.interval_ms == TELEMETRY_DELAY_MS);
    CHECK(str_eq(c.headers[0].value, STR("application/json")));
    CHECK(c.header_count == 2 && str_eq(c.headers[1].name, STR("a")));
    CHECK(telemetry_conf_wanted(own, STR_NONE, TELEMETRY_TRACES));
    CHECK(!telemetry_conf_wanted(own, STR_NONE, TELEMETRY_METRICS));
    CHECK_EQ(telemetry_conf_read(own, STR_NONE, TELEMETRY_TRACES, &memory, &c, NULL), 0);
    CHECK(str_eq(c.target, STR("/x")) && c.interval_ms == 200);
    CHECK(telemetry_conf_wanted(none, STR_NONE, TELEMETRY_METRICS));
    CHECK(!telemetry_conf_wanted(none, STR_NONE, TELEMETRY_TRACES));
    arena_done(&memory);
}
