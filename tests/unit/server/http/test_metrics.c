#include "server/http/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/json.h"

#include "test.h"

enum { TEXT_MAX = 1 << 20 };
#define MS UINT64_C(1000000)

static const struct http_route routes[] = {
    {.methods = HTTP_BIT(HTTP_GET),                         .path = "/v1/sandboxes"                 },
    {.methods = HTTP_BIT(HTTP_POST),                        .path = "/v1/sandboxes"                 },
    {.methods = HTTP_BIT(HTTP_GET) | HTTP_BIT(HTTP_DELETE), .path = "/v1/sandboxes/{id}"            },
    {.methods = HTTP_ANY_METHOD,                            .path = "/sandboxes/{id}/proxy/{port}/*"},
};

static void render(const struct metrics *m, struct buf *out)
{
    struct metrics_gauges g = {0};

    buf_clear(out);
    CHECK_EQ(metrics_render(m, &g, out), 0);
}

/* Whether the text has that line, whole. */
static bool has_line(const struct buf *text, const char *line)
{
    struct str rest = buf_str(text), one;

    while (str_cut(&rest, '\n', &one)) {
        if (str_eq(one, str_of(line)))
            return true;
    }
    return false;
}

#define CHECK_LINE(text, line)                                                                     \
    do {                                                                                           \
        if (!has_line(text, line))                                                                 \
            test_fail(__FILE__, __LINE__, "no line %s in\n%s", line, (text)->p);                   \
    } while (0)

TEST(metrics, counts_requests_by_route_method_and_class)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    AUTO_BUF(text, TEXT_MAX);

    metrics_request(m, &routes[0], HTTP_GET, 200, MS);
    metrics_request(m, &routes[0], HTTP_GET, 204, MS);
    metrics_request(m, &routes[0], HTTP_HEAD, 200, MS);
    metrics_request(m, &routes[1], HTTP_POST, 503, MS);
    metrics_request(m, &routes[2], HTTP_DELETE, 404, MS);
    metrics_request(m, &routes[3], HTTP_OTHER, 101, MS);
    metrics_request(m, NULL, HTTP_GET, 404, MS);
    render(m, &text);
#define REQUESTS "opensandbox_http_requests_total{route="
    CHECK_LINE(&text, REQUESTS "\"/v1/sandboxes\",method=\"GET\",status=\"2xx\"} 2");
    CHECK_LINE(&text, REQUESTS "\"/v1/sandboxes\",method=\"HEAD\",status=\"2xx\"} 1");
    CHECK_LINE(&text, REQUESTS "\"/v1/sandboxes\",method=\"POST\",status=\"5xx\"} 1");
    CHECK_LINE(&text, REQUESTS "\"/v1/sandboxes/{id}\",method=\"DELETE\",status=\"4xx\"} 1");
    CHECK_LINE(&text,
               REQUESTS "\"/sandboxes/{id}/proxy/{port}/*\",method=\"other\",status=\"1xx\"} 1");
    CHECK_LINE(&text, REQUESTS "\"none\",method=\"GET\",status=\"4xx\"} 1");
    CHECK(!strstr(text.p, "method=\"PUT\"")); /* what never was has no series */
    metrics_free(m);
}

TEST(metrics, counts_statuses_that_are_none)
{
    static const int odd[] = {0, -1, 42, 99, 600, 12345};
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    AUTO_BUF(text, TEXT_MAX);

    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        metrics_request(m, NULL, HTTP_GET, odd[i], MS);
    render(m, &text);
    CHECK_LINE(&text, REQUESTS "\"none\",method=\"GET\",status=\"none\"} 6");
    metrics_free(m);
}

#define CREATE "opensandbox_sandbox_create_duration_seconds"

TEST(metrics, puts_durations_into_buckets_that_add_up)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    AUTO_BUF(text, TEXT_MAX);

    metrics_create(m, 0);
    metrics_create(m, MS);     /* the bound belongs to its bucket */
    metrics_create(m, MS + 1); /* and not a nanosecond more */
    metrics_create(m, 60000 * MS);
    render(m, &text);
    CHECK_LINE(&text, "# TYPE " CREATE " histogram");
    CHECK_LINE(&text, CREATE "_bucket{le=\"0.001\"} 2");
    CHECK_LINE(&text, CREATE "_bucket{le=\"0.002\"} 3");
    CHECK_LINE(&text, CREATE "_bucket{le=\"10\"} 3");
    CHECK_LINE(&text, CREATE "_bucket{le=\"+Inf\"} 4");
    CHECK_LINE(&text, CREATE "_sum 60.002000001");
    CHECK_LINE(&text, CREATE "_count 4");
    metrics_free(m);
}

TEST(metrics, has_a_histogram_per_route_and_method)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    AUTO_BUF(text, TEXT_MAX);

    metrics_request(m, &routes[1], HTTP_POST, 202, 7 * MS);
    render(m, &text);
#define DURATION "opensandbox_http_request_duration_seconds"
#define POSTS    "route=\"/v1/sandboxes\",method=\"POST\""
    CHECK_LINE(&text, DURATION "_bucket{" POSTS ",le=\"0.005\"} 0");
    CHECK_LINE(&text, DURATION "_bucket{" POSTS ",le=\"0.01\"} 1");
    CHECK_LINE(&text, DURATION "_sum{" POSTS "} 0.007000000");
    CHECK_LINE(&text, DURATION "_count{" POSTS "} 1");
    metrics_free(m);
}

TEST(metrics, shows_egress_as_far_as_it_answers)
{
    struct metrics *m = metrics_new(NULL, 0);
    struct metrics_gauges g = {0};
    AUTO_BUF(text, TEXT_MAX);

    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK(str_find_str(buf_str(&text), STR("egress")) == text.n);
    g.has_egress = true;
    g.egress_denied = 7;
    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK_LINE(&text, "opensandbox_egress_up 0");
    CHECK(str_find_str(buf_str(&text), STR("egress_policy_denied_total")) == text.n);
    g.egress_up = 1;
    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK_LINE(&text, "opensandbox_egress_up 1");
    CHECK_LINE(&text, "opensandbox_egress_policy_denied_total 7");
    metrics_free(m);
}

TEST(metrics, shows_the_values_it_is_given)
{
    struct metrics *m = metrics_new(NULL, 0);
    struct metrics_gauges g = {
        .sandboxes[SANDBOX_RUNNING] = 3,
        .has_slots = true,
        .slots_ready = 4,
        .gateway_refused = 5,
        .loop_lag_ns = 1500000,
        .connections = UINT64_MAX,
        .started_us = 1700000000000001,
    };
    AUTO_BUF(text, TEXT_MAX);

    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK_LINE(&text, "opensandbox_sandboxes{state=\"Running\"} 3");
    CHECK_LINE(&text, "opensandbox_sandboxes{state=\"Failed\"} 0");
    CHECK_LINE(&text, "opensandbox_slots{kind=\"ready\"} 4");
    CHECK_LINE(&text, "opensandbox_gateway_requests_total{outcome=\"refused\"} 5");
    CHECK_LINE(&text, "opensandbox_loop_lag_seconds 0.001500000");
    CHECK_LINE(&text, "opensandbox_connections 18446744073709551615");
    CHECK_LINE(&text, "opensandbox_start_time_seconds 1700000000.000001000");

    g.has_slots = false;
    buf_clear(&text);
    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK(!strstr(text.p, "slots"));
    CHECK_LINE(&text, "opensandbox_gateway_requests_total{outcome=\"refused\"} 5");
    metrics_free(m);
}

TEST(metrics, leaves_the_buffer_as_it_was_when_it_does_not_fit)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    struct metrics_gauges g = {0};
    AUTO_BUF(text, 1000);

    CHECK_EQ(buf_add(&text, STR("before")), 0);
    CHECK_EQ(metrics_render(m, &g, &text), -EMSGSIZE);
    CHECK_STR(text.p, "before");
    metrics_free(m);
}

TEST(metrics, reads_memory_and_descriptors_of_the_process)
{
    struct metrics_gauges before = {0}, after = {0};
    int fd;

    metrics_read_process(&before);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    metrics_read_process(&after);
    CHECK(before.open_fds >= 3);
    CHECK_EQ(after.open_fds, before.open_fds + 1);
    CHECK(after.resident_bytes > 4096);
    CHECK(after.resident_bytes < UINT64_C(1) << 40);
    CHECK_EQ(close(fd), 0);
}

TEST(metrics, has_the_same_rows_for_otlp)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    struct metrics_gauges g = {.loop_lag_ns = 1500 * MS,
                               .started_us = 7000000,
                               .has_telemetry = true,
                               .telemetry = {{3, 2, 1}}};
    const struct otlp_json_metric clock = {.begin_ns = 10, .now_ns = 20};
    AUTO_ARENA(arena, 4 << 20);
    AUTO_BUF(text, TEXT_MAX);
    AUTO_BUF(items, TEXT_MAX);
    struct str rest, line;
    struct json *tree;
    uint64_t count = 0, lines = 0;

    metrics_request(m, &routes[0], HTTP_GET, 200, MS);
    metrics_create(m, 3 * MS);
    CHECK_EQ(metrics_render(m, &g, &text), 0);
    CHECK_EQ(buf_add_char(&items, '['), 0);
    CHECK_EQ(metrics_render_otlp(m, &g, &clock, &items, &count), 0);
    CHECK_EQ(buf_add_char(&items, ']'), 0);
    CHECK_EQ(json_parse(&arena, buf_str(&items), NULL, &tree, NULL), 0);
    rest = buf_str(&text);
    while (str_cut(&rest, '\n', &line))
        lines += str_starts(line, STR("# TYPE "));
    CHECK_EQ(count, lines);
#define HAS(part) CHECK(strstr(items.p, part) != NULL)
    HAS("{\"name\":\"opensandbox_loop_lag_seconds\",\"description\":\"Longest turn of the event "
        "loop "
        "since the last scrape.\",\"unit\":\"s\",\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":"
        "\"20\",\"asDouble\":1.5}]}}");
    HAS("{\"attributes\":[{\"key\":\"route\",\"value\":{\"stringValue\":\"/v1/sandboxes\"}},{"
        "\"key\":\"method\",\"value\":{\"stringValue\":\"GET\"}},{\"key\":\"status\",\"value\":{"
        "\"stringValue\":\"2xx\"}}],\"startTimeUnixNano\":\"10\",\"timeUnixNano\":\"20\","
        "\"asInt\":\"1\"}");
    HAS("\"count\":\"1\",\"sum\":0.003,\"bucketCounts\":[\"0\",\"0\",\"1\",");
    HAS("{\"key\":\"outcome\",\"value\":{\"stringValue\":\"dropped\"}}],\"startTimeUnixNano\":"
        "\"10\",\"timeUnixNano\":\"20\",\"asInt\":\"2\"}");
    CHECK_LINE(&text, "opensandbox_telemetry_items_total{signal=\"traces\",outcome=\"sent\"} 3");
    CHECK_LINE(&text, "opensandbox_telemetry_failures_total{signal=\"traces\"} 1");
    metrics_free(m);
}

TEST(metrics, leaves_a_buffer_as_it_was_when_otlp_does_not_fit)
{
    struct metrics *m = metrics_new(routes, ARRAY_LEN(routes));
    struct metrics_gauges g = {0};
    const struct otlp_json_metric clock = {0};
    AUTO_BUF(items, 512);
    uint64_t count;

    CHECK_EQ(buf_add(&items, STR("before")), 0);
    CHECK(metrics_render_otlp(m, &g, &clock, &items, &count) < 0);
    CHECK_SPAN(buf_str(&items), "before");
    metrics_free(m);
}
