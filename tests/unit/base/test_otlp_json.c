#include "base/otlp_json.h"

#include "base/json_write.h"

#include "test.h"

static const struct otlp_attribute resource[] = {
    {STR_INIT("service.name"), STR_INIT("s"), 0}
};
static const struct otlp_conf conf = {
    .resource = resource, .resource_count = 1, .scope = STR_INIT("m"), .version = STR_INIT("2")};
static const struct trace_context context = {
    {1, 0xab},
    {2},
    true
};

TEST(otlp_json, wraps_the_objects_of_each_signal)
{
    AUTO_BUF(out, 4096);

#define WRAPPED(resources, scopes, rows)                                                           \
    "{\"" resources "\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"      \
    "{\"stringValue\":\"s\"}}]},\"" scopes "\":[{\"scope\":{\"name\":\"m\",\"version\":\"2\"},"    \
    "\"" rows "\":[]}]}]}"
    CHECK_EQ(otlp_json_head(&out, OTLP_TRACES, &conf), 0);
    CHECK_EQ(otlp_json_tail(&out), 0);
    CHECK_SPAN(buf_str(&out), WRAPPED("resourceSpans", "scopeSpans", "spans"));
    buf_clear(&out);
    CHECK_EQ(otlp_json_head(&out, OTLP_METRICS, &conf), 0);
    CHECK_EQ(otlp_json_tail(&out), 0);
    CHECK_SPAN(buf_str(&out), WRAPPED("resourceMetrics", "scopeMetrics", "metrics"));
    buf_clear(&out);
    CHECK_EQ(otlp_json_head(&out, OTLP_LOGS, &conf), 0);
    CHECK_EQ(otlp_json_tail(&out), 0);
    CHECK_SPAN(buf_str(&out), WRAPPED("resourceLogs", "scopeLogs", "logRecords"));
}

TEST(otlp_json, writes_a_span)
{
    const struct trace_attribute rows[] = {
        {"http.route", STR("/v1/\"x\""), 0  },
        {"n",          STR_NONE,         -12}
    };
    const struct trace_note note = {STR("GET x"), TRACE_SERVER, true, rows, ARRAY_LEN(rows)};
    const struct trace_span span = {context, {3}, 1};
    const struct trace_row row = {&span, &note, 1000000000000000001, 1000000000000000002};
    AUTO_BUF(out, 4096);

    CHECK_EQ(otlp_json_span(&out, &row), 0);
    CHECK_SPAN(
        buf_str(&out),
        "{\"traceId\":\"01ab0000000000000000000000000000\",\"spanId\":\"0200000000000000\","
        "\"parentSpanId\":\"0300000000000000\",\"name\":\"GET x\",\"kind\":2,"
        "\"startTimeUnixNano\":\"1000000000000000001\","
        "\"endTimeUnixNano\":\"1000000000000000002\",\"attributes\":[{\"key\":\"http.route\","
        "\"value\":{\"stringValue\":\"/v1/\\\"x\\\"\"}},{\"key\":\"n\",\"value\":"
        "{\"intValue\":\"-12\"}}],\"status\":{\"code\":2}}");
}

TEST(otlp_json, leaves_out_what_a_root_span_has_not)
{
    const struct trace_note note = {STR("x"), TRACE_INTERNAL, false, NULL, 0};
    const struct trace_span span = {context, {0}, 1};
    AUTO_BUF(out, 4096);

    CHECK_EQ(otlp_json_span(&out, &(struct trace_row){&span, &note, 1, 2}), 0);
    CHECK_SPAN(buf_str(&out),
               "{\"traceId\":\"01ab0000000000000000000000000000\",\"spanId\":\"0200000000000000\","
               "\"name\":\"x\",\"kind\":1,\"startTimeUnixNano\":\"1\",\"endTimeUnixNano\":\"2\"}");
}

TEST(otlp_json, is_as_before_when_there_is_no_room)
{
    const struct trace_note note = {STR("x"), TRACE_INTERNAL, false, NULL, 0};
    const struct trace_span span = {context, {0}, 1};
    AUTO_BUF(out, 64);

    CHECK_EQ(buf_add(&out, STR("before")), 0);
    CHECK(otlp_json_span(&out, &(struct trace_row){&span, &note, 1, 2}) < 0);
    CHECK(otlp_json_head(&out, OTLP_TRACES, &conf) < 0);
    CHECK_SPAN(buf_str(&out), "before");
}

TEST(otlp_json, writes_a_log_record_without_secrets)
{
    const struct log_field fields[] = {
        LOG_STR("sandbox", "id"),     LOG_U64("us", 7),
        LOG_I64("status", -1),        LOG_BOOL("yes", true),
        LOG_SECRET("key", "hunter2"), {.key = NULL},
    };
    const struct otlp_log log = {5, LOG_WARN, "it \"broke\"", fields, &context};
    AUTO_BUF(out, 4096);

    CHECK_EQ(otlp_json_log(&out, &log), 0);
    CHECK_SPAN(
        buf_str(&out),
        "{\"timeUnixNano\":\"5\",\"severityNumber\":13,\"severityText\":\"WARN\",\"body\":"
        "{\"stringValue\":\"it \\\"broke\\\"\"},\"attributes\":[{\"key\":\"sandbox\","
        "\"value\":{\"stringValue\":\"id\"}},{\"key\":\"us\",\"value\":{\"intValue\":\"7\"}},"
        "{\"key\":\"status\",\"value\":{\"intValue\":\"-1\"}},{\"key\":\"yes\",\"value\":"
        "{\"stringValue\":\"true\"}},{\"key\":\"key\",\"value\":{\"stringValue\":"
        "\"\\u003credacted\\u003e\"}}],\"traceId\":\"01ab0000000000000000000000000000\","
        "\"spanId\":\"0200000000000000\"}");
}

TEST(otlp_json, writes_metrics_of_each_kind)
{
    const struct trace_attribute labels[] = {
        {"state", STR("Running"), 0}
    };
    const double bounds[] = {0.5, 1};
    const uint64_t buckets[] = {1, 2, 3};
    struct otlp_histogram h = {
        .count = 6, .sum = 4.5, .bounds = bounds, .bound_count = 2, .buckets = buckets};
    struct otlp_json_metric m = {.kind = OTLP_COUNTER, .begin_ns = 1, .now_ns = 2};
    struct json_writer w;
    AUTO_BUF(out, 4096);

    json_write_begin(&w, &out);
    json_write_array(&w);
    otlp_json_metric_begin(&m, &w, STR("c"), STR("help"), STR(""));
    otlp_json_point(&m, labels, 1, 9, true);
    otlp_json_metric_end(&m);
    m.kind = OTLP_GAUGE;
    otlp_json_metric_begin(&m, &w, STR("g"), STR(""), STR("s"));
    otlp_json_point(&m, NULL, 0, 0.25, false);
    otlp_json_metric_end(&m);
    m.kind = OTLP_HISTOGRAM;
    otlp_json_metric_begin(&m, &w, STR("h"), STR(""), STR("s"));
    otlp_json_point_histogram(&m, NULL, 0, &h);
    otlp_json_metric_end(&m);
    json_write_array_end(&w);
    CHECK_EQ(json_write_end(&w), 0);
    CHECK_SPAN(buf_str(&out),
               "[{\"name\":\"c\",\"description\":\"help\",\"unit\":\"\",\"sum\":{"
               "\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":[{\"attributes\":"
               "[{\"key\":\"state\",\"value\":{\"stringValue\":\"Running\"}}],"
               "\"startTimeUnixNano\":\"1\",\"timeUnixNano\":\"2\",\"asInt\":\"9\"}]}},"
               "{\"name\":\"g\",\"description\":\"\",\"unit\":\"s\",\"gauge\":{\"dataPoints\":[{"
               "\"timeUnixNano\":\"2\",\"asDouble\":0.25}]}},{\"name\":\"h\",\"description\":\"\","
               "\"unit\":\"s\",\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{"
               "\"startTimeUnixNano\":\"1\",\"timeUnixNano\":\"2\",\"count\":\"6\",\"sum\":4.5,"
               "\"bucketCounts\":[\"1\",\"2\",\"3\"],\"explicitBounds\":[0.5,1]}]}}]");
}
