#include "ingress/metrics.h"

#include "ingress/intent.h"
#include "test.h"

TEST(metrics, sums_the_workers)
{
    static struct metrics a, b;
    struct metrics *both[] = {&a, &b};
    struct intents_stats intents = {.dropped = 7};
    struct metrics_rest rest = {.intents = &intents, .watch_lag_s = 3};
    AUTO_BUF(out, 1 << 20);

    metric_add(&a, METRIC_PROXIED, 2);
    metric_add(&b, METRIC_PROXIED, 3);
    metric_add(&b, METRIC_TUNNELS_NOW, 1);
    metric_add(&b, METRIC_TUNNELS_NOW, -1);
    metric_status(&a, 200);
    metric_status(&b, 200);
    metric_status(&b, 404);
    metric_status(&b, 0);
    metric_observe(&a.requests, 700 * 1000);
    metric_observe(&b.requests, 100 * 1000 * 1000 * 1000ULL);
    CHECK_EQ(metrics_write(&out, both, 2, &rest), 0);
    CHECK(strstr(out.p, "\ningress_proxy_http_requests_total 5\n"));
    CHECK(strstr(out.p, "\ningress_proxy_websocket_connections 0\n"));
    CHECK(strstr(out.p, "ingress_http_request_count_total{status=\"200\"} 2\n"));
    CHECK(strstr(out.p, "ingress_http_request_count_total{status=\"404\"} 1\n"));
    CHECK(strstr(out.p, "ingress_http_request_duration_seconds_bucket{le=\"0.0005\"} 0\n"));
    CHECK(strstr(out.p, "ingress_http_request_duration_seconds_bucket{le=\"0.001\"} 1\n"));
    CHECK(strstr(out.p, "ingress_http_request_duration_seconds_bucket{le=\"60\"} 1\n"));
    CHECK(strstr(out.p, "ingress_http_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"));
    CHECK(strstr(out.p, "ingress_http_request_duration_seconds_count 2\n"));
    CHECK(strstr(out.p, "ingress_renew_intents_total{result=\"dropped\"} 7\n"));
    CHECK(strstr(out.p, "ingress_watch_lag_seconds 3\n"));
}
